"""From our Markdown to Discord's. `parts` splits what comes out of here.

Discord's clients know a part of Markdown and much that a model does not mean: mentions, emoji, spoilers. So the text is
parsed and written again: what Discord has no form for is put into words and lines, everything else in the text that it
would take for markup is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bots.common.markdown import drawn, rows_of
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

LIMIT = 2000

_FENCE = re.compile(
    r"^(?P<lead>(?:> )?)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=lead)```$", re.MULTILINE | re.DOTALL
)
# What is never torn apart, as long as it fits: a link, a stretch of code, a word with its space.
_ATOM = re.compile(
    r"\[(?:\[[^\[\]\n]{0,200}\]|\\.|[^\[\]\n\\]){0,400}\]\(<[^>\n]{1,600}>\)"
    r"|`[^`\n]{1,600}`|<https?://[^>\s]{1,600}>|\\.|\S+?(?=[\s\[`<\\]|$)|\s+|."
)


def split(markdown: str, limit: int = LIMIT) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units: between blocks, else lines, words, characters.

    A code block that goes on in the next part is closed and opened again, with its language. Nothing visible gives no
    parts.
    """
    parts: list[str] = []
    current = ""
    for gap, piece in _pieces(markdown.strip("\n"), limit):
        joined = f"{current}{gap}{piece}" if current else piece
        if length(joined) <= limit:
            current = joined
            continue
        if current.strip():
            parts.append(current.rstrip())
        current = piece.lstrip("\n") if piece.strip() else ""
    if current.strip():
        parts.append(current.rstrip())
    return parts


