"""Splitting a reply into messages that a platform accepts: between blocks, else lines, sentences, words, characters.

Nothing visible gives no parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape

from core.markup import inline

_FENCE_OPENING = re.compile(r"^(?P<lead>(?:> )?)```(?P<language>[^\n`]*)\n", re.MULTILINE)
_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_FENCE_CLOSINGS = {lead: re.compile(rf"^{lead}```$", re.MULTILINE) for lead in ("", "> ")}
_HTML_ATOM = re.compile(r"<[^<>]*>|&[#\w]{1,10};|.", re.DOTALL)
# Chinese sentences end without a space behind.
_WIDE_SENTENCE_ENDS = "。！？"
_SENTENCE_ENDS = ".!?"
_TO_SENTENCE_END = re.compile(rf"[^{_WIDE_SENTENCE_ENDS}]*[{_WIDE_SENTENCE_ENDS}]+|[^{_WIDE_SENTENCE_ENDS}]+")
# Markup that must stay in one piece begins like this.
_MARKUP_START = "[`<\\&"
# Besides the text's length Telegram bounds the raw size of a message with its tags (32768 bytes).
MAX_HTML_BYTES = 30000
# Telegram drops all entities of a message after the hundredth. It adds some entities by itself.
MAX_ENTITIES = 90
# Tags within tags. A reply has fewer; each part of a message repeats those that are open.
MAX_OPEN_TAGS = 40
# Text that fills less than one of so many shares of a part stays with the code block below it.
MIN_SHARE = 4


def _find_fences(text: str) -> Iterator[tuple[re.Match[str], int, int]]:
    """Yield each code block: its opening, where its body ends, where it ends. One that is not closed is none."""
    position = 0
    unclosed_fences = set[str]()
    while opening := _FENCE_OPENING.search(text, position):
        position = opening.end()
        lead = opening["lead"]
        closing = None if lead in unclosed_fences else _FENCE_CLOSINGS[lead].search(text, position)
        if closing:
            yield opening, closing.start(), closing.end()
            position = closing.end()
        else:
            unclosed_fences.add(lead)


def cut_markdown(text: str, max_chars: int, note: str) -> str:
    """Return a text, or its beginning and a note if it is longer: up to a paragraph, line or word, code closed."""
    if len(text) <= max_chars:
        return text
    head = text[:max_chars]
    ends = (head.rfind(separator, max_chars // 2) for separator in ("\n\n", "\n", " "))
    head = head[: next((end for end in ends if end > 0), max_chars)].rstrip()
    open_fence = ""
    for fence in _FENCE_LINE.findall(head):
        if not open_fence:
            open_fence = fence
        elif fence.startswith(open_fence):
            open_fence = ""
    return f"{head}\n{open_fence}\n\n{note}" if open_fence else f"{head}\n\n{note}"


def utf16_length(text: str) -> int:
    """Return how many UTF-16 units a text has, which is how Telegram and Discord count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(frozen=True, slots=True)
class MarkdownSplitter:
    """Splits text in a platform's dialect of Markdown.

    `atom` matches what stays in one piece as long as it fits: a link, inline code, a word. `measure` returns a text's
    length as the platform counts it. A code block that continues in the next part is closed and opened again.
    """

    atom: re.Pattern[str]
    measure: Callable[[str], int] = len

    def split(self, text: str, limit: int) -> list[str]:
        """Split into parts of at most `limit` units."""
        parts: list[str] = []
        current = ""

        def get_remaining() -> int:
            return limit - self.measure(current) - 2 if current else limit

        for gap, piece in self._iter_pieces(text.strip("\n"), limit, get_remaining):
            candidate = f"{current}{gap}{piece}" if current else piece
            if self.measure(candidate) <= limit:
                current = candidate
                continue
            parts.append(current.rstrip())
            current = piece.lstrip("\n") if piece.strip() else ""
        return [part for part in (*parts, current.rstrip()) if part]

    def _iter_pieces(self, text: str, limit: int, get_remaining: Callable[[], int]) -> Iterator[tuple[str, str]]:
        """Yield (what stands before it, piece), each piece short enough for a part of its own.

        `get_remaining` returns how much the part that is being filled still takes.
        """
        position = 0
        for opening, body_end, end in _find_fences(text):
            yield from self._split_prose(text[position : opening.start()], limit)
            gap = "\n\n" if text.endswith("\n\n", 0, opening.start()) else "\n"
            remaining = get_remaining()
            # A few words before a long block say what it is: they stay with it.
            first_limit = remaining if remaining > limit - limit // MIN_SHARE else limit
            for piece in self._split_code(opening, text[opening.end() : body_end], first_limit, limit):
                yield gap, piece
                gap = "\n"
            position = end
        yield from self._split_prose(text[position:], limit)

    def _split_prose(self, text: str, limit: int) -> Iterator[tuple[str, str]]:
        gap = "\n" if text.startswith("\n") and not text.startswith("\n\n") else "\n\n"
        for block in re.split(r"\n{2,}", text.strip("\n")):
            if self.measure(block) <= limit:
                if block:
                    yield gap, block
            else:
                for line in block.split("\n"):
                    for piece in self._split_line(line, limit):
                        yield gap, piece
                        gap = ""
                    gap = "\n"
            gap = "\n\n"

    def _split_code(self, fence: re.Match[str], body: str, first_limit: int, limit: int) -> Iterator[str]:
        opening = fence[0]
        closing = f"{fence['lead']}```"
        fence_size = self.measure(opening) + self.measure(closing) + 1
        chunk_limit = first_limit - fence_size
        chunk = ""
        for line in body.removesuffix("\n").split("\n"):
            for piece in self._cut_to_limit(line, chunk_limit):
                if chunk and self.measure(chunk) + 1 + self.measure(piece) > chunk_limit:
                    yield f"{opening}{chunk}\n{closing}"
                    chunk = piece
                    chunk_limit = limit - fence_size
                else:
                    chunk = f"{chunk}\n{piece}" if chunk else piece
        yield f"{opening}{chunk}\n{closing}"

    def _split_line(self, line: str, limit: int) -> Iterator[str]:
        """Yield a line in pieces that end between sentences, else between words."""
        chunk = ""
        sentence_end = 0
        for piece in self._iter_line_pieces(line, limit):
            if self.measure(chunk) + self.measure(piece) > limit:
                # A place that would waste most of the part is none.
                end = sentence_end if sentence_end > len(chunk) // 3 else len(chunk)
                yield chunk[:end]
                chunk = chunk[end:]
                sentence_end = 0
                if self.measure(chunk) + self.measure(piece) > limit:
                    yield chunk
                    chunk = ""
            is_end = piece[-1] in _WIDE_SENTENCE_ENDS or (piece.isspace() and chunk[-1:] in tuple(_SENTENCE_ENDS))
            chunk += piece
            sentence_end = len(chunk) if is_end else sentence_end
        if chunk:
            yield chunk

    def _iter_line_pieces(self, line: str, limit: int) -> Iterator[str]:
        """Yield the atoms of a line, cut where a Chinese sentence ends and where one alone is too long."""
        for atom in self.atom.findall(line):
            for text in [atom] if atom[0] in _MARKUP_START else _TO_SENTENCE_END.findall(atom):
                yield from self._cut_to_limit(text, limit)

    def _cut_to_limit(self, text: str, limit: int) -> Iterator[str]:
        """Yield a text in pieces of at most `limit` units."""
        while self.measure(text) > limit:
            # No character takes more than two units.
            size = limit if self.measure(text[:limit]) <= limit else limit // 2
            yield text[:size]
            text = text[size:]
        yield text


