"""From our Markdown to Telegram's HTML. The one module with markdown-it; `parts` splits what comes out of here.

Telegram knows a handful of tags and counts the text without them. Everything that it has no tag for is put into words
and lines: headings become bold, tables are drawn in a monospaced block, lists get bullets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape, unescape
from typing import TYPE_CHECKING

from bots.common.markdown import get_rows, render_table
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MAX_UNITS = 4096
# Besides the text's length Telegram bounds the raw size of a message with its tags (32768 bytes).
MAX_BYTES = 30000

_ATOM = re.compile(r"<[^>]*>|&[#\w]{1,10};|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _BreakPoint:
    """Where a part may end: before the atom `index`, after so many UTF-16 units of text."""

    index: int
    units: int


def split_message(html: str, limit: int = MAX_UNITS) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units of text: between blocks, else lines, words, characters.

    Tags that are open at a split are closed there and opened again in the next part. Nothing visible gives no parts.
    """
    atoms: list[str] = _ATOM.findall(html)
    parts: list[str] = []
    open_tags: list[str] = []
    start = 0
    while start < len(atoms):
        end = _find_end(atoms, start, open_tags, limit)
        while end < len(atoms) and atoms[end].startswith("</"):
            end += 1
        part_atoms = atoms[start:end]
        prefix = "".join(open_tags)
        open_tags = _get_open_tags(open_tags, part_atoms)
        part = (prefix + "".join(part_atoms)).strip() if not prefix else prefix + "".join(part_atoms).rstrip()
        part += "".join(_closing_tag(tag) for tag in reversed(open_tags))
        if strip_tags(part).strip():
            parts.append(part)
        start = end
    return parts


def strip_tags(html: str) -> str:
    """Return the text alone, for a message whose markup was rejected."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def utf16_length(text: str) -> int:
    """Return how many UTF-16 units a text has, which is how Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _find_end(atoms: list[str], start: int, open_tags: list[str], limit: int) -> int:
    """Return where the part that begins at `start` ends."""
    units, byte_count, depth = 0, sum(2 * len(tag) for tag in open_tags), len(open_tags)
    block = line = word = _BreakPoint(start, 0)
    for index in range(start, len(atoms)):
        atom = atoms[index]
        byte_count += len(atom.encode())
        if atom.startswith("<") and len(atom) > 1:
            depth += -1 if atom.startswith("</") else 1
            continue
        units += utf16_length(unescape(atom))
        if units > limit or byte_count > MAX_BYTES:
            return _choose_break(atoms, start, index, units, (block, line, word))
        if atom == "\n":
            line = _BreakPoint(index + 1, units)
            block = line if depth == 0 and atoms[index - 1 : index] == ["\n"] else block
        elif atom == " ":
            word = _BreakPoint(index + 1, units)
    return len(atoms)


def _choose_break(
    atoms: list[str], start: int, full_index: int, units: int, break_points: tuple[_BreakPoint, ...]
) -> int:
    """Return the best place to end before the part is full; a place that would waste most of the part is none."""
    for break_point in break_points:
        if break_point.index > start and break_point.units > units // 3:
            return break_point.index
    # Tags right before the full mark belong to what comes next, or a part could end where it began.
    return max(full_index, start + 1)


def _get_open_tags(open_tags: list[str], atoms: list[str]) -> list[str]:
    tags = list(open_tags)
    for atom in atoms:
        if atom.startswith("</"):
            tags.pop()
        elif atom.startswith("<") and len(atom) > 1:
            tags.append(atom)
    return tags


def _closing_tag(tag: str) -> str:
    return f"</{tag[1:-1].split(maxsplit=1)[0]}>"


EMPTY_REPLY = "(an empty answer)"
RULE = "———"

# In running text: an address is left alone, a citation becomes a link, and a mention must not ring at anybody.
_INLINE_TOKEN = re.compile(
    r"(?P<address>https?://(?:(?![^\w\s/=&%~+-]+@)\S)+)|\[(?P<number>\d{1,4})\]|(?<!\w)@(?=(?P<name>\w+)|$)"
)
_WORD_JOINER = "\u2060"
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_INLINE_TAGS = {"strong": "b", "em": "i", "s": "s"}


def render(markdown: str, citations: Sequence[Citation] = (), asker_username: str = "") -> list[str]:
    """Return a reply as messages that Telegram accepts: HTML, numbered sources at the end, at least one message."""
    body = to_html(markdown, citations, asker_username)
    return split_message(
        "\n\n".join(block for block in (body, _render_sources(citations, asker_username)) if block)
    ) or [EMPTY_REPLY]


def to_html(markdown: str, citations: Sequence[Citation] = (), asker_username: str = "") -> str:
    """Return Markdown as HTML for Telegram's parse mode. Never raises; what is cut off in the middle still renders.

    `[n]` becomes a link where citation n has an http address. `asker` is the username that may be mentioned; all other
    mentions are defused.
    """
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    # A lone surrogate cannot be sent at all.
    clean = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    renderer = _HtmlRenderer(
        {citation.n: citation.url for citation in citations if _is_http_url(citation.url)}, asker_username
    )
    return renderer.render_blocks(SyntaxTreeNode(parser.parse(clean)).children)