def length(text: str) -> int:
    """Return how many UTF-16 units a text has: Discord counts no more than that."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _pieces(markdown: str, limit: int) -> Iterator[tuple[str, str]]:
    """Yield (what stands before it, piece), each piece short enough for a part of its own."""
    position = 0
    for found in _FENCE.finditer(markdown):
        yield from _prose(markdown[position : found.start()], limit)
        gap = "\n\n" if markdown[: found.start()].endswith("\n\n") else "\n"
        for piece in _split_code(found["lead"], found["language"], found["body"], limit):
            yield gap, piece
            gap = "\n"
        position = found.end()
    yield from _prose(markdown[position:], limit)


def _prose(text: str, limit: int) -> Iterator[tuple[str, str]]:
    gap = "\n" if text.startswith("\n") and not text.startswith("\n\n") else "\n\n"
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if length(block) <= limit:
            if block:
                yield gap, block
        else:
            for line in block.split("\n"):
                for piece in _chunks(line, limit):
                    yield gap, piece
                    gap = ""
                gap = "\n"
        gap = "\n\n"


def _split_code(lead: str, language: str, body: str, limit: int) -> Iterator[str]:
    head, foot = f"{lead}```{language}\n", f"{lead}```"
    room = limit - length(head) - length(foot) - 1
    kept = ""
    for line in body.removesuffix("\n").split("\n"):
        for piece in _cut(line, room):
            if kept and length(kept) + 1 + length(piece) > room:
                yield f"{head}{kept}\n{foot}"
                kept = piece
            else:
                kept = f"{kept}\n{piece}" if kept else piece
    yield f"{head}{kept}\n{foot}"


def _chunks(line: str, limit: int) -> Iterator[str]:
    """Yield a line in pieces that end between words."""
    kept = ""
    for atom in _ATOM.findall(line):
        for piece in _cut(atom, limit):
            if length(kept) + length(piece) > limit:
                yield kept
                kept = ""
            kept += piece
    if kept:
        yield kept


def _cut(text: str, limit: int) -> Iterator[str]:
    """Yield a text in pieces of at most `limit` UTF-16 units."""
    while length(text) > limit:
        # No character takes more than two units.
        size = limit if length(text[:limit]) <= limit else limit // 2
        yield text[:size]
        text = text[size:]
    yield text


EMPTY = "(an empty answer)"
RULE = "———"
LONGEST_LINK = 512

_WORD_JOINER = "\u2060"
_ADDRESS = re.compile(r"https?://(?:(?![<>()\[\]`|]|[.,;:!?*'\"]+(?:\s|$))\S)+")
_NOTABLE = re.compile(rf"(?P<address>{_ADDRESS.pattern})|\[(?P<number>\d{{1,4}})\]")
_MARKUP = re.compile(r"[\\*_~`|\[\]]|<(?=[@#:/a-z])|(?<=@)(?=\w)|(?<=@)(?=[&!])", re.IGNORECASE)
_LINE_START = re.compile(r"^(\s*)(#{1,3}\s|-#\s|>{1,3}\s|[-+*]\s)", re.MULTILINE)
_NUMBERED = re.compile(r"^(\s*\d+)(\.\s)", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_WRAPS = {"strong": "**", "em": "*", "s": "~~"}


def render(markdown: str, citations: Sequence[Citation] = ()) -> list[str]:
    """Return a reply as messages that Discord accepts: numbered sources at the end, at least one message."""
    body = to_markdown(markdown, citations)
    return split("\n\n".join(block for block in (body, _sources(citations)) if block)) or [EMPTY]


def to_markdown(markdown: str, citations: Sequence[Citation] = ()) -> str:
    """Return Markdown in Discord's dialect. Never raises; what is cut off in the middle still renders.

    `[n]` becomes a link where citation n has an http address. Links are written so that they do not unfold, mentions so
    that nobody is meant.
    """
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    clean = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    writer = _Writer({one.n: one.url for one in citations if _linkable(one.url)})
    return writer.blocks(SyntaxTreeNode(parser.parse(clean)).children)


def plain(text: str) -> str:
    """Return running text with everything escaped that Discord would take for markup or a mention."""
    escaped = _MARKUP.sub(lambda found: f"\\{found[0]}" if found[0] else _WORD_JOINER, text)
    escaped = _NUMBERED.sub(r"\1\\\2", escaped)
    return _LINE_START.sub(r"\1\\\2", escaped)


def _sources(citations: Sequence[Citation]) -> str:
    if not citations:
        return ""
    lines = ["**Sources**"]
    for one in citations:
        title = plain(" ".join((one.title or one.path or one.source).split()))[:200]
        place = f" · {_span_of_code(one.path)}" if one.title and one.path not in ("", one.title) else ""
        lines.append(f"[{one.n}] {_link(one.url, title)}" if _linkable(one.url) else f"[{one.n}] {title}{place}")
    return "\n".join(lines)


def _linkable(url: str) -> bool:
    return url.startswith(("http://", "https://")) and len(url) <= LONGEST_LINK


def _link(url: str, inner: str) -> str:
    # Discord shows a link whose text looks like an address as it was written, to protect against deception.
    inner = re.sub(r"(https?):(//)", rf"\1:{_WORD_JOINER}\2", inner)
    return f"[{inner}](<{_address(url)}>)"


def _address(url: str) -> str:
    return "".join({"<": "%3C", ">": "%3E", "\\": "%5C", " ": "%20", "\n": ""}.get(one, one) for one in url)


class _Writer:
    """Writes a syntax tree in Discord's dialect."""

    def __init__(self, links: dict[int, str]) -> None:
        self._links = links

    def blocks(self, nodes: Sequence[SyntaxTreeNode], *, depth: int = 0) -> str:
        """Write blocks with an empty line between them."""
        written = (self._block(node, depth) for node in nodes)
        return "\n\n".join(block for block in written if block.strip())

    def _block(self, node: SyntaxTreeNode, depth: int) -> str:
        match node.type:
            case "bullet_list" | "ordered_list":
                return self._list(node, depth)
            case "blockquote":
                inner = self.blocks(node.children, depth=depth)
                # There is no quote within a quote.
                return "\n".join(f"> {line.removeprefix('> ')}" for line in inner.splitlines()) if inner else ""
            case "fence" | "code_block":
                return _code(node.content, node.info if node.type == "fence" else "")
            case "table":
                return _code(drawn([[self._bare(cell.children) for cell in row.children] for row in rows_of(node)]), "")
            case "heading":
                return self._heading(node)
            case _:
                return RULE if node.type == "hr" else self._inline(node.children) or plain(node.content)

    def _heading(self, node: SyntaxTreeNode) -> str:
        written = " ".join(self._inline(node.children).split())
        level = len(node.markup) if set(node.markup) == {"#"} else (1 if node.tag == "h1" else 2)
        if not written:
            return ""
        return f"{'#' * level} {written}" if level <= 3 else f"**{written.replace('**', '')}**"

    def _list(self, node: SyntaxTreeNode, depth: int) -> str:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines: list[str] = []
        for item in node.children:
            marker = "-" if number is None else f"{number}."
            number = None if number is None else number + 1
            first = ""
            rest: list[str] = []
            for child in item.children:
                written = self._block(child, depth + 1)
                if not first and not rest and child.type == "paragraph":
                    first = written
                elif written.strip():
                    # A fence opens only at the start of a line, and the lists below are indented already.
                    solid = child.type in ("fence", "code_block", "table", "bullet_list", "ordered_list")
                    rest.append(written if solid else _indented(written, depth + 1))
            lines.append("\n".join([f"{'  ' * depth}{marker} {_indented(first, depth + 1).lstrip()}", *rest]))
        return "\n".join(lines)

    def _inline(self, nodes: Sequence[SyntaxTreeNode], *, linked: bool = False) -> str:
        return "".join(self._span(node, linked) for node in nodes)

    def _span(self, node: SyntaxTreeNode, linked: bool) -> str:
        match node.type:
            case "text":
                return self._text(node.content, linked=linked)
            case "code_inline":
                return _span_of_code(node.content)
            case "link" | "image":
                return self._linked(node, linked)
            case "softbreak" | "hardbreak":
                return "\n"
        written = self._inline(node.children, linked=linked) or plain(node.content)
        mark = _WRAPS.get(node.type, "") if written.strip() else ""
        return f"{mark}{written}{mark}"

    def _linked(self, node: SyntaxTreeNode, linked: bool) -> str:
        url = str(node.attrs.get("href" if node.type == "link" else "src", ""))
        inner = self._inline(node.children, linked=True) or plain(node.content)
        if linked or not _linkable(url):
            return inner
        bare = self._bare(node.children)
        return f"<{_address(url)}>" if not bare.strip() or bare == url else _link(url, inner)

    def _text(self, text: str, *, linked: bool) -> str:
        """Write running text; `linked` says that it is the text of a link, which takes no others."""
        written: list[str] = []
        position = 0
        for found in _NOTABLE.finditer(text):
            written.append(plain(text[position : found.start()]))
            written.append(self._notable(found, linked))
            position = found.end()
        return "".join([*written, plain(text[position:])])

    def _notable(self, found: re.Match[str], linked: bool) -> str:
        if linked:
            return plain(found[0])
        if found["number"] is not None:
            url = self._links.get(int(found["number"]))
            return f"[{found['number']}]" if url is None else _link(url, f"[{found['number']}]")
        return f"<{_address(found[0])}>"

    def _bare(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        """Return the text alone, for places that take no markup."""
        return "".join(
            " " if node.type in ("softbreak", "hardbreak") else self._bare(node.children) or node.content
            for node in nodes
        )


def _indented(text: str, depth: int) -> str:
    return "\n".join(f"{'  ' * depth}{line}" for line in text.splitlines())


def _span_of_code(text: str) -> str:
    one_line = " ".join(text.split("\n")).strip()
    if not one_line:
        return ""
    return f"`` {one_line} ``" if "`" in one_line else f"`{one_line}`"


def _code(text: str, info: str) -> str:
    language = _LANGUAGE.match(info.strip())
    # Three backticks end a block wherever they stand.
    body = text.rstrip("\n").replace("```", f"`{_WORD_JOINER}``")
    return f"```{language[0] if language else ''}\n{body}\n```" if body.strip() else ""