@dataclass(frozen=True, slots=True)
class _BreakPoint:
    """Where a part may end: before the atom `index`, after so many UTF-16 units of text."""

    index: int
    units: int


def split_html(html: str, limit: int) -> list[str]:
    """Split Telegram's HTML into parts of at most `limit` UTF-16 units of text.

    Tags that are open at a split are closed there and opened again in the next part.
    """
    atoms = list(_iter_atoms(html))
    parts: list[str] = []
    open_tags: list[str] = []
    start = 0
    while start < len(atoms):
        end = _find_end(atoms, start, open_tags, limit)
        while end < len(atoms) and atoms[end].startswith("</"):
            end += 1
        prefix = "".join(open_tags)
        body = "".join(atoms[start:end]).rstrip()
        part = prefix + body if prefix else body.lstrip()
        open_tags = _get_open_tags(open_tags, atoms[start:end])
        part += "".join(f"</{tag[1:-1].split(maxsplit=1)[0]}>" for tag in reversed(open_tags))
        if strip_tags(part).strip():
            parts.append(part)
        start = end
    return parts


def _iter_atoms(html: str) -> Iterator[str]:
    """Yield tags, entities and characters, without the tags that are nested too deeply."""
    depth = 0
    for atom in _HTML_ATOM.findall(html):
        is_closing = atom.startswith("</")
        depth = max(0, depth - is_closing)
        if depth < MAX_OPEN_TAGS or not _is_tag(atom):
            yield atom
        depth += _is_tag(atom) and not is_closing


def strip_tags(html: str) -> str:
    """Return the text alone, for a message whose markup was rejected."""
    return unescape(inline.strip_tags(html))


def _find_end(atoms: list[str], start: int, open_tags: list[str], limit: int) -> int:
    """Return where the part that begins at `start` ends."""
    units = 0
    byte_count = sum(2 * len(tag) for tag in open_tags)
    depth = len(open_tags)
    entity_count = depth
    block = line = sentence = word = _BreakPoint(start, 0)
    for index in range(start, len(atoms)):
        atom = atoms[index]
        byte_count += len(atom.encode())
        if _is_tag(atom):
            depth += -1 if atom.startswith("</") else 1
            entity_count += not atom.startswith("</")
            continue
        units += utf16_length(unescape(atom))
        if units > limit or byte_count > MAX_HTML_BYTES or entity_count > MAX_ENTITIES:
            # A place that would waste most of the part is none.
            good_breaks = (point.index for point in (block, line, sentence, word) if point.units > units // 3)
            # Tags right before the full mark belong to what comes next, or a part could end where it began.
            return next(good_breaks, max(index, start + 1))
        if atom == "\n":
            line = _BreakPoint(index + 1, units)
            block = line if depth == 0 and atoms[index - 1 : index] == ["\n"] else block
        elif atom == " ":
            word = _BreakPoint(index + 1, units)
            sentence = word if atoms[index - 1] in _SENTENCE_ENDS else sentence
        elif atom in _WIDE_SENTENCE_ENDS:
            sentence = _BreakPoint(index + 1, units)
    return len(atoms)


def _get_open_tags(open_tags: list[str], atoms: list[str]) -> list[str]:
    tags = list(open_tags)
    for atom in filter(_is_tag, atoms):
        if not atom.startswith("</"):
            tags.append(atom)
        elif tags:
            tags.pop()
    return tags


def _is_tag(atom: str) -> bool:
    return atom.startswith("</") or (atom.startswith("<") and atom[1:2].isalpha())
