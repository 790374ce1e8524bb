"""PDF documents as blocks: pages under their bookmarks or their numbers, without what every page repeats."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from core.markup.document import Block
from core.markup.writer import MAX_HEADING_LEVEL, write_markdown
from knowledge.formats.inline import escape
from knowledge.parsing.limits import DAMAGES, FormatError, ParseLimits, map_parser_errors

# A word that was divided at the end of a line.
_DIVIDED = re.compile(r"(?<![^\W\d_])([^\W\d_]+)[-\u00ad\u2010]\n([^\W\d_]+)")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_NUMBER = re.compile(r"\d+")
# Of a font of icons: no text has them.
_ICON = re.compile(r"[\ue000-\uf8ff]")
# From a title to its page, as in a table of contents.
_LEADER = re.compile(r"(?<![. ])[ ]?(?>\.(?:[ ]?\.){4,})[ ]?(?:\d{1,5}|[ivxlc]{1,8})$", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*\n\s*")
# Where running heads and page numbers are: so many lines at the top of a page, and at its foot.
EDGE_LINES = 2
# Parts of a word are often words as well, if they are shorter.
MIN_PART_CHARS = 4
# What so many pages have there is no text of its own.
MIN_REPEATS = 3
MAX_BOOKMARKS = 5_000
# Shorter words may well be twice their half, as "11", and one of a line as well.
MIN_DOUBLED_CHARS = 4
MIN_DOUBLES = 2
# How far apart two drawings of one text are at most, in points, and with how many earlier ones each is compared.
MAX_SHADOW = 1.5
MAX_PLACES = 20

Bookmark = tuple[int, str]


@map_parser_errors
def read_pdf(data: bytes) -> str:
    """Return the pages of a PDF, headed by bookmarks or by their numbers. Raises `FormatError`."""
    import pypdf

    document = pypdf.PdfReader(io.BytesIO(data))
    if document.is_encrypted and not document.decrypt(""):
        raise FormatError("it is encrypted")
    limits = ParseLimits()
    pages = _strip_edges([limits.consume(_extract(page)).split("\n") for page in document.pages])
    texts = ["\n".join(lines).strip() for lines in pages]
    if not any(texts):
        raise FormatError("it holds no text: a scan needs text recognition first")
    words = {word.lower() for text in texts for word in _WORD.findall(_DIVIDED.sub(" ", text))}
    texts = [_join_words(text, words) for text in texts]
    return write_markdown(list(_make_blocks(texts, _read_bookmarks(document))))


def _extract(page: Any) -> str:
    from pypdf.errors import PyPdfError

    try:
        text = page.extract_text() or ""
        if _is_doubled(text):
            text = _read_without_shadows(page)
    except (PyPdfError, *DAMAGES):
        text = ""
    return _LEADER.sub("", "\n".join(line.strip() for line in _ICON.sub("", text).split("\n"))).strip()


def _is_doubled(text: str) -> bool:
    """Return whether a line may stand there twice: beside itself, below itself, or word by word or sign by sign."""
    lines = [line for line in text.split("\n") if len(line) >= MIN_DOUBLED_CHARS]
    return any(
        line == previous_line or sum(map(_is_double, line.split())) >= MIN_DOUBLES or _is_double("".join(line.split()))
        for previous_line, line in pairwise(["", *lines])
    )


def _is_double(word: str) -> bool:
    half = len(word) // 2
    is_double = word[:half] == word[half:] or word[::2] == word[1::2]
    return is_double and len(word) >= MIN_DOUBLED_CHARS and word[0].isalpha()


def _read_without_shadows(page: Any) -> str:
    """Return the text of a page without what is drawn twice at nearly one place, as some draw bold letters."""
    from pypdf.generic import NameObject

    contents = page.get_contents()
    # So that the same operations are met again.
    page[NameObject("/Contents")] = contents
    finder = _ShadowFinder()
    page.extract_text(visitor_operand_before=finder)
    contents.operations = [operation for operation in contents.operations if id(operation[0]) not in finder.shadows]
    return page.extract_text() or ""


class _ShadowFinder:
    """Finds the operations of a page that draw a text again, and those that lead to its place."""

    def __init__(self) -> None:
        self.shadows: set[int] = set()
        self._places: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
        self._moves: list[int] = []
        # How many texts came since the last move: they follow each other without one.
        self._index = 0

    def __call__(self, operator: bytes, operands: Any, cm: Sequence[float], tm: Sequence[float]) -> None:
        if operator in (b"Td", b"TD", b"Tm", b"T*"):
            self._moves.append(id(operands))
            self._index = 0
        elif operator in (b"Tj", b"TJ"):
            self._index += 1
            x, y = (tm[4] * cm[axis] + tm[5] * cm[axis + 2] + cm[axis + 4] for axis in (0, 1))
            places = self._places[self._index, repr(operands)]
            if any(abs(x - other_x) + abs(y - other_y) < MAX_SHADOW for other_x, other_y in places[-MAX_PLACES:]):
                self.shadows.update(self._moves, (id(operands),))
            places.append((x, y))
            self._moves = []


def _strip_edges(pages: Sequence[list[str]]) -> list[list[str]]:
    """Return the lines of pages without running heads and page numbers: what their edges have in common."""
    pages_by_edge: dict[tuple[str, int], set[int]] = defaultdict(set)
    for number, lines in enumerate(pages):
        for line in _get_edges(lines):
            for key in _get_edge_keys(line, number):
                pages_by_edge[key].add(number)
    repeated = {key for key, numbers in pages_by_edge.items() if len(numbers) >= MIN_REPEATS}
    return [_strip_page(lines, number, repeated) for number, lines in enumerate(pages)]


def _get_edges(lines: Sequence[str]) -> Iterable[str]:
    return {*lines[:EDGE_LINES], *lines[-EDGE_LINES:]} - {""}


def _get_edge_keys(line: str, page: int) -> list[tuple[str, int]]:
    """Return by what a line is the same on other pages: its words, or those around a number that runs with them."""
    numbers = _NUMBER.findall(line)
    if not numbers:
        return [(line, 0)]
    words = _NUMBER.sub("#", line)
    return [(line, 0), *((words, int(number) - page) for number in (numbers[0], numbers[-1]) if len(number) < 6)]


def _strip_page(lines: list[str], page: int, repeated: set[tuple[str, int]]) -> list[str]:
    start = 0
    while start < min(EDGE_LINES, len(lines)) and repeated.intersection(_get_edge_keys(lines[start], page)):
        start += 1
    end = len(lines)
    while end > max(start, len(lines) - EDGE_LINES) and repeated.intersection(_get_edge_keys(lines[end - 1], page)):
        end -= 1
    return lines[start:end]


def _join_words(text: str, words: set[str]) -> str:
    """Join words that were divided at the end of a line.

    Those keep their hyphen that have it elsewhere, and those that are two words elsewhere, but never one.
    """

    def join(match: re.Match[str]) -> str:
        first, rest = match.groups()
        are_words = min(len(first), len(rest)) >= MIN_PART_CHARS and {first.lower(), rest.lower()} <= words
        # A soft one is none where nothing is divided.
        has_hyphen = (are_words and "\u00ad" not in match[0]) or f"{first}-{rest}".lower() in words
        if (has_hyphen and f"{first}{rest}".lower() not in words) or not rest[0].islower():
            return f"{first}-{rest}"
        return f"{first}{rest}"

    return _DIVIDED.sub(join, text)


def _read_bookmarks(document: Any) -> Mapping[int, Sequence[Bookmark]]:
    """Return the bookmarks of each page (by its index), as level from 1 and title."""
    from pypdf.errors import PyPdfError

    bookmarks: dict[int, list[Bookmark]] = defaultdict(list)
    try:
        page_numbers = {page.indirect_reference.idnum: number for number, page in enumerate(document.pages)}
        for level, entry in islice(_iter_bookmarks(document.outline, 1), MAX_BOOKMARKS):
            number = page_numbers.get(getattr(entry.page, "idnum", None))
            title = " ".join(str(entry.title or "").split())
            if number is not None and title:
                bookmarks[number].append((level, title))
    except (PyPdfError, *DAMAGES):
        return {}
    return bookmarks


def _iter_bookmarks(entries: Any, level: int) -> Iterator[tuple[int, Any]]:
    for entry in entries:
        if isinstance(entry, list):
            yield from _iter_bookmarks(entry, level + 1)
        else:
            yield level, entry


def _make_blocks(texts: Sequence[str], bookmarks: Mapping[int, Sequence[Bookmark]]) -> Iterator[Block]:
    level = 0
    for number, text in enumerate(texts):
        lines = text.split("\n") if text else []
        headings = _place_bookmarks(lines, bookmarks.get(number, ()))
        first_start = headings[0][0] if headings else len(lines)
        if first_start:
            yield Block("heading", f"Page {number + 1}", level=min(level + 1, MAX_HEADING_LEVEL))
            yield from _make_paragraphs(lines[:first_start])
        for index, (_, start, level, title) in enumerate(headings):
            end = headings[index + 1][0] if index + 1 < len(headings) else len(lines)
            yield Block("heading", escape(title), level=min(level, MAX_HEADING_LEVEL))
            yield from _make_paragraphs(lines[start:end])


def _place_bookmarks(lines: Sequence[str], bookmarks: Sequence[Bookmark]) -> list[tuple[int, int, int, str]]:
    """Return where each bookmark's line is, where its text begins, its level and its title.

    One that stands nowhere on its page begins where the one before it does: at the top, if it is the first.
    """
    spans: dict[str, tuple[int, int]] = {}
    for number, line in reversed(list(enumerate(lines))):
        following_line = lines[number + 1] if number + 1 < len(lines) else ""
        spans[_normalize(line + following_line)] = (number, number + 2)
        spans[_normalize(line)] = (number, number + 1)
    places: list[tuple[int, int, int, str]] = []
    for level, title in bookmarks:
        last_start = places[-1][1] if places else 0
        first, end = spans.get(_normalize(title), (last_start, last_start))
        places.append((max(first, last_start), max(end, last_start), level, title))
    return places


def _normalize(text: str) -> str:
    """Return a title without what bookmarks and pages write differently: spaces, marks, the number of a section."""
    return "".join(character for character in text.casefold() if character.isalpha()) or text


def _make_paragraphs(lines: Sequence[str]) -> Iterator[Block]:
    return (Block("paragraph", escape(text)) for text in _BLANK.split("\n".join(lines)) if text.strip())
