"""From our Markdown to Slack's mrkdwn. The one module here with markdown-it; `parts` splits what comes out of it.

mrkdwn has no headings, tables or nested formatting of its own, and cannot escape its marks. Headings become bold,
tables are drawn in a code block, lists get bullets. `&`, `<` and `>` are the only characters that Slack reads as
anything but text, so that escaping them disarms every mention.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bots.common.markdown import drawn, rows_of
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# chat.update refuses more than 4,000 characters; chat.postMessage cuts off after 40,000 without a word.
LIMIT = 3900
# One call of the stream methods takes 12,000 characters of Markdown; the rest of a long answer comes at its end.
STREAM_LIMIT = 12000

FENCE = "```"
# What must not be torn apart: links, escaped characters, code within a line.
_ATOM = re.compile(r"<[^<>\n]*>|&\w{1,6};|`[^`\n]{1,200}`|.", re.DOTALL)


def split(text: str, limit: int = LIMIT) -> list[str]:
    """Split into parts of at most `limit` characters: between blocks, else lines, words, characters.

    Nothing visible gives no parts.
    """
    parts: list[str] = []
    current = ""
    for block in _blocks(text):
        joined = f"{current}\n\n{block}" if current else block
        if len(joined) <= limit:
            current = joined
            continue
        if current:
            parts.append(current)
        *whole, current = _pieces(block, limit)
        parts += whole
    return [part for part in [*parts, current] if part.strip()]


def _blocks(text: str) -> list[str]:
    """Return what stands between empty lines; a code block is one, whatever is in it."""
    blocks: list[str] = []
    for number, piece in enumerate(re.split(r"(?m)^```$", text)):
        if number % 2:
            blocks.append(f"{FENCE}\n{piece.strip(chr(10))}\n{FENCE}")
        else:
            blocks += [block for block in re.split(r"\n{2,}", piece.strip("\n")) if block.strip()]
    return blocks


def _pieces(block: str, limit: int) -> list[str]:
    """Split one block, at least into one piece."""
    if len(block) <= limit:
        return [block]
    fenced = block.startswith(f"{FENCE}\n")
    lines = block.split("\n")[1:-1] if fenced else block.split("\n")
    room = limit - (2 * len(FENCE) + 2 if fenced else 0)
    pieces: list[str] = []
    current: str | None = None
    for line in lines:
        for part in _chunks(line, room):
            joined = part if current is None else f"{current}\n{part}"
            if current is not None and len(joined) > room:
                pieces.append(current)
                joined = part
            current = joined
    pieces.append(current or "")
    return [f"{FENCE}\n{piece}\n{FENCE}" for piece in pieces] if fenced else pieces


def _chunks(line: str, room: int) -> list[str]:
    """Split one line after words where it has any."""
    if len(line) <= room:
        return [line]
    chunks: list[str] = []
    current, word_end = "", 0
    for atom in _ATOM.findall(line):
        for piece in [atom[at : at + room] for at in range(0, len(atom), room)]:
            if len(current) + len(piece) > room:
                cut = word_end if word_end > room // 3 else len(current)
                chunks.append(current[:cut].rstrip())
                current, word_end = current[cut:], 0
            current += piece
            word_end = len(current) if piece == " " else word_end
    return [*chunks, current]


EMPTY = "(an empty answer)"
RULE = "———"

_WORD_JOINER = "\u2060"
_ZERO_WIDTH_SPACE = "\u200b"
# Marks are written as private characters first, an opening and a closing one each: what stands next to them decides
# whether Slack would see them.
_MARKS = {"\ue000": "*", "\ue001": "*", "\ue002": "_", "\ue003": "_", "\ue004": "~", "\ue005": "~"}
_KINDS = {"strong": "\ue000\ue001", "em": "\ue002\ue003", "s": "\ue004\ue005"}
_OPENING, _CLOSING = "\ue000\ue002\ue004", "\ue001\ue003\ue005"
_NUMBER = re.compile(r"\[(\d{1,4})\]")
_RINGING = re.compile(r"(?<!\w)@(?=(?:channel|here|everyone|group)\b)", re.IGNORECASE)
_REFERENCE = re.compile(r"<(?=[!@#])")


def render(markdown: str, citations: Sequence[Citation] = ()) -> list[str]:
    """Return a reply as messages that Slack takes: mrkdwn, numbered sources at the end, at least one message."""
    body = to_mrkdwn(markdown, citations)
    return split("\n\n".join(block for block in (body, _sources(citations)) if block)) or [EMPTY]


def to_mrkdwn(markdown: str, citations: Sequence[Citation] = ()) -> str:
    """Return Markdown as mrkdwn. Never raises; what is cut off in the middle still renders.

    `[n]` becomes a link where citation n has an http address. Nobody is notified by what it says.
    """
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    writer = _Writer({one.n: one.url for one in citations if _linkable(one.url)})
    written = writer.blocks(SyntaxTreeNode(parser.parse(_clean(markdown))).children)
    return _marked(written)


def streamable(markdown: str) -> str:
    """Return the part of an unfinished Markdown text that may be shown already, its mentions disarmed.

    What this returns for a text is the beginning of what it returns for any longer one.
    """
    settled = re.sub(r"(?:<|<?@\w{0,12})\Z", "", _clean(markdown))
    return _RINGING.sub(f"@{_WORD_JOINER}", _REFERENCE.sub(f"<{_WORD_JOINER}", settled))


def _clean(markdown: str) -> str:
    # A lone surrogate cannot be sent at all, and the characters of our marks must not come from outside.
    sendable = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return re.sub("[\ue000-\ue005]", "", sendable)


def _sources(citations: Sequence[Citation]) -> str:
    if not citations:
        return ""
    lines = ["*Sources*"]
    for one in citations:
        title = _escaped(_clean(one.title or one.path or one.source))
        place = f" · `{_escaped(_clean(one.path))}`" if one.path and one.path != one.title else ""
        lines.append(f"[{one.n}] " + (_link(one.url, title) if _linkable(one.url) else f"{title}{place}"))
    return "\n".join(lines)


def _linkable(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _link(url: str, inner: str) -> str:
    # A bar would end the address, a line break the link.
    address = re.sub(r"[\s|<>]", lambda found: f"%{ord(found[0]):02X}", url).replace("&", "&amp;")
    return f"<{address}|{inner.replace('|', '¦').replace(chr(10), ' ')}>"


def _escaped(text: str) -> str:
    # A fence of the text's own would end a code block, or begin one.
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace(FENCE, f"``{_WORD_JOINER}`")
    return _RINGING.sub(f"@{_WORD_JOINER}", safe)


def _marked(text: str) -> str:
    """Write the marks of formatting: Slack sees them only where a word begins or ends."""
    spaced = re.sub(rf"(?<=\w)(?=[{_OPENING}])|(?<=[{_CLOSING}])(?=\w)", _ZERO_WIDTH_SPACE, text)
    return re.sub("[\ue000-\ue005]", lambda found: _MARKS[found[0]], spaced)


class _Writer:
    """Writes a syntax tree as mrkdwn."""

    def __init__(self, links: dict[int, str]) -> None:
        self._links = links

    def blocks(self, nodes: Sequence[SyntaxTreeNode], depth: int = 0) -> str:
        """Write blocks with an empty line between them."""
        written = (self._block(node, depth) for node in nodes)
        return "\n\n".join(block for block in written if block.strip())

    def _block(self, node: SyntaxTreeNode, depth: int) -> str:
        match node.type:
            case "bullet_list" | "ordered_list":
                written = self._list(node, depth)
            case "blockquote":
                written = "\n".join(f"> {line}" for line in self.blocks(node.children, depth).split("\n"))
            case "fence" | "code_block":
                written = _code(node.content)
            case "table":
                written = _code(drawn([[self._plain(cell.children) for cell in row.children] for row in rows_of(node)]))
            case "hr":
                written = RULE
            case _:
                written = self._inline(node.children) or _escaped(node.content)
        if node.type == "heading" and written.strip():
            # Bold within bold would end it.
            written = "\ue000" + re.sub("[\ue000\ue001]", "", written) + "\ue001"
        return written

    def _list(self, node: SyntaxTreeNode, depth: int) -> str:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines: list[str] = []
        for item in node.children:
            marker = "•" if number is None else f"{number}."
            number = None if number is None else number + 1
            inner = "\n".join(
                part for part in (self._block(child, depth + 1) for child in item.children) if part.strip()
            )
            # The fence of a code block needs a line of its own.
            lines.append("    " * depth + marker + ("\n" if inner.startswith(FENCE) else " ") + inner)
        return "\n".join(lines)

    def _inline(self, nodes: Sequence[SyntaxTreeNode], *, linked: bool = False) -> str:
        return "".join(self._span(node, linked) for node in nodes)

    def _span(self, node: SyntaxTreeNode, linked: bool) -> str:
        match node.type:
            case "text":
                written = self._text(node.content, linked)
            case "code_inline":
                # A backtick within code cannot be written.
                written = f"`{_escaped(node.content.replace('`', chr(0x2B9)))}`"
            case "link" | "image":
                written = self._linked(node, linked)
            case "softbreak" | "hardbreak":
                written = "\n"
            case _:
                written = self._inline(node.children, linked=linked) or _escaped(node.content)
        marks = _KINDS.get(node.type)
        return f"{marks[0]}{written}{marks[1]}" if marks and written.strip() else written

    def _linked(self, node: SyntaxTreeNode, linked: bool) -> str:
        url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
        if linked or not _linkable(url):
            return self._inline(node.children, linked=linked) or _escaped(node.content)
        inner = self._inline(node.children, linked=True) or _escaped(node.content)
        return _link(url, inner if inner.strip() else _escaped(url))

    def _text(self, text: str, linked: bool) -> str:
        written: list[str] = []
        position = 0
        for found in _NUMBER.finditer(text):
            url = "" if linked else self._links.get(int(found[1]), "")
            written += [_escaped(text[position : found.start()]), _link(url, found[0]) if url else found[0]]
            position = found.end()
        return "".join([*written, _escaped(text[position:])])

    def _plain(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        """Return the text alone, for places that take no marks."""
        return "".join(
            " " if node.type in ("softbreak", "hardbreak") else self._plain(node.children) or node.content
            for node in nodes
        )


def _code(text: str) -> str:
    body = _escaped(text.rstrip("\n"))
    return f"{FENCE}\n{body}\n{FENCE}" if body.strip() else ""
