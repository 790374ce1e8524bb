"""Replies in Markdown: one parser and one walk over the syntax tree; a renderer per platform says how the pieces look.

markdown-it is imported when the first reply is rendered: it takes time that starting a bot must not take.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from core.formatting import replace_lone_surrogates, shorten, strip_control_characters
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

EMPTY_REPLY = "(an empty answer)"
RULE = "———"
# Of a source, in the list below an answer: longer addresses open nowhere, and whoever writes a document names it.
MAX_SOURCE_URL_CHARS = 2000
MAX_SOURCE_NAME_CHARS = 300
# Makes a mention or a mark harmless where it stands, without being seen.
WORD_JOINER = "\u2060"

_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")

# What a reader takes for the address that a link leads to: also a name alone, where its end is that of a host, and not
# that of a file.
_FILE_ENDS = "py|md|rs|sh|js|ts|go|cs|rb|pl|kt|hs|ml|mk|so|cc|hh|fs|vb|ps"
_HOST_ENDS = "com|org|net|io|dev|app|ai|cn|edu|gov|info|biz|xyz|top|shop|site|online|store|tech|cloud|bank|finance"
_ADDRESS = re.compile(
    r"(?:\b[a-z]{2,10}://|\bwww\.)([\w.-]{1,253})"
    r"|(?<![\w.-])((?:\d{1,3}\.){3}\d{1,3}|(?:[\w-]{1,63}\.){1,8}"
    rf"(?!(?:{_FILE_ENDS})\b)(?:{_HOST_ENDS}|[^\W\d_a-z][^\W\d_]{{1,20}}|[a-z]{{2}}))(?!\.?[\w-])",
    re.IGNORECASE,
)


def make_parser(parser_class: type[MarkdownIt] | None = None) -> MarkdownIt:
    """Return a parser (`bots/common/markdown_parser.py`)."""
    from bots.common import markdown_parser

    return markdown_parser.make_parser(parser_class) if parser_class else markdown_parser.make_parser()


def is_web_url(url: str) -> bool:
    """Return whether an address is one that a link may have."""
    return url.startswith(("http://", "https://"))


def get_language(info: str) -> str:
    """Return the language that the first line of a code block names, or an empty string."""
    match = _LANGUAGE.match(info.strip())
    return match[0] if match else ""


def is_formula(node: SyntaxTreeNode) -> bool:
    """Return whether a node of the syntax tree is a formula."""
    return node.type == "code_inline" and bool(node.meta)


def _to_plain_letters(label: str) -> str:
    """Return a label as a reader sees it: without invisible characters, with plain letters and full stops."""
    letters = unicodedata.normalize("NFKC", label).replace("\u3002", ".")
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Cf")


def _is_masking(label: str, url: str) -> bool:
    """Return whether the text of a link names another host than the one that it leads to.

    >>> _is_masking("https://bank.example/login", "https://evil.example/"), _is_masking("the guide", "https://a.example/")
    (True, False)
    """
    try:
        host = (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        return True
    names = (
        (match[1] or match[2]).lower().removeprefix("www.")
        for match in _ADDRESS.finditer(_to_plain_letters(label[:1000]))
    )
    return any(name.rstrip(".") != host for name in names)


class MarkdownRenderer(ABC):
    """Writes a reply in a platform's markup. `[n]` in it becomes a link where citation n has an address.

    Never raises; Markdown that is cut off in the middle still renders. A platform implements the abstract methods and
    overrides what it writes differently. Its `render` is then `Renderer(citations).render_reply(text, split)`.
    """

    bullet = "•"
    list_indent = "  "
    # How many columns a table may have before it is written as lists: lines that wrap cannot be read as a table.
    max_table_width = 64
    sources_heading = "**Sources**"
    line_break = "\n"
    block_break = "\n\n"
    # What in running text is more than text, apart from what `escape` handles; `render_token` writes it.
    token = re.compile(r"\[(?P<number>\d{1,4})\]")

    def __init__(self, citations: Sequence[Citation] = ()) -> None:
        self._citations = [self._bound(citation) for citation in citations]
        self._citation_urls = {
            citation.n: citation.url for citation in self._citations if self.is_linkable(citation.url)
        }

    def render_reply(self, markdown: str, split: Callable[[str], list[str]]) -> list[str]:
        """Return a reply as messages: numbered sources at the end, at least one message."""
        blocks = (self.render(markdown), self.render_sources())
        return split("\n\n".join(block for block in blocks if block)) or [EMPTY_REPLY]

    def render(self, markdown: str) -> str:
        """Return Markdown in the platform's markup."""
        from markdown_it.tree import SyntaxTreeNode

        return self.render_blocks(SyntaxTreeNode(make_parser().parse(self.sanitize(markdown))).children)

    def render_sources(self) -> str:
        """Return the numbered list of sources; nothing without citations."""
        lines = [self.sources_heading] if self._citations else []
        for citation in self._citations:
            plain_title = " ".join(self.sanitize(citation.title or citation.path or citation.source).split())
            title = self.render_title(plain_title)
            source = title
            if self.is_linkable(citation.url) and not _is_masking(plain_title, citation.url):
                source = self.link(citation.url, title)
            elif self.has_room(citation.url):
                # Too long for a separate link.
                source += f" ({self.address(citation.url)})"
            elif citation.path not in ("", citation.title):
                source += self.render_path(citation)
            lines.append(f"[{citation.n}] {source}")
        return "\n".join(lines)

    def _bound(self, citation: Citation) -> Citation:
        """Return a citation with an address and names that can be shown."""
        url = self.sanitize(citation.url)
        title, path = (shorten(name, MAX_SOURCE_NAME_CHARS) for name in (citation.title, citation.place))
        return replace(citation, url=url if len(url) <= MAX_SOURCE_URL_CHARS else "", title=title, path=path)

    def render_blocks(self, nodes: Sequence[SyntaxTreeNode], depth: int = 0) -> str:
        """Write blocks with an empty line between them. `depth` counts the lists around them."""
        rendered_blocks = (self.render_block(node, depth) for node in nodes)
        return self.block_break.join(block for block in rendered_blocks if block.strip())

    def render_block(self, node: SyntaxTreeNode, depth: int) -> str:
        """Write one block."""
        match node.type:
            case "bullet_list" | "ordered_list":
                text = self._render_list(node, depth)
            case "blockquote":
                text = self.quote(self.render_blocks(node.children, depth))
            case "fence" | "code_block":
                text = self.code_block(node.content, get_language(node.info) if node.type == "fence" else "")
            case "table":
                text = self.render_table([row.children for section in node.children for row in section.children])
            case "heading":
                text = self.heading(node, self.render_inline(node.children))
            case "hr":
                text = RULE
            case _:
                text = self.render_inline(node.children) or self.escape(node.content)
        return text

    def render_table(self, rows: Sequence[Sequence[SyntaxTreeNode]]) -> str:
        """Draw a table, with its links below; one that is too wide becomes a list for each row."""
        texts = [[self.plain_text(cell.children) for cell in row] for row in rows]
        # One long cell would widen every row of the drawing.
        if _get_table_width(texts) <= self.max_table_width:
            links = dict.fromkeys(
                self._render_span(node, in_link=False)
                for row in rows
                for cell in row
                for node in cell.walk()
                if node.type == "link"
            )
            return "\n".join([self.table(draw_table(texts)), *(f"{self.bullet} {link}" for link in links)])
        return self.render_records(rows)

    def render_records(self, rows: Sequence[Sequence[SyntaxTreeNode]]) -> str:
        """Write the rows of a wide table one after the other."""
        head, *body = rows
        return self.block_break.join(self._render_record(head, row) for row in body or [head])

    def _render_record(self, head: Sequence[SyntaxTreeNode], row: Sequence[SyntaxTreeNode]) -> str:
        """Write a row of a wide table: its first cell, then a line for each of the others that is not empty."""
        first_cell, *other_cells = [self.render_cell(cell) for cell in row]
        names = [self.plain_text(cell.children) for cell in head[1:]]
        values = [
            f"{self.escape_text(name)}: {value}" if name.strip() else value
            for name, value in zip(names, other_cells, strict=True)
            if value.strip()
        ]
        has_markup = any(node.type not in ("td", "th", "inline", "text") for node in row[0].walk())
        return self.record(first_cell if has_markup else self.mark("strong", first_cell), values)

    def render_cell(self, cell: SyntaxTreeNode) -> str:
        """Write a cell of a table in one line."""
        return self.render_inline(cell.children).replace(self.line_break, " ")

    def _render_list(self, node: SyntaxTreeNode, depth: int) -> str:
        start = int(node.attrs.get("start", 1))
        is_ordered = node.type == "ordered_list"
        return "\n".join(
            self.list_item(item, f"{number}." if is_ordered else self.bullet, depth)
            for number, item in enumerate(node.children, start)
        )

    def list_item(self, item: SyntaxTreeNode, marker: str, depth: int) -> str:
        """Write an item with the blocks in it."""
        blocks = (self.render_block(child, depth + 1) for child in item.children)
        content = "\n".join(block for block in blocks if block.strip())
        return f"{self.list_indent * depth}{marker} {content}"

    def render_inline(self, nodes: Sequence[SyntaxTreeNode], *, in_link: bool = False) -> str:
        """Write the spans of a block. `in_link` says that they are the text of a link, which takes no other links."""
        return "".join(self._render_span(node, in_link) for node in nodes)

    def _render_span(self, node: SyntaxTreeNode, in_link: bool) -> str:
        match node.type:
            case "text":
                return self.render_text(node.content, in_link=in_link)
            case "code_inline":
                return (self.formula if is_formula(node) else self.code_span)(node.content, in_link=in_link)
            case "link" | "image":
                url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
                if _is_masking(self.plain_text(node.children), url):
                    label = self.render_inline(node.children, in_link=in_link)
                    return f"{label} ({self.escape(url) if in_link else self.address(url)})"
                return self.render_link(node, url, in_link)
            case "softbreak" | "hardbreak":
                return self.line_break
        return self.mark(node.type, self.render_inline(node.children, in_link=in_link) or self.escape(node.content))

    def render_text(self, text: str, *, in_link: bool) -> str:
        """Write running text."""
        pieces: list[str] = []
        position = 0
        for match in self.token.finditer(text):
            pieces += [self.escape_text(text[position : match.start()]), self.render_token(match, in_link=in_link)]
            position = match.end()
        return "".join([*pieces, self.escape_text(text[position:])])

    def render_citation(self, match: re.Match[str], *, in_link: bool) -> str:
        """Write a citation's number, with a link where it has an address."""
        url = "" if in_link else self._citation_urls.get(int(match["number"]), "")
        return self.link(url, match[0]) if url else match[0]

    def plain_text(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        """Return the text alone, for places that take no markup."""
        return "".join(
            " " if node.type in ("softbreak", "hardbreak") else self.plain_text(node.children) or node.content
            for node in nodes
        )

    # What a platform may write differently.

    def sanitize(self, text: str) -> str:
        """Return a text that can be sent: without lone surrogates, and without characters that deceive."""
        return strip_control_characters(replace_lone_surrogates(text))

    def escape_text(self, text: str) -> str:
        """Return running text with everything disarmed, as `escape` does for any text."""
        return self.escape(text)

    def address(self, url: str) -> str:
        """Write an address unchanged, so that the link leads where its text says."""
        return self.link(url, self.escape(url)) if is_web_url(url) else self.escape(url)

    def is_linkable(self, url: str) -> bool:
        """Return whether the platform can link to an address."""
        return is_web_url(url)

    def has_room(self, url: str) -> bool:
        """Return whether an address can be written out."""
        return is_web_url(url)

    def render_token(self, match: re.Match[str], *, in_link: bool) -> str:
        """Write what `token` matched."""
        return self.render_citation(match, in_link=in_link)

    def render_title(self, title: str) -> str:
        """Write the title of a source."""
        return self.render_text(title, in_link=True)

    def render_path(self, citation: Citation) -> str:
        """Write where a source without a link is."""
        return f" · {self.code_span(self.sanitize(citation.path), in_link=False)}"

    def formula(self, source: str, *, in_link: bool) -> str:
        """Write a formula within a line, as its source in LaTeX."""
        return self.code_span(source, in_link=in_link)

    def record(self, title: str, values: Sequence[str]) -> str:
        """Write a row of a wide table: its title, and what else it says."""
        return "\n".join([title, *(f"{self.bullet} {value}" for value in values)])

    def table(self, drawing: str) -> str:
        """Write a table that is drawn in columns of equal width."""
        return self.code_block(drawing, "")

    # What every platform has of its own.

    @abstractmethod
    def escape(self, text: str) -> str:
        """Return text with everything disarmed that the platform would take for markup or a mention."""

    @abstractmethod
    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        """Write a heading."""

    @abstractmethod
    def quote(self, text: str) -> str:
        """Write a quotation."""

    @abstractmethod
    def code_block(self, code: str, language: str) -> str:
        """Write a code block; nothing where it is empty."""

    @abstractmethod
    def code_span(self, code: str, *, in_link: bool) -> str:
        """Write code within a line."""

    @abstractmethod
    def mark(self, node_type: str, text: str) -> str:
        """Write text as `strong`, `em` or `s`; as it is for any other type of node."""

    @abstractmethod
    def link(self, url: str, label: str) -> str:
        """Write a link; the label is markup already."""

    @abstractmethod
    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        """Write a link or an image, or its text where it cannot be a link."""


def draw_table(rows: Sequence[Sequence[str]]) -> str:
    """Draw a table, its first row as the head, in columns of equal width.

    >>> print(draw_table([("name", "版本"), ("kimas", "1")]))
    name  | 版本
    ------+-----
    kimas | 1
    """
    widths = _get_column_widths(rows)
    lines = [
        " | ".join(
            cell + " " * (width - _display_width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def _get_table_width(rows: Sequence[Sequence[str]]) -> int:
    """Return how many columns `draw_table` takes, which is the width of the line below its head."""
    widths = _get_column_widths(rows)
    return sum(widths) + len(" | ") * (len(widths) - 1)


def _get_column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(_display_width(cell) for cell in column) for column in zip(*rows, strict=True)]


def _display_width(text: str) -> int:
    """Return how many columns a text takes in a monospaced block."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
