"""From our Markdown to Telegram's HTML.

Text messages know a handful of tags, and Telegram counts their text without them. Everything that there is no tag for
is put into words and lines: headings become bold, tables are drawn in a monospaced block, lists get bullets.

Rich messages (Bot API 10.1) have tables, headings, lists and formulas, and take several times the text. They are for
answers with a table, a heading or a formula; all others look the same either way, and are shown by old apps, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from bots.common.markdown import WORD_JOINER, MarkdownRenderer, is_formula, is_web_url, make_parser
from bots.common.message_split import split_html, strip_tags
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MAX_UNITS = 4096

_LINK = re.compile(r'<a href="(https?://[^"<>]*)">((?:[^<]|<(?!/?a\b))*)</a>')
_INLINE_TAGS = {"strong": "b", "em": "i", "s": "s"}

# The limits of rich messages.
MAX_RICH_CHARS = 32_768
MAX_BLOCKS = 500
MAX_DEPTH = 16
# Telegram takes 20, but a telephone is not that wide: what has more becomes a list for each row.
MAX_COLUMNS = 8

_TAG = re.compile(r"<(?P<closing>/?)(?P<name>[a-z][a-z0-9-]*+)[^<>]*+>")
_VOID_TAGS = frozenset({"br", "hr"})
# How many blocks a tag counts as: text in an item or a quotation is a paragraph of its own.
_BLOCK_COUNTS = {
    **dict.fromkeys(("p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "footer", "hr", "ul", "ol", "tr", "table"), 1),
    **dict.fromkeys(("li", "blockquote"), 2),
    "tg-math-block": 1,
}
# What no answer without one of these can have: a heading, a table, a formula.
_HINT = re.compile(r"#|\||\\[(\[]|\$\$|\n *(?:=|--)|(?:```|~~~) ?math")
_ALIGNMENT = re.compile(r"text-align:(left|center|right)")
FORMULA_LANGUAGE = "math"


class RichHtml(str):
    """The HTML of a rich message. Any other string is the HTML of a text message."""

    __slots__ = ()


def split_message(html: str, limit: int = MAX_UNITS) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units of text."""
    return split_html(html, limit)


def render(markdown: str, citations: Sequence[Citation] = (), asker_username: str = "") -> list[str]:
    """Return a reply as messages that Telegram accepts: HTML, numbered sources at the end, at least one message."""
    return _HtmlRenderer(citations, asker_username).render_reply(markdown, split_message)


def render_rich(markdown: str, citations: Sequence[Citation] = ()) -> RichHtml | None:
    """Return a reply as a rich message; None where that is not worth it, or where it exceeds the limits."""
    from markdown_it.tree import SyntaxTreeNode

    if not _HINT.search(markdown):
        return None
    renderer = _RichRenderer(citations)
    tree = SyntaxTreeNode(make_parser().parse(renderer.sanitize(markdown)))
    if not any(map(_is_rich, tree.walk(include_self=False))):
        return None
    html = renderer.render_blocks(tree.children) + renderer.render_sources()
    return RichHtml(html) if html and _is_within_limits(html) else None


def write_out_links(html: str) -> str:
    """Return the text of HTML alone, with the addresses behind its links.

    >>> write_out_links('See <a href="https://example.org/?a&amp;b">the <b>guide</b></a>.')
    'See the guide (https://example.org/?a&b).'
    """
    return strip_tags(_LINK.sub(lambda link: link[2] if link[1] == link[2] else f"{link[2]} ({link[1]})", html))


def to_html(markdown: str, citations: Sequence[Citation] = (), asker_username: str = "") -> str:
    """Return Markdown as HTML for Telegram's parse mode.

    The user `asker_username` may be mentioned; all other mentions are disarmed.
    """
    return _HtmlRenderer(citations, asker_username).render(markdown)


class _HtmlRenderer(MarkdownRenderer):
    """Writes a syntax tree as HTML."""

    sources_heading = "<b>Sources</b>"
    # A citation becomes a link, and a mention must not notify anybody: in code it does not, and can be copied.
    token = re.compile(
        r"\[(?P<number>\d{1,4})\]|(?<!\w)@(?:(?P<name>[a-zA-Z]\w{2,63})(?P<package>/[\w.-]{1,200}\b)?|\Z)"
    )

    def __init__(self, citations: Sequence[Citation], asker_username: str) -> None:
        super().__init__(citations)
        self._asker_username = asker_username.lower()

    def escape(self, text: str) -> str:
        return escape(text, quote=False)

    def render_token(self, match: re.Match[str], *, in_link: bool) -> str:
        if match["number"] is not None:
            return self.render_citation(match, in_link=in_link)
        if match["name"] and self._asker_username == match["name"].lower() and not match["package"]:
            return match[0]
        # In a link there is no code, and an @ at the end stands before a name in bold.
        if in_link or not match["name"]:
            return f"@{WORD_JOINER}{match[0][1:]}"
        return self.code_span(match[0], in_link=False)

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        return f"<b>{text}</b>" if text else ""

    def quote(self, text: str) -> str:
        # Telegram has no quote within a quote.
        inner = re.sub("</?blockquote>", "", text)
        return f"<blockquote>{inner}</blockquote>" if inner else ""

    def code_block(self, code: str, language: str) -> str:
        body = self.escape(code.rstrip("\n"))
        if not body.strip():
            return ""
        return f'<pre><code class="language-{language}">{body}</code></pre>' if language else f"<pre>{body}</pre>"

    def table(self, drawing: str) -> str:
        return f"<pre>{self.escape(drawing)}</pre>"

    def code_span(self, code: str, *, in_link: bool) -> str:
        # A link around code would be lost: Telegram's entities for the two cannot contain each other.
        return self.escape(code) if in_link else f"<code>{self.escape(code)}</code>"

    def mark(self, node_type: str, text: str) -> str:
        tag = _INLINE_TAGS.get(node_type)
        return f"<{tag}>{text}</{tag}>" if tag and text else text

    def link(self, url: str, label: str) -> str:
        return f'<a href="{escape(url)}">{label}</a>'

    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        if in_link or not is_web_url(url):
            return self.render_inline(node.children, in_link=in_link)
        label = self.render_inline(node.children, in_link=True)
        return self.link(url, label) if label.strip() else self.address(url)


