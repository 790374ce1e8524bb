"""From our Markdown to that of forges: the same, but it calls nobody, closes nothing and leaves no traces elsewhere.

A forge makes more of a text than markup: names notify people and teams, numbers leave back links in the issues of
others, lines that begin with a slash are commands. An invisible character takes these meanings away, in code as well:
mail programs and bots read the source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bots.common.markdown import MarkdownRenderer, is_web_url
from bots.common.message_split import MarkdownSplitter
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

ZERO_WIDTH_SPACE = "\u200b"
# GitHub takes 65,536 characters, a marker of ours among them.
MAX_CHARS = 60_000
PUBLIC_HOST = "github.com"
# Leads to the same page, and leaves no back link there.
QUIET_HOST = "redirect.github.com"

_MENTION_SIGN = re.compile(r"(?<![A-Za-z0-9])@(?=[\w-])")
# Issues, merge requests, epics and snippets by their numbers; GH-12.
_NUMBER_SIGN = re.compile(r"[#!&$](?=\d)|(?<=\bGH)-(?=\d)", re.IGNORECASE)
_ADDRESS_SIGN = re.compile(r"(?<=\bhttp):(?=//)|(?<=\bhttps):(?=//)|(?<=\bwww)\.", re.IGNORECASE)
_REFERENCE_PATH = re.compile(r"/(?:issues|pull|pulls|discussions|commit|merge_requests|work_items|epics)/\w")
_QUICK_ACTION = re.compile(r"^([ \t>]*)/", re.MULTILINE)
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_MARKUP = re.compile(r"[\\*`~|\[\]<]|(?<![^\W_])_|_(?![^\W_])|&(?=[#\w])")
_LINE_START = re.compile(r"^([^\S\n]*)(#{1,6}(?=\s|$)|>|[-+=](?=[\s=-]|$))", re.MULTILINE)
_NUMBERED_ITEM = re.compile(r"^([^\S\n]*\d{1,9})([.)](?=\s|$))", re.MULTILINE)
_BACKTICKS = re.compile(r"`+")
_INLINE_MARKS = {"strong": "**", "em": "*", "s": "~~"}
_URL_ESCAPES = str.maketrans({"<": "%3C", ">": "%3E", "\\": "%5C", " ": "%20", "\n": ""})
_SPLITTER = MarkdownSplitter(re.compile(r"\S+|\s+"))


def render(markdown: str, citations: Sequence[Citation] = (), host: str = PUBLIC_HOST) -> list[str]:
    """Return a reply as a comment on the forge at a web host: numbered sources at the end."""
    return _ForgeRenderer(citations, host).render_reply(markdown, lambda text: [_disarm_lines(text)] if text else [])


def to_plain(part: str, max_chars: int = 0) -> list[str]:
    """Return a comment that was refused in pieces of at most `max_chars`."""
    return [_disarm_lines(piece) for piece in _SPLITTER.split(part, max_chars or MAX_CHARS)]


def _disarm_lines(text: str) -> str:
    """Return a text in which no line is a command."""
    return _QUICK_ACTION.sub(rf"\1{ZERO_WIDTH_SPACE}/", _LINE_ENDS.sub("\n", text))


class _ForgeRenderer(MarkdownRenderer):
    """Writes a syntax tree as Markdown of a forge at a web host."""

    bullet = "-"

    def __init__(self, citations: Sequence[Citation], host: str) -> None:
        self._host = host
        super().__init__(citations)

    def sanitize(self, text: str) -> str:
        return super().sanitize(_LINE_ENDS.sub("\n", text))

    def escape(self, text: str) -> str:
        text = _MARKUP.sub(r"\\\g<0>", text)
        text = _NUMBERED_ITEM.sub(r"\1\\\2", _LINE_START.sub(r"\1\\\2", text))
        text = _NUMBER_SIGN.sub(rf"\g<0>{ZERO_WIDTH_SPACE}", _disarm_names(text))
        return _ADDRESS_SIGN.sub(rf"{ZERO_WIDTH_SPACE}\g<0>", text)

    def is_linkable(self, url: str) -> bool:
        # On other hosts, nothing but code keeps a link to a topic from leaving a back link there.
        return is_web_url(url) and (self._host == PUBLIC_HOST or not self._is_reference(url))

    def has_room(self, url: str) -> bool:
        return is_web_url(url)

    def address(self, url: str) -> str:
        if not self.is_linkable(url):
            return self.code_span(url, in_link=False)
        return f"<{self._to_quiet(url).translate(_URL_ESCAPES)}>"

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        text = " ".join(text.split())
        level = len(node.markup) if set(node.markup) == {"#"} else (1 if node.tag == "h1" else 2)
        return f"{'#' * level} {text}" if text else ""

    def quote(self, text: str) -> str:
        return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))

    def code_block(self, code: str, language: str) -> str:
        body = _disarm_names(code.rstrip("\n"))
        fence = "`" * max(3, _longest_run(body) + 1)
        return f"{fence}{language}\n{body}\n{fence}" if body.strip() else ""

    def code_span(self, code: str, *, in_link: bool) -> str:
        one_line = _disarm_names(" ".join(code.split()))
        if not one_line:
            return ""
        ticks = "`" * (_longest_run(one_line) + 1)
        padding = " " * ("`" in (one_line[0], one_line[-1]))
        return f"{ticks}{padding}{one_line}{padding}{ticks}"

    def list_item(self, item: SyntaxTreeNode, marker: str, depth: int) -> str:
        text = ""
        for child in item.children:
            block = self.render_block(child, depth + 1)
            gap = "\n\n" if child.type == "paragraph" else "\n"
            text += f"{gap if text else ''}{block}" if block.strip() else ""
        indent = " " * (len(marker) + 1)
        return f"{marker} " + text.replace("\n", f"\n{indent}")

    def render_table(self, rows: Sequence[Sequence[SyntaxTreeNode]]) -> str:
        head, *body = [[self.render_cell(cell).replace("\n", " ") for cell in row] for row in rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))

    def mark(self, node_type: str, text: str) -> str:
        mark = _INLINE_MARKS.get(node_type, "") if text.strip() else ""
        return f"{mark}{text}{mark}"

    def link(self, url: str, label: str) -> str:
        return f"[{label}](<{self._to_quiet(url).translate(_URL_ESCAPES)}>)"

    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        label = self.render_inline(node.children, in_link=True) or self.escape(node.content or url)
        if in_link or not is_web_url(url) or not label.strip():
            return label
        return self.link(url, label) if self.is_linkable(url) else f"{label} ({self.address(url)})"

    def _to_quiet(self, url: str) -> str:
        """Return an address that leads to the same place, and leaves no back link there."""
        if self._host != PUBLIC_HOST or not self._is_reference(url):
            return url
        return urlsplit(url)._replace(netloc=QUIET_HOST).geturl()

    def _is_reference(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        return parts.netloc.lower().removeprefix("www.") == self._host and bool(_REFERENCE_PATH.search(parts.path))


def _disarm_names(text: str) -> str:
    return _MENTION_SIGN.sub(f"@{ZERO_WIDTH_SPACE}", text)


def _longest_run(text: str) -> int:
    """Return how many backticks stand in a row at most."""
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
