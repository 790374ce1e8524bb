"""From our Markdown to Slack's mrkdwn. The one module here with markdown-it; `parts` splits what comes out of it.

mrkdwn has no headings, tables or nested formatting of its own, and cannot escape its marks. Headings become bold,
tables are drawn in a code block, lists get bullets. `&`, `<` and `>` are the only characters that Slack reads as
anything but text, so that escaping them disarms every mention.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bots.common.markdown import get_rows, render_table
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# chat.update refuses more than 4,000 characters; chat.postMessage cuts off after 40,000 without a word.
MAX_CHARS = 3900
# One call of the stream methods takes 12,000 characters of Markdown; the rest of a long answer comes at its end.
MAX_STREAM_CHARS = 12000

FENCE = "```"
# What must not be torn apart: links, escaped characters, code within a line.
_ATOM = re.compile(r"<[^<>\n]*>|&\w{1,6};|`[^`\n]{1,200}`|.", re.DOTALL)


def split_message(text: str, limit: int = MAX_CHARS) -> list[str]:
    """Split into parts of at most `limit` characters: between blocks, else lines, words, characters.

    Nothing visible gives no parts.
    """
    parts: list[str] = []
    current = ""
    for block in _split_blocks(text):
        candidate = f"{current}\n\n{block}" if current else block
        if len(candidate) <= limit:
            current = candidate
            continue
        if current:
            parts.append(current)
        *full_parts, current = _split_block(block, limit)
        parts += full_parts
    return [part for part in [*parts, current] if part.strip()]


def _split_blocks(text: str) -> list[str]:
    """Return what stands between empty lines; a code block is one, whatever is in it."""
    blocks: list[str] = []
    for index, piece in enumerate(re.split(r"(?m)^```$", text)):
        if index % 2:
            blocks.append(f"{FENCE}\n{piece.strip(chr(10))}\n{FENCE}")
        else:
            blocks += [block for block in re.split(r"\n{2,}", piece.strip("\n")) if block.strip()]
    return blocks


def _split_block(block: str, limit: int) -> list[str]:
    """Split one block, at least into one piece."""
    if len(block) <= limit:
        return [block]
    is_fenced = block.startswith(f"{FENCE}\n")
    lines = block.split("\n")[1:-1] if is_fenced else block.split("\n")
    available = limit - (2 * len(FENCE) + 2 if is_fenced else 0)
    pieces: list[str] = []
    current: str | None = None
    for line in lines:
        for part in _split_line(line, available):
            candidate = part if current is None else f"{current}\n{part}"
            if current is not None and len(candidate) > available:
                pieces.append(current)
                candidate = part
            current = candidate
    pieces.append(current or "")
    return [f"{FENCE}\n{piece}\n{FENCE}" for piece in pieces] if is_fenced else pieces


def _split_line(line: str, available: int) -> list[str]:
    """Split one line after words where it has any."""
    if len(line) <= available:
        return [line]
    chunks: list[str] = []
    current, word_end = "", 0
    for atom in _ATOM.findall(line):
        for piece in [atom[start : start + available] for start in range(0, len(atom), available)]:
            if len(current) + len(piece) > available:
                break_at = word_end if word_end > available // 3 else len(current)
                chunks.append(current[:break_at].rstrip())
                current, word_end = current[break_at:], 0
            current += piece
            word_end = len(current) if piece == " " else word_end
    return [*chunks, current]


EMPTY_REPLY = "(an empty answer)"
RULE = "———"

_WORD_JOINER = "\u2060"
_ZERO_WIDTH_SPACE = "\u200b"
# Marks are written as private characters first, an opening and a closing one each: what stands next to them decides
# whether Slack would see them.
_MARKS = {"\ue000": "*", "\ue001": "*", "\ue002": "_", "\ue003": "_", "\ue004": "~", "\ue005": "~"}
_MARK_PAIRS = {"strong": "\ue000\ue001", "em": "\ue002\ue003", "s": "\ue004\ue005"}
_OPENING, _CLOSING = "\ue000\ue002\ue004", "\ue001\ue003\ue005"
_NUMBER = re.compile(r"\[(\d{1,4})\]")
_BROADCAST_MENTION = re.compile(r"(?<!\w)@(?=(?:channel|here|everyone|group)\b)", re.IGNORECASE)
_REFERENCE = re.compile(r"<(?=[!@#])")


def render(markdown: str, citations: Sequence[Citation] = ()) -> list[str]:
    """Return a reply as messages that Slack takes: mrkdwn, numbered sources at the end, at least one message."""
    body = to_mrkdwn(markdown, citations)
    return split_message("\n\n".join(block for block in (body, _render_sources(citations)) if block)) or [EMPTY_REPLY]


def to_mrkdwn(markdown: str, citations: Sequence[Citation] = ()) -> str:
    """Return Markdown as mrkdwn. Never raises; what is cut off in the middle still renders.

    `[n]` becomes a link where citation n has an http address. Nobody is notified by what it says.
    """
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    renderer = _MrkdwnRenderer({citation.n: citation.url for citation in citations if _is_http_url(citation.url)})
    mrkdwn = renderer.render_blocks(SyntaxTreeNode(parser.parse(_sanitize(markdown))).children)
    return _apply_marks(mrkdwn)


def get_streamable_prefix(markdown: str) -> str:
    """Return the part of an unfinished Markdown text that may be shown already, its mentions disarmed.

    What this returns for a text is the beginning of what it returns for any longer one.
    """
    prefix = re.sub(r"(?:<|<?@\w{0,12})\Z", "", _sanitize(markdown))
    return _BROADCAST_MENTION.sub(f"@{_WORD_JOINER}", _REFERENCE.sub(f"<{_WORD_JOINER}", prefix))


def _sanitize(markdown: str) -> str:
    # A lone surrogate cannot be sent at all, and the characters of our marks must not come from outside.
    valid_text = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return re.sub("[\ue000-\ue005]", "", valid_text)


def _render_sources(citations: Sequence[Citation]) -> str:
    if not citations:
        return ""
    lines = ["*Sources*"]
    for citation in citations:
        title = _escape(_sanitize(citation.title or citation.path or citation.source))
        path_suffix = (
            f" · `{_escape(_sanitize(citation.path))}`" if citation.path and citation.path != citation.title else ""
        )
        lines.append(
            f"[{citation.n}] " + (_link(citation.url, title) if _is_http_url(citation.url) else f"{title}{path_suffix}")
        )
    return "\n".join(lines)


def _is_http_url(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _link(url: str, label: str) -> str:
    # A bar would end the address, a line break the link.
    escaped_url = re.sub(r"[\s|<>]", lambda match: f"%{ord(match[0]):02X}", url).replace("&", "&amp;")
    return f"<{escaped_url}|{label.replace('|', '¦').replace(chr(10), ' ')}>"


def _escape(text: str) -> str:
    # A fence of the text's own would end a code block, or begin one.
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace(FENCE, f"``{_WORD_JOINER}`")
    return _BROADCAST_MENTION.sub(f"@{_WORD_JOINER}", safe)


def _apply_marks(text: str) -> str:
    """Write the marks of formatting: Slack sees them only where a word begins or ends."""
    spaced_text = re.sub(rf"(?<=\w)(?=[{_OPENING}])|(?<=[{_CLOSING}])(?=\w)", _ZERO_WIDTH_SPACE, text)
    return re.sub("[\ue000-\ue005]", lambda match: _MARKS[match[0]], spaced_text)


class _MrkdwnRenderer:
    """Writes a syntax tree as mrkdwn."""

    def __init__(self, citation_urls: dict[int, str]) -> None:
        self._citation_urls = citation_urls

    def render_blocks(self, nodes: Sequence[SyntaxTreeNode], depth: int = 0) -> str:
        """Write blocks with an empty line between them."""
        rendered_blocks = (self._render_block(node, depth) for node in nodes)
        return "\n\n".join(block for block in rendered_blocks if block.strip())

    def _render_block(self, node: SyntaxTreeNode, depth: int) -> str:
        match node.type:
            case "bullet_list" | "ordered_list":
                text = self._render_list(node, depth)
            case "blockquote":
                text = "\n".join(f"> {line}" for line in self.render_blocks(node.children, depth).split("\n"))
            case "fence" | "code_block":
                text = _render_code_block(node.content)
            case "table":
                text = _render_code_block(
                    render_table(
                        [[self._get_plain_text(cell.children) for cell in row.children] for row in get_rows(node)]
                    )
                )
            case "hr":
                text = RULE
            case _:
                text = self._render_inline(node.children) or _escape(node.content)
        if node.type == "heading" and text.strip():
            # Bold within bold would end it.
            text = "\ue000" + re.sub("[\ue000\ue001]", "", text) + "\ue001"
        return text

    def _render_list(self, node: SyntaxTreeNode, depth: int) -> str:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines: list[str] = []
        for item in node.children:
            marker = "•" if number is None else f"{number}."
            number = None if number is None else number + 1
            content = "\n".join(
                part for part in (self._render_block(child, depth + 1) for child in item.children) if part.strip()
            )
            # The fence of a code block needs a line of its own.
            lines.append("    " * depth + marker + ("\n" if content.startswith(FENCE) else " ") + content)
        return "\n".join(lines)

    def _render_inline(self, nodes: Sequence[SyntaxTreeNode], *, in_link: bool = False) -> str:
        return "".join(self._render_span(node, in_link) for node in nodes)

    def _render_span(self, node: SyntaxTreeNode, in_link: bool) -> str:
        match node.type:
            case "text":
                text = self._render_text(node.content, in_link)
            case "code_inline":
                # A backtick within code cannot be written.
                text = f"`{_escape(node.content.replace('`', chr(0x2B9)))}`"
            case "link" | "image":
                text = self._render_link(node, in_link)
            case "softbreak" | "hardbreak":
                text = "\n"
            case _:
                text = self._render_inline(node.children, in_link=in_link) or _escape(node.content)
        marks = _MARK_PAIRS.get(node.type)
        return f"{marks[0]}{text}{marks[1]}" if marks and text.strip() else text

    def _render_link(self, node: SyntaxTreeNode, in_link: bool) -> str:
        url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
        if in_link or not _is_http_url(url):
            return self._render_inline(node.children, in_link=in_link) or _escape(node.content)
        label = self._render_inline(node.children, in_link=True) or _escape(node.content)
        return _link(url, label if label.strip() else _escape(url))

    def _render_text(self, text: str, in_link: bool) -> str:
        pieces: list[str] = []
        position = 0
        for match in _NUMBER.finditer(text):
            url = "" if in_link else self._citation_urls.get(int(match[1]), "")
            pieces += [_escape(text[position : match.start()]), _link(url, match[0]) if url else match[0]]
            position = match.end()
        return "".join([*pieces, _escape(text[position:])])

    def _get_plain_text(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        """Return the text alone, for places that take no marks."""
        return "".join(
            " " if node.type in ("softbreak", "hardbreak") else self._get_plain_text(node.children) or node.content
            for node in nodes
        )


def _render_code_block(text: str) -> str:
    body = _escape(text.rstrip("\n"))
    return f"{FENCE}\n{body}\n{FENCE}" if body.strip() else ""
