"""From our Markdown to Discord's. `parts` splits what comes out of here.

Discord's clients know a part of Markdown and much that a model does not mean: mentions, emoji, spoilers. So the text is
parsed and written again: what Discord has no form for is put into words and lines, everything else in the text that it
would take for markup is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bots.common.markdown import get_rows, render_table
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MAX_UNITS = 2000

_FENCE = re.compile(
    r"^(?P<lead>(?:> )?)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=lead)```$", re.MULTILINE | re.DOTALL
)
# What is never torn apart, as long as it fits: a link, a stretch of code, a word with its space.
_ATOM = re.compile(
    r"\[(?:\[[^\[\]\n]{0,200}\]|\\.|[^\[\]\n\\]){0,400}\]\(<[^>\n]{1,600}>\)"
    r"|`[^`\n]{1,600}`|<https?://[^>\s]{1,600}>|\\.|\S+?(?=[\s\[`<\\]|$)|\s+|."
)


def split_message(markdown: str, limit: int = MAX_UNITS) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units: between blocks, else lines, words, characters.

    A code block that goes on in the next part is closed and opened again, with its language. Nothing visible gives no
    parts.
    """
    parts: list[str] = []
    current = ""
    for gap, piece in _iter_pieces(markdown.strip("\n"), limit):
        candidate = f"{current}{gap}{piece}" if current else piece
        if utf16_length(candidate) <= limit:
            current = candidate
            continue
        if current.strip():
            parts.append(current.rstrip())
        current = piece.lstrip("\n") if piece.strip() else ""
    if current.strip():
        parts.append(current.rstrip())
    return parts