def _is_rich(node: SyntaxTreeNode) -> bool:
    """Return whether a part of an answer is more in a rich message than in another one."""
    is_formula_block = node.type == "fence" and node.info.strip() == FORMULA_LANGUAGE
    return node.type in ("table", "heading") or is_formula(node) or is_formula_block


def _is_within_limits(html: str) -> bool:
    block_count = 0
    depth = 0
    for tag in _TAG.finditer(html):
        if tag["closing"]:
            depth -= 1
        else:
            block_count += _BLOCK_COUNTS.get(tag["name"], 0)
            depth += tag["name"] not in _VOID_TAGS
        # An item or a quotation may be one deeper than it looks.
        if depth >= MAX_DEPTH or block_count > MAX_BLOCKS:
            return False
    return len(strip_tags(html)) <= MAX_RICH_CHARS


class _RichRenderer(_HtmlRenderer):
    """Writes a syntax tree as blocks. Telegram is told to find nothing by itself in it, so no mention notifies."""

    line_break = "<br>"
    block_break = ""
    token = MarkdownRenderer.token

    def __init__(self, citations: Sequence[Citation]) -> None:
        super().__init__(citations, "")

    def render_token(self, match: re.Match[str], *, in_link: bool) -> str:
        return self.render_citation(match, in_link=in_link)

    def render_block(self, node: SyntaxTreeNode, depth: int) -> str:
        match node.type:
            case "bullet_list" | "ordered_list":
                return self._render_list_block(node, depth)
            case "hr":
                return "<hr/>"
            case "heading" | "blockquote" | "fence" | "code_block" | "table":
                return super().render_block(node, depth)
        return self._render_formula_block(node) or _wrap("p", super().render_block(node, depth))

    def render_sources(self) -> str:
        return _wrap("footer", super().render_sources().replace("\n", self.line_break))

    def render_table(self, rows: Sequence[Sequence[SyntaxTreeNode]]) -> str:
        if len(rows[0]) > MAX_COLUMNS:
            return self.render_records(rows)
        lines = ("".join(f"<{cell.tag}{_get_alignment(cell)}>{self.render_cell(cell)}</{cell.tag}>" for cell in row)
                 for row in rows)  # fmt: skip
        return f"<table bordered striped>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    def record(self, title: str, values: Sequence[str]) -> str:
        return _wrap("p", title) + _wrap("ul", "".join(f"<li>{value}</li>" for value in values))

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        return _wrap(node.tag, text)

    def quote(self, text: str) -> str:
        is_one_paragraph = text.startswith("<p>") and text.endswith("</p>") and text.count("<p>") == 1
        return _wrap("blockquote", text[len("<p>") : -len("</p>")] if is_one_paragraph else text)

    def code_block(self, code: str, language: str) -> str:
        if language == FORMULA_LANGUAGE and code.strip():
            return f"<tg-math-block>{_escape_formula(' '.join(code.split()))}</tg-math-block>"
        return super().code_block(code, language)

    def formula(self, source: str, *, in_link: bool) -> str:
        return self.escape(source) if in_link else f"<tg-math>{_escape_formula(source)}</tg-math>"

    def _render_formula_block(self, node: SyntaxTreeNode) -> str:
        """Return a paragraph that is nothing but a formula, set apart; nothing for any other block."""
        spans = [span for inline in node.children for span in inline.children]
        if len(spans) != 1 or not is_formula(spans[0]) or not spans[0].meta["display"]:
            return ""
        return f"<tg-math-block>{_escape_formula(spans[0].content)}</tg-math-block>"

    def _render_list_block(self, node: SyntaxTreeNode, depth: int) -> str:
        start = int(node.attrs.get("start", 1))
        items = "".join(f"<li>{self._render_item(item, depth + 1)}</li>" for item in node.children)
        attribute = f' start="{start}"' if start != 1 else ""
        return f"<{node.tag}{attribute}>{items}</{node.tag}>"

    def _render_item(self, item: SyntaxTreeNode, depth: int) -> str:
        if len(item.children) == 1 and item.children[0].type == "paragraph":
            content = self.render_inline(item.children[0].children)
        else:
            content = self.render_blocks(item.children, depth)
        return content if content.strip() else "&nbsp;"


def _wrap(tag: str, content: str) -> str:
    """Return a block; nothing where it would be empty."""
    return f"<{tag}>{content}</{tag}>" if content.strip() else ""


def _get_alignment(cell: SyntaxTreeNode) -> str:
    match = _ALIGNMENT.search(str(cell.attrs.get("style", "")))
    return f' align="{match[1]}"' if match else ""


def _escape_formula(source: str) -> str:
    r"""Return LaTeX that holds no tag, whether its characters are read as HTML or as they are.

    >>> _escape_formula("a<b & c")
    'a\\lt b &amp; c'
    """
    return escape(source.replace("<", r"\lt ").replace(">", r"\gt "), quote=False)
