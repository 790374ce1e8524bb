"""From values to HTML: templates that escape everything, and the answer's Markdown as harmless markup.

Every text on the page comes from strangers, from a model, or from a document. So each value is freed of characters that
deceive and of secrets before it is escaped, and an answer may hold only the few elements that are written here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bots.common.markdown import MarkdownRenderer, is_web_url
from core.formatting import (
    format_age,
    format_cost,
    format_duration,
    format_wait,
    pluralize,
    replace_lone_surrogates,
    strip_control_characters,
)
from core.observability.logs import make_redactor
from core.types import Citation

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it.tree import SyntaxTreeNode

TEMPLATES = Path(__file__).parent / "templates"
# The page's own headings rank above those of an answer.
HEADING_OFFSET = 2
DEEPEST_HEADING = 6


class Html(str):
    """HTML that was made here, from a syntax tree whose every text was escaped: templates insert it as it is."""

    def __html__(self) -> str:
        """Return the HTML, as templates ask for it."""
        return self


class PageRenderer:
    """Renders templates. `secrets` never appear in what it returns."""

    def __init__(self, secrets: Collection[str] = (), **shared: Any) -> None:
        self._redact = make_redactor(secrets)
        self._environment = _make_environment(self._clean)
        self._environment.globals.update(shared)

    def render(self, template: str, **values: Any) -> str:
        """Return a page."""
        return self._environment.get_template(template).render(**values)

    def render_answer(self, markdown: str, citations: Sequence[Citation] = ()) -> Html:
        """Return an answer as HTML; `[n]` leads to the citation's place on the page."""
        return Html(_AnswerRenderer(citations, self._redact).render(markdown))

    def clean(self, text: str) -> str:
        """Return a text as it may be shown: without secrets, and characters that deceive."""
        return self._redact(strip_control_characters(replace_lone_surrogates(text)))

    def _clean(self, value: Any) -> Any:
        """Return a text as it may be shown; all other values as they are, and markup that was made here."""
        return value if not isinstance(value, str) or hasattr(value, "__html__") else self.clean(value)


def _make_environment(clean: Callable[[Any], Any]) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        finalize=clean,
        loader=FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        age=format_age,
        wait=format_wait,
        duration=format_duration,
        cost=format_cost,
        count=pluralize,
        ms=format_ms,
        moment=_format_moment,
        web_url=lambda url: url if is_web_url(str(url)) else "",
    )
    return environment


def format_ms(milliseconds: float) -> str:
    """Return a time in its fitting unit.

    >>> format_ms(12.3), format_ms(2345)
    ('12 ms', '2.3 s')
    """
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _format_moment(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"


class _AnswerRenderer(MarkdownRenderer):
    """Writes a syntax tree as HTML: paragraphs, lists, tables, code, and links to web addresses."""

    def __init__(self, citations: Sequence[Citation], redact: Callable[[str], str]) -> None:
        # The base class sanitizes what it is given.
        self._redact = redact
        super().__init__(citations)
        self._numbers = {citation.n for citation in citations}

    def sanitize(self, text: str) -> str:
        return self._redact(super().sanitize(text))

    def escape(self, text: str) -> str:
        return escape(text)

    def render_block(self, node: SyntaxTreeNode, depth: int) -> str:
        match node.type:
            case "paragraph":
                return f"<p>{self.render_inline(node.children)}</p>"
            case "bullet_list":
                return f"<ul>{super().render_block(node, depth)}</ul>"
            case "ordered_list":
                start = int(node.attrs.get("start", 1))
                return f'<ol start="{start}">{super().render_block(node, depth)}</ol>'
            case "table":
                return self._to_table(node)
            case "hr":
                return "<hr>"
        return super().render_block(node, depth)

    def list_item(self, item: SyntaxTreeNode, marker: str, depth: int) -> str:
        return f"<li>{self.render_blocks(item.children, depth + 1)}</li>"

    def _to_table(self, node: SyntaxTreeNode) -> str:
        rows = []
        for section in node.children:
            cell_tag = "th" if section.type == "thead" else "td"
            for row in section.children:
                cells = (f"<{cell_tag}>{self.render_inline(cell.children)}</{cell_tag}>" for cell in row.children)
                rows.append(f"<tr>{''.join(cells)}</tr>")
        return f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>{"".join(rows)}</table></div>'

    def render_citation(self, match: re.Match[str], *, in_link: bool) -> str:
        number = int(match["number"])
        is_known = number in self._numbers and not in_link
        return f'<a class="cite" href="#citation-{number}">[{number}]</a>' if is_known else match[0]

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        level = min(int(node.tag[1:]) + HEADING_OFFSET, DEEPEST_HEADING)
        return f"<h{level}>{text}</h{level}>"

    def quote(self, text: str) -> str:
        return f"<blockquote>{text}</blockquote>"

    def code_block(self, code: str, language: str) -> str:
        body = self.escape(code.rstrip("\n"))
        return f'<pre tabindex="0"><code>{body}</code></pre>' if body.strip() else ""

    def code_span(self, code: str, *, in_link: bool) -> str:
        return f"<code>{self.escape(code)}</code>"

    def mark(self, node_type: str, text: str) -> str:
        return f"<{node_type}>{text}</{node_type}>" if node_type in ("strong", "em", "s") else text

    def link(self, url: str, label: str) -> str:
        return f'<a href="{escape(url)}" rel="noopener noreferrer nofollow" target="_blank">{label}</a>'

    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        label = self.render_inline(node.children, in_link=True)
        # No picture is fetched: its address would learn who looks.
        return label if in_link or not is_web_url(url) else self.link(url, label if label.strip() else escape(url))