def utf16_length(text: str) -> int:
    """Return how many UTF-16 units a text has: Discord counts no more than that."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _iter_pieces(markdown: str, limit: int) -> Iterator[tuple[str, str]]:
    """Yield (what stands before it, piece), each piece short enough for a part of its own."""
    position = 0
    for match in _FENCE.finditer(markdown):
        yield from _split_prose(markdown[position : match.start()], limit)
        gap = "\n\n" if markdown[: match.start()].endswith("\n\n") else "\n"
        for piece in _split_code(match["lead"], match["language"], match["body"], limit):
            yield gap, piece
            gap = "\n"
        position = match.end()
    yield from _split_prose(markdown[position:], limit)


def _split_prose(text: str, limit: int) -> Iterator[tuple[str, str]]:
    gap = "\n" if text.startswith("\n") and not text.startswith("\n\n") else "\n\n"
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if utf16_length(block) <= limit:
            if block:
                yield gap, block
        else:
            for line in block.split("\n"):
                for piece in _split_line(line, limit):
                    yield gap, piece
                    gap = ""
                gap = "\n"
        gap = "\n\n"


def _split_code(quote_prefix: str, language: str, body: str, limit: int) -> Iterator[str]:
    opening, closing = f"{quote_prefix}```{language}\n", f"{quote_prefix}```"
    available = limit - utf16_length(opening) - utf16_length(closing) - 1
    chunk = ""
    for line in body.removesuffix("\n").split("\n"):
        for piece in _cut_to_limit(line, available):
            if chunk and utf16_length(chunk) + 1 + utf16_length(piece) > available:
                yield f"{opening}{chunk}\n{closing}"
                chunk = piece
            else:
                chunk = f"{chunk}\n{piece}" if chunk else piece
    yield f"{opening}{chunk}\n{closing}"


def _split_line(line: str, limit: int) -> Iterator[str]:
    """Yield a line in pieces that end between words."""
    chunk = ""
    for atom in _ATOM.findall(line):
        for piece in _cut_to_limit(atom, limit):
            if utf16_length(chunk) + utf16_length(piece) > limit:
                yield chunk
                chunk = ""
            chunk += piece
    if chunk:
        yield chunk


def _cut_to_limit(text: str, limit: int) -> Iterator[str]:
    """Yield a text in pieces of at most `limit` UTF-16 units."""
    while utf16_length(text) > limit:
        # No character takes more than two units.
        size = limit if utf16_length(text[:limit]) <= limit else limit // 2
        yield text[:size]
        text = text[size:]
    yield text


EMPTY_REPLY = "(an empty answer)"
RULE = "———"
MAX_URL_CHARS = 512

_WORD_JOINER = "\u2060"
_URL = re.compile(r"https?://(?:(?![<>()\[\]`|]|[.,;:!?*'\"]+(?:\s|$))\S)+")
_INLINE_TOKEN = re.compile(rf"(?P<address>{_URL.pattern})|\[(?P<number>\d{{1,4}})\]")
_MARKUP = re.compile(r"[\\*_~`|\[\]]|<(?=[@#:/a-z])|(?<=@)(?=\w)|(?<=@)(?=[&!])", re.IGNORECASE)
_LINE_START = re.compile(r"^(\s*)(#{1,3}\s|-#\s|>{1,3}\s|[-+*]\s)", re.MULTILINE)
_NUMBERED_ITEM = re.compile(r"^(\s*\d+)(\.\s)", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_INLINE_MARKS = {"strong": "**", "em": "*", "s": "~~"}


def render(markdown: str, citations: Sequence[Citation] = ()) -> list[str]:
    """Return a reply as messages that Discord accepts: numbered sources at the end, at least one message."""
    body = to_markdown(markdown, citations)
    return split_message("\n\n".join(block for block in (body, _render_sources(citations)) if block)) or [EMPTY_REPLY]


def to_markdown(markdown: str, citations: Sequence[Citation] = ()) -> str:
    """Return Markdown in Discord's dialect. Never raises; what is cut off in the middle still renders.

    `[n]` becomes a link where citation n has an http address. Links are written so that they do not unfold, mentions so
    that nobody is meant.
    """
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    clean = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    renderer = _DiscordRenderer({citation.n: citation.url for citation in citations if _is_linkable(citation.url)})
    return renderer.render_blocks(SyntaxTreeNode(parser.parse(clean)).children)


def escape_markup(text: str) -> str:
    """Return running text with everything escaped that Discord would take for markup or a mention."""
    escaped = _MARKUP.sub(lambda match: f"\\{match[0]}" if match[0] else _WORD_JOINER, text)
    escaped = _NUMBERED_ITEM.sub(r"\1\\\2", escaped)
    return _LINE_START.sub(r"\1\\\2", escaped)


def _render_sources(citations: Sequence[Citation]) -> str:
    if not citations:
        return ""
    lines = ["**Sources**"]
    for citation in citations:
        title = escape_markup(" ".join((citation.title or citation.path or citation.source).split()))[:200]
        path_suffix = (
            f" · {_render_code_span(citation.path)}"
            if citation.title and citation.path not in ("", citation.title)
            else ""
        )
        lines.append(
            f"[{citation.n}] {_link(citation.url, title)}"
            if _is_linkable(citation.url)
            else f"[{citation.n}] {title}{path_suffix}"
        )
    return "\n".join(lines)


def _is_linkable(url: str) -> bool:
    return url.startswith(("http://", "https://")) and len(url) <= MAX_URL_CHARS


def _link(url: str, label: str) -> str:
    # Discord shows a link whose text looks like an address as it was written, to protect against deception.
    label = re.sub(r"(https?):(//)", rf"\1:{_WORD_JOINER}\2", label)
    return f"[{label}](<{_escape_url(url)}>)"


def _escape_url(url: str) -> str:
    return "".join(
        {"<": "%3C", ">": "%3E", "\\": "%5C", " ": "%20", "\n": ""}.get(character, character) for character in url
    )


class _DiscordRenderer:
    """Writes a syntax tree in Discord's dialect."""

    def __init__(self, citation_urls: dict[int, str]) -> None:
        self._citation_urls = citation_urls

    def render_blocks(self, nodes: Sequence[SyntaxTreeNode], *, depth: int = 0) -> str:
        """Write blocks with an empty line between them."""
        rendered_blocks = (self._render_block(node, depth) for node in nodes)
        return "\n\n".join(block for block in rendered_blocks if block.strip())

    def _render_block(self, node: SyntaxTreeNode, depth: int) -> str:
        match node.type:
            case "bullet_list" | "ordered_list":
                return self._render_list(node, depth)
            case "blockquote":
                inner = self.render_blocks(node.children, depth=depth)
                # There is no quote within a quote.
                return "\n".join(f"> {line.removeprefix('> ')}" for line in inner.splitlines()) if inner else ""
            case "fence" | "code_block":
                return _render_code_block(node.content, node.info if node.type == "fence" else "")
            case "table":
                return _render_code_block(
                    render_table(
                        [[self._get_plain_text(cell.children) for cell in row.children] for row in get_rows(node)]
                    ),
                    "",
                )
            case "heading":
                return self._render_heading(node)
            case _:
                return RULE if node.type == "hr" else self._render_inline(node.children) or escape_markup(node.content)

    def _render_heading(self, node: SyntaxTreeNode) -> str:
        text = " ".join(self._render_inline(node.children).split())
        level = len(node.markup) if set(node.markup) == {"#"} else (1 if node.tag == "h1" else 2)
        if not text:
            return ""
        return f"{'#' * level} {text}" if level <= 3 else f"**{text.replace('**', '')}**"

    def _render_list(self, node: SyntaxTreeNode, depth: int) -> str:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines: list[str] = []
        for item in node.children:
            marker = "-" if number is None else f"{number}."
            number = None if number is None else number + 1
            first = ""
            rest: list[str] = []
            for child in item.children:
                block = self._render_block(child, depth + 1)
                if not first and not rest and child.type == "paragraph":
                    first = block
                elif block.strip():
                    # A fence opens only at the start of a line, and the lists below are indented already.
                    is_block_element = child.type in ("fence", "code_block", "table", "bullet_list", "ordered_list")
                    rest.append(block if is_block_element else _indent(block, depth + 1))
            lines.append("\n".join([f"{'  ' * depth}{marker} {_indent(first, depth + 1).lstrip()}", *rest]))
        return "\n".join(lines)

    def _render_inline(self, nodes: Sequence[SyntaxTreeNode], *, in_link: bool = False) -> str:
        return "".join(self._render_span(node, in_link) for node in nodes)

    def _render_span(self, node: SyntaxTreeNode, in_link: bool) -> str:
        match node.type:
            case "text":
                return self._render_text(node.content, in_link=in_link)
            case "code_inline":
                return _render_code_span(node.content)
            case "link" | "image":
                return self._render_link(node, in_link)
            case "softbreak" | "hardbreak":
                return "\n"
        text = self._render_inline(node.children, in_link=in_link) or escape_markup(node.content)
        mark = _INLINE_MARKS.get(node.type, "") if text.strip() else ""
        return f"{mark}{text}{mark}"

    def _render_link(self, node: SyntaxTreeNode, in_link: bool) -> str:
        url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
        label = self._render_inline(node.children, in_link=True) or escape_markup(node.content)
        if in_link or not _is_linkable(url):
            return label
        plain_label = self._get_plain_text(node.children)
        return f"<{_escape_url(url)}>" if not plain_label.strip() or plain_label == url else _link(url, label)

    def _render_text(self, text: str, *, in_link: bool) -> str:
        """Write running text; `linked` says that it is the text of a link, which takes no others."""
        pieces: list[str] = []
        position = 0
        for match in _INLINE_TOKEN.finditer(text):
            pieces.append(escape_markup(text[position : match.start()]))
            pieces.append(self._render_token(match, in_link))
            position = match.end()
        return "".join([*pieces, escape_markup(text[position:])])

    def _render_token(self, match: re.Match[str], in_link: bool) -> str:
        if in_link:
            return escape_markup(match[0])
        if match["number"] is not None:
            url = self._citation_urls.get(int(match["number"]))
            return f"[{match['number']}]" if url is None else _link(url, f"[{match['number']}]")
        return f"<{_escape_url(match[0])}>"

    def _get_plain_text(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        """Return the text alone, for places that take no markup."""
        return "".join(
            " " if node.type in ("softbreak", "hardbreak") else self._get_plain_text(node.children) or node.content
            for node in nodes
        )


def _indent(text: str, depth: int) -> str:
    return "\n".join(f"{'  ' * depth}{line}" for line in text.splitlines())


def _render_code_span(text: str) -> str:
    one_line = " ".join(text.split("\n")).strip()
    if not one_line:
        return ""
    return f"`` {one_line} ``" if "`" in one_line else f"`{one_line}`"


def _render_code_block(text: str, info: str) -> str:
    language = _LANGUAGE.match(info.strip())
    # Three backticks end a block wherever they stand.
    body = text.rstrip("\n").replace("```", f"`{_WORD_JOINER}``")
    return f"```{language[0] if language else ''}\n{body}\n```" if body.strip() else ""