def _render_sources(citations: Sequence[Citation], asker_username: str) -> str:
    if not citations:
        return ""
    renderer = _HtmlRenderer({}, asker_username)
    lines = ["<b>Sources</b>"]
    for citation in citations:
        title = renderer.render_text(citation.title or citation.path or citation.source, in_link=True)
        path_suffix = (
            f" · <code>{escape(citation.path, quote=False)}</code>"
            if citation.path and citation.path != citation.title
            else ""
        )
        lines.append(
            f"[{citation.n}] {_link(citation.url, title)}"
            if _is_http_url(citation.url)
            else f"[{citation.n}] {title}{path_suffix}"
        )
    return "\n".join(lines)


def _is_http_url(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _link(url: str, label: str) -> str:
    return f'<a href="{escape(url)}">{label}</a>'


class _HtmlRenderer:
    """Writes a syntax tree as HTML."""

    def __init__(self, citation_urls: dict[int, str], asker_username: str) -> None:
        self._citation_urls = citation_urls
        self._asker_username = asker_username.lower()

    def render_blocks(self, nodes: Sequence[SyntaxTreeNode], *, depth: int = 0, in_quote: bool = False) -> str:
        """Write blocks with an empty line between them."""
        html_blocks = (self._render_block(node, depth, in_quote) for node in nodes)
        return "\n\n".join(block for block in html_blocks if block.strip())

    def _render_block(self, node: SyntaxTreeNode, depth: int, in_quote: bool) -> str:
        if node.type in ("bullet_list", "ordered_list"):
            return self._render_list(node, depth, in_quote)
        if node.type == "blockquote":
            inner = self.render_blocks(node.children, depth=depth, in_quote=True)
            # Telegram has no quote within a quote.
            return inner if in_quote or not inner else f"<blockquote>{inner}</blockquote>"
        return self._render_leaf(node)

    def _render_leaf(self, node: SyntaxTreeNode) -> str:
        match node.type:
            case "fence" | "code_block":
                html = _render_code_block(node.content, node.info if node.type == "fence" else "")
            case "table":
                table = render_table(
                    [[self._get_plain_text(cell.children) for cell in row.children] for row in get_rows(node)]
                )
                html = f"<pre>{escape(table, quote=False)}</pre>"
            case "hr":
                html = RULE
            case _:
                html = self._render_inline(node.children) or escape(node.content, quote=False)
        return f"<b>{html}</b>" if node.type == "heading" and html else html

    def _render_list(self, node: SyntaxTreeNode, depth: int, in_quote: bool) -> str:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines: list[str] = []
        for item in node.children:
            marker = "•" if number is None else f"{number}."
            number = None if number is None else number + 1
            parts = [self._render_block(child, depth + 1, in_quote) for child in item.children]
            lines.append("  " * depth + f"{marker} " + "\n".join(part for part in parts if part.strip()))
        return "\n".join(lines)

    def _render_inline(self, nodes: Sequence[SyntaxTreeNode], *, in_link: bool = False) -> str:
        return "".join(self._render_span(node, in_link) for node in nodes)

    def _render_span(self, node: SyntaxTreeNode, in_link: bool) -> str:
        match node.type:
            case "text":
                html = self.render_text(node.content, in_link=in_link)
            case "code_inline":
                # A link around code would be lost: Telegram's entities for the two cannot contain each other.
                code = escape(node.content, quote=False)
                html = code if in_link else f"<code>{code}</code>"
            case "link" | "image":
                html = self._render_link(node, in_link)
            case "softbreak" | "hardbreak":
                html = "\n"
            case _:
                html = self._render_inline(node.children, in_link=in_link) or escape(node.content, quote=False)
        tag = _INLINE_TAGS.get(node.type)
        return f"<{tag}>{html}</{tag}>" if tag and html else html

    def _render_link(self, node: SyntaxTreeNode, in_link: bool) -> str:
        url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
        if in_link or not _is_http_url(url):
            return self._render_inline(node.children, in_link=in_link)
        label = self._render_inline(node.children, in_link=True)
        return _link(url, label if label.strip() else escape(url, quote=False))

    def render_text(self, text: str, *, in_link: bool) -> str:
        """Write running text, mentions defused; `linked` says that it is the text of a link, which takes no others."""
        pieces: list[str] = []
        position = 0
        for match in _INLINE_TOKEN.finditer(text):
            pieces.append(escape(text[position : match.start()], quote=False))
            pieces.append(self._render_token(match, in_link))
            position = match.end()
        return "".join([*pieces, escape(text[position:], quote=False)])

    def _render_token(self, match: re.Match[str], in_link: bool) -> str:
        if match["number"] is not None:
            url = self._citation_urls.get(int(match["number"]))
            return match[0] if url is None or in_link else _link(url, match[0])
        if match["address"] is not None:
            return escape(match[0], quote=False)
        return (
            "@"
            if self._asker_username and (match["name"] or "").lower() == self._asker_username
            else f"@{_WORD_JOINER}"
        )

    def _get_plain_text(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        """Return the text alone, for places that take no tags."""
        return "".join(
            " " if node.type in ("softbreak", "hardbreak") else self._get_plain_text(node.children) or node.content
            for node in nodes
        )


def _render_code_block(text: str, info: str) -> str:
    language = _LANGUAGE.match(info.strip())
    body = escape(text.rstrip("\n"), quote=False)
    if not body.strip():
        return ""
    return f'<pre><code class="language-{language[0]}">{body}</code></pre>' if language else f"<pre>{body}</pre>"
