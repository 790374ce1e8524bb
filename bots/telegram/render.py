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

from bots.common.markdown import drawn, rows_of
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

LIMIT = 4096
# Besides the text's length Telegram bounds the raw size of a message with its tags (32768 bytes).
LIMIT_BYTES = 30000

_ATOM = re.compile(r"<[^>]*>|&[#\w]{1,10};|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part may end: before the atom `index`, after so many UTF-16 units of text."""

    index: int
    units: int


def split(html: str, limit: int = LIMIT) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units of text: between blocks, else lines, words, characters.

    Tags that are open at a split are closed there and opened again in the next part. Nothing visible gives no parts.
    """
    atoms: list[str] = _ATOM.findall(html)
    parts: list[str] = []
    opened: list[str] = []
    start = 0
    while start < len(atoms):
        end = _end(atoms, start, opened, limit)
        while end < len(atoms) and atoms[end].startswith("</"):
            end += 1
        piece = atoms[start:end]
        head = "".join(opened)
        opened = _open_after(opened, piece)
        part = (head + "".join(piece)).strip() if not head else head + "".join(piece).rstrip()
        part += "".join(_closing(tag) for tag in reversed(opened))
        if plain(part).strip():
            parts.append(part)
        start = end
    return parts


def plain(html: str) -> str:
    """Return the text alone, for a message whose markup was rejected."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def length(text: str) -> int:
    """Return how many UTF-16 units a text has, which is how Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _end(atoms: list[str], start: int, opened: list[str], limit: int) -> int:
    """Return where the part that begins at `start` ends."""
    units, size, depth = 0, sum(2 * len(tag) for tag in opened), len(opened)
    block = line = word = _Place(start, 0)
    for index in range(start, len(atoms)):
        atom = atoms[index]
        size += len(atom.encode())
        if atom.startswith("<") and len(atom) > 1:
            depth += -1 if atom.startswith("</") else 1
            continue
        units += length(unescape(atom))
        if units > limit or size > LIMIT_BYTES:
            return _best(atoms, start, index, units, (block, line, word))
        if atom == "\n":
            line = _Place(index + 1, units)
            block = line if depth == 0 and atoms[index - 1 : index] == ["\n"] else block
        elif atom == " ":
            word = _Place(index + 1, units)
    return len(atoms)


def _best(atoms: list[str], start: int, full: int, units: int, places: tuple[_Place, ...]) -> int:
    """Return the best place to end before the part is full; a place that would waste most of the part is none."""
    for place in places:
        if place.index > start and place.units > units // 3:
            return place.index
    # Tags right before the full mark belong to what comes next, or a part could end where it began.
    return max(full, start + 1)


def _open_after(opened: list[str], piece: list[str]) -> list[str]:
    now = list(opened)
    for atom in piece:
        if atom.startswith("</"):
            now.pop()
        elif atom.startswith("<") and len(atom) > 1:
            now.append(atom)
    return now


def _closing(tag: str) -> str:
    return f"</{tag[1:-1].split(maxsplit=1)[0]}>"


EMPTY = "(an empty answer)"
RULE = "———"

# In running text: an address is left alone, a citation becomes a link, and a mention must not ring at anybody.
_NOTABLE = re.compile(
    r"(?P<address>https?://(?:(?![^\w\s/=&%~+-]+@)\S)+)|\[(?P<number>\d{1,4})\]|(?<!\w)@(?=(?P<name>\w+)|$)"
)
_WORD_JOINER = "\u2060"
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_INLINE_TAGS = {"strong": "b", "em": "i", "s": "s"}


def render(markdown: str, citations: Sequence[Citation] = (), asker: str = "") -> list[str]:
    """Return a reply as messages that Telegram accepts: HTML, numbered sources at the end, at least one message."""
    body = to_html(markdown, citations, asker)
    return split("\n\n".join(block for block in (body, _sources(citations, asker)) if block)) or [EMPTY]


def to_html(markdown: str, citations: Sequence[Citation] = (), asker: str = "") -> str:
    """Return Markdown as HTML for Telegram's parse mode. Never raises; what is cut off in the middle still renders.

    `[n]` becomes a link where citation n has an http address. `asker` is the username that may be mentioned; all other
    mentions are defused.
    """
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    # A lone surrogate cannot be sent at all.
    clean = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    writer = _Writer({one.n: one.url for one in citations if _linkable(one.url)}, asker)
    return writer.blocks(SyntaxTreeNode(parser.parse(clean)).children)


def _sources(citations: Sequence[Citation], asker: str) -> str:
    if not citations:
        return ""
    writer = _Writer({}, asker)
    lines = ["<b>Sources</b>"]
    for one in citations:
        title = writer.text(one.title or one.path or one.source, linked=True)
        place = f" · <code>{escape(one.path, quote=False)}</code>" if one.path and one.path != one.title else ""
        lines.append(f"[{one.n}] {_link(one.url, title)}" if _linkable(one.url) else f"[{one.n}] {title}{place}")
    return "\n".join(lines)


def _linkable(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _link(url: str, inner: str) -> str:
    return f'<a href="{escape(url)}">{inner}</a>'


class _Writer:
    """Writes a syntax tree as HTML."""

    def __init__(self, links: dict[int, str], asker: str) -> None:
        self._links = links
        self._asker = asker.lower()

    def blocks(self, nodes: Sequence[SyntaxTreeNode], *, depth: int = 0, quoted: bool = False) -> str:
        """Write blocks with an empty line between them."""
        written = (self._block(node, depth, quoted) for node in nodes)
        return "\n\n".join(block for block in written if block.strip())

    def _block(self, node: SyntaxTreeNode, depth: int, quoted: bool) -> str:
        if node.type in ("bullet_list", "ordered_list"):
            return self._list(node, depth, quoted)
        if node.type == "blockquote":
            inner = self.blocks(node.children, depth=depth, quoted=True)
            # Telegram has no quote within a quote.
            return inner if quoted or not inner else f"<blockquote>{inner}</blockquote>"
        return self._leaf(node)

    def _leaf(self, node: SyntaxTreeNode) -> str:
        match node.type:
            case "fence" | "code_block":
                written = _code(node.content, node.info if node.type == "fence" else "")
            case "table":
                table = drawn([[self._plain(cell.children) for cell in row.children] for row in rows_of(node)])
                written = f"<pre>{escape(table, quote=False)}</pre>"
            case "hr":
                written = RULE
            case _:
                written = self._inline(node.children) or escape(node.content, quote=False)
        return f"<b>{written}</b>" if node.type == "heading" and written else written

    def _list(self, node: SyntaxTreeNode, depth: int, quoted: bool) -> str:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines: list[str] = []
        for item in node.children:
            marker = "•" if number is None else f"{number}."
            number = None if number is None else number + 1
            parts = [self._block(child, depth + 1, quoted) for child in item.children]
            lines.append("  " * depth + f"{marker} " + "\n".join(part for part in parts if part.strip()))
        return "\n".join(lines)

    def _inline(self, nodes: Sequence[SyntaxTreeNode], *, linked: bool = False) -> str:
        return "".join(self._span(node, linked) for node in nodes)

    def _span(self, node: SyntaxTreeNode, linked: bool) -> str:
        match node.type:
            case "text":
                written = self.text(node.content, linked=linked)
            case "code_inline":
                # A link around code would be lost: Telegram's entities for the two cannot contain each other.
                code = escape(node.content, quote=False)
                written = code if linked else f"<code>{code}</code>"
            case "link" | "image":
                written = self._linked(node, linked)
            case "softbreak" | "hardbreak":
                written = "\n"
            case _:
                written = self._inline(node.children, linked=linked) or escape(node.content, quote=False)
        tag = _INLINE_TAGS.get(node.type)
        return f"<{tag}>{written}</{tag}>" if tag and written else written

    def _linked(self, node: SyntaxTreeNode, linked: bool) -> str:
        url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
        if linked or not _linkable(url):
            return self._inline(node.children, linked=linked)
        inner = self._inline(node.children, linked=True)
        return _link(url, inner if inner.strip() else escape(url, quote=False))

    def text(self, text: str, *, linked: bool) -> str:
        """Write running text, mentions defused; `linked` says that it is the text of a link, which takes no others."""
        written: list[str] = []
        position = 0
        for found in _NOTABLE.finditer(text):
            written.append(escape(text[position : found.start()], quote=False))
            written.append(self._notable(found, linked))
            position = found.end()
        return "".join([*written, escape(text[position:], quote=False)])

    def _notable(self, found: re.Match[str], linked: bool) -> str:
        if found["number"] is not None:
            url = self._links.get(int(found["number"]))
            return found[0] if url is None or linked else _link(url, found[0])
        if found["address"] is not None:
            return escape(found[0], quote=False)
        return "@" if self._asker and (found["name"] or "").lower() == self._asker else f"@{_WORD_JOINER}"

    def _plain(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        """Return the text alone, for places that take no tags."""
        return "".join(
            " " if node.type in ("softbreak", "hardbreak") else self._plain(node.children) or node.content
            for node in nodes
        )


def _code(text: str, info: str) -> str:
    language = _LANGUAGE.match(info.strip())
    body = escape(text.rstrip("\n"), quote=False)
    if not body.strip():
        return ""
    return f'<pre><code class="language-{language[0]}">{body}</code></pre>' if language else f"<pre>{body}</pre>"
