"""PDF documents as blocks: paragraphs under bookmarks or numbers of pages, without what every page repeats."""

from __future__ import annotations

import ctypes
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice, takewhile
from typing import Any

from core.markup.document import Block
from core.markup.writer import MAX_HEADING_LEVEL, write_markdown
from knowledge.formats.inline import escape, make_code
from knowledge.formats.page_drawn import add_drawn
from knowledge.formats.page_layout import make_lines, mark_code, mark_framed
from knowledge.formats.page_paragraphs import Paragraph
from knowledge.formats.page_sections import Bookmark, Section, find_headings, make_sections
from knowledge.formats.page_segments import Glyph, Line
from knowledge.formats.page_tables import Box, find_frames, find_grids
from knowledge.parsing.limits import FormatError, ParseLimits, map_parser_errors

# A word that was divided at the end of a line.
_DIVIDED = re.compile(r"(?<![^\W\d_])([^\W\d_]+)[-\u00ad\u2010\u2011]\n([^\W\d_]+)")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_NUMBER = re.compile(r"\d+")
# What items begin with, each in a line of its own.
_BULLET = re.compile(r"[\u2022\u2023\u2043\u25a0\u25aa\u25cb\u25cf]\s")
# Elsewhere they are signs of formulas and sentences.
_INNER_BULLETS = ("\u25e6 ", "\u2013 ", "* ")
# Within a paragraph, one with a number is the first of its list, or is below others.
_FIRST_ITEM = re.compile(rf"{_BULLET.pattern}|1\.\s")
_NUMBER_SIGN = "1"
_ITEM_NUMBER = re.compile(r"[1-9]\d?(?=\.\s)")
_ITEM_START = re.compile(rf"\n(?={_BULLET.pattern}|[\u25e6\u2013*] |[1-9]\d?\.\s)")
_ROMAN_NUMBER = re.compile(r"(?<![^ ])[ivxlc]{1,8}$")
# Where running heads and page numbers are: so many lines at the top of a page, and at its foot.
EDGE_LINES = 3
# Parts of a word are often words as well, if they are shorter.
MIN_PART_CHARS = 4
# What so many pages have there is no text of its own.
MIN_REPEATS = 3
MIN_HEADS_SHARE = 0.8
# Not more than so many points lower or higher.
MAX_HEAD_SHIFT = 4.0
MAX_PAGE_DIGITS = 6
MAX_LIST_DEPTH = 6
MAX_BOOKMARKS = 5_000
# More are a drawing.
MAX_OBJECTS = 5_000
MIN_PAGE_SHARE = 0.9
# How far from the corner of its page text may be, in points.
MAX_PLACE = 100_000.0
# What the library writes for a hyphen at the end of a line, and for the end of a line.
_HYPHEN = 2
_LINE_ENDS = (10, 13)
# A sign beyond the first 65,536 is two.
_FIRST_HALVES = range(0xD800, 0xDC00)
_SECOND_HALVES = range(0xDC00, 0xE000)
# How a page is turned to be read, by degrees: the left, bottom, right and top edge of a character.
_Turn = Callable[[float, float, float, float], Box]
_TURNS: Mapping[int, _Turn] = {
    0: lambda left, bottom, right, top: (left, bottom, right, top),
    90: lambda left, bottom, right, top: (bottom, -right, top, -left),
    180: lambda left, bottom, right, top: (-right, -top, -left, -bottom),
    270: lambda left, bottom, right, top: (-top, left, -bottom, right),
}

_Key = tuple[str | int, ...]


def read_pdf(data: bytes) -> str:
    """Return a PDF as Markdown: its text below its bookmarks or large lines, or the numbers of its pages.

    Raises `FormatError`.
    """
    return read_pages(data)[0]


@map_parser_errors
def read_pages(data: bytes) -> tuple[str, tuple[int, ...]]:
    """Return a PDF as Markdown, and for each line of it the page, from 1, where it stands. Raises `FormatError`."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        is_encrypted = error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD
        raise FormatError("it is encrypted" if is_encrypted else "it is damaged") from error
    limits = ParseLimits()
    pages = _strip_edges([_read_lines(document, number, limits) for number in range(len(document))])
    mark_code(pages)
    if not any(pages):
        raise FormatError("it holds no text: a scan needs text recognition first")
    sections = make_sections(pages, _read_bookmarks(document) or find_headings(pages))
    texts = [paragraph.text for section in sections for paragraph in section.paragraphs]
    words = {word.lower() for text in texts for word in _WORD.findall(_DIVIDED.sub(" ", text))}
    return _write(sections, words)


def _read_lines(document: Any, number: int, limits: ParseLimits) -> list[Line]:
    """Return the lines of a page; a page that is damaged has none."""
    from pypdfium2 import PdfiumError

    try:
        page = document[number]
    except PdfiumError:
        return []
    with closing(page), closing(page.get_textpage()) as text_page:
        turn = _TURNS[page.get_rotation()]
        paths = list(_iter_paths(page, turn))
        frames = [frame for frame in find_frames(paths) if not _is_page(frame, page.get_size())]
        lines = make_lines(add_drawn(_iter_segments(text_page, turn), paths), find_grids(paths), frames)
    mark_framed(lines, frames)
    limits.consume("\n".join(line.text for line in lines))
    return lines


def _is_page(frame: Box, size: tuple[float, float]) -> bool:
    """Return whether an area is the ground of a page."""
    left, bottom, right, top = frame
    return right - left > MIN_PAGE_SHARE * size[0] and top - bottom > MIN_PAGE_SHARE * size[1]


def _iter_paths(page: Any, turn: _Turn) -> Iterator[Box]:
    """Yield the edges of what is drawn on a page: of its lines and areas."""
    from pypdfium2 import raw

    edges = [ctypes.c_float() for _ in range(4)]
    for index in range(min(MAX_OBJECTS, raw.FPDFPage_CountObjects(page))):
        drawn = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(drawn) == raw.FPDF_PAGEOBJ_PATH and raw.FPDFPageObj_GetBounds(drawn, *edges):
            yield turn(*(edge.value for edge in edges))


def _iter_segments(text_page: Any, turn: _Turn) -> Iterator[list[Glyph]]:
    """Yield the characters of a page, a list for each of its lines, or parts of them."""
    from pypdfium2 import raw

    box = raw.FS_RECTF()
    glyphs: list[Glyph] = []
    for index in range(raw.FPDFText_CountChars(text_page)):
        code = raw.FPDFText_GetUnicode(text_page, index)
        if code not in _LINE_ENDS and code <= sys.maxunicode:
            raw.FPDFText_GetLooseCharBox(text_page, index, box)
            left, bottom, right, top = turn(box.left, box.bottom, box.right, box.top)
            # What stands nowhere is no number either.
            if -MAX_PLACE < left <= right < MAX_PLACE and -MAX_PLACE < bottom <= top < MAX_PLACE:
                sign = "-" if code == _HYPHEN else chr(code)
                if code in _SECOND_HALVES and glyphs and ord(glyphs[-1][0]) in _FIRST_HALVES:
                    sign = f"{glyphs.pop()[0]}{sign}".encode("utf-16", "surrogatepass").decode("utf-16")
                glyphs.append((sign, left, bottom, right, top))
        if code in _LINE_ENDS or code == _HYPHEN:
            if glyphs:
                yield glyphs
            glyphs = []
    if glyphs:
        yield glyphs


def _strip_edges(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Return the lines of pages without running heads and page numbers: what their edges have in common.

    What stands at one place of many pages goes, too: numbers of lines, a watermark.
    """
    pages_by_key: dict[_Key, set[int]] = defaultdict(set)
    for number, lines in enumerate(pages):
        for line in lines:
            pages_by_key[_get_place(line)].add(number)
        for line in chain(*_find_edges(lines)):
            for key in _get_edge_keys(line, number):
                pages_by_key[key].add(number)
    many = max(MIN_REPEATS, len(pages) // 4)
    repeated = {key for key, numbers in pages_by_key.items() if len(numbers) >= (MIN_REPEATS if key[0] else many)}
    heads = chain.from_iterable(_find_heads(lines, number, repeated) for number, lines in enumerate(pages))
    edges = chain.from_iterable(_find_edges(lines) for lines in pages)
    counts = Counter(map(_get_height, {id(line): line for line in chain.from_iterable(edges)}.values()))
    # Where nearly all that stands there is a head, the others are: a short chapter has its own on a single page.
    repeated |= {
        height
        for height, count in Counter(map(_get_height, heads)).items()
        if count >= max(many, MIN_HEADS_SHARE * counts[height])
    }
    stripped = [{id(line) for line in _find_heads(lines, number, repeated)} for number, lines in enumerate(pages)]
    return [
        [line for line in lines if id(line) not in ids and _get_place(line) not in repeated]
        for lines, ids in zip(pages, stripped, strict=True)
    ]


def _find_edges(lines: Sequence[Line]) -> tuple[Sequence[Line], Sequence[Line]]:
    """Return the lines at the top of a page and those at its foot, from the edge inwards."""
    by_height = sorted(lines, key=lambda line: line.bottom)
    return by_height[::-1][:EDGE_LINES], by_height[:EDGE_LINES]


def _find_heads(lines: Sequence[Line], page: int, repeated: Set[_Key]) -> list[Line]:
    """Return the lines at the edges of a page that other pages have there, too."""
    heads = {
        id(line): line
        for edge in _find_edges(lines)
        for line in takewhile(
            lambda line: not repeated.isdisjoint([*_get_edge_keys(line, page), _get_height(line)]), edge
        )
    }
    return list(heads.values())


def _get_place(line: Line) -> _Key:
    return ("", line.text, round(line.left), round(line.bottom))


def _get_height(line: Line) -> _Key:
    return ("at", round(line.bottom), round(line.size))


def _get_edge_keys(line: Line, page: int) -> list[_Key]:
    """Return by what a line is the same on other pages: its words, or a number that runs with them.

    Such words stand at the same height, or on many pages; such a number has the same words around it, or is at an end
    of the line on many pages.
    """
    roman = _ROMAN_NUMBER.sub("#", line.text)
    if roman != line.text:
        return [(roman,)]
    step = int(line.bottom / MAX_HEAD_SHIFT)
    # Of two texts, that of the chapter is on more pages than that of the section.
    texts = [text for text in (line.text, *(line.parts or ())) if any(map(str.isalnum, text))]
    keys: list[_Key] = [("", line.text), *((text, place) for text in texts for place in (step, step + 1))]
    numbers = list(_NUMBER.finditer(line.text))
    if not numbers:
        # Signs alone are part of a listing.
        return keys if any(map(str.isalpha, line.text)) else []
    words = _NUMBER.sub("#", line.text)
    for number in (numbers[0], numbers[-1]):
        if len(number[0]) < MAX_PAGE_DIGITS:
            keys.append((words, int(number[0]) - page))
            if not number.start() or number.end() == len(line.text):
                keys.append(("", int(number[0]) - page))
    return keys


def _read_bookmarks(document: Any) -> Mapping[int, Sequence[Bookmark]]:
    """Return the bookmarks of each page (by its index), as level from 1 and title."""
    bookmarks: dict[int, list[Bookmark]] = defaultdict(list)
    for bookmark in islice(document.get_toc(), MAX_BOOKMARKS):
        destination = bookmark.get_dest()
        number = destination.get_index() if destination else None
        if number is not None:
            title = " ".join(bookmark.get_title().split()) or f"Page {number + 1}"
            bookmarks[number].append((bookmark.level + 1, title))
    return bookmarks


def _write(sections: Iterable[Section], words: set[str]) -> tuple[str, tuple[int, ...]]:
    """Return sections as Markdown, and the page of each of its lines."""
    texts: list[str] = []
    pages: list[int] = []
    for block, block_pages in _make_blocks(sections, words):
        if text := write_markdown([block]):
            texts.append(text)
            count = text.count("\n") + 1
            lines = block_pages if len(block_pages) == count else [block_pages[0]] * count
            # Below it is a blank line.
            pages += [*lines, lines[-1]]
    return "\n\n".join(texts), tuple(pages[:-1])


def _make_blocks(sections: Iterable[Section], words: set[str]) -> Iterator[tuple[Block, Sequence[int]]]:
    """Yield blocks, each with the pages of its lines, or with that of the first one."""
    for section in sections:
        if section.title:
            yield Block("heading", escape(section.title), level=min(section.level, MAX_HEADING_LEVEL)), [section.page]
        items: list[Paragraph] = []
        for paragraph in (*section.paragraphs, *section.notes):
            lead, rest = _split_off_items(paragraph, is_item=bool(items))
            if lead:
                yield from _make_lists(items, words)
                yield _make_block(lead, words)
                items = []
            items += [rest] if rest else []
        yield from _make_lists(items, words)


def _make_block(paragraph: Paragraph, words: set[str]) -> tuple[Block, Sequence[int]]:
    pages = paragraph.pages
    if paragraph.is_code:
        # Its fences stand where its first and its last line do.
        return Block("code", paragraph.text), [pages[0], *pages, pages[-1]]
    if paragraph.cells:
        header, *rows = (tuple(_write_cell(_join_words(cell, words)) for cell in row) for row in paragraph.cells)
        # Below its header is a line of marks.
        return Block("table", header=header, rows=tuple(rows)), [pages[0], *pages]
    text = Block("paragraph", escape(_join_words(paragraph.text, words)))
    return (Block("definition", escape(paragraph.term), (text,)) if paragraph.term else text), pages


def _split_off_items(paragraph: Paragraph, *, is_item: bool) -> tuple[Paragraph | None, Paragraph | None]:
    """Return a paragraph without the items at its end, and these; `is_item`: it stands below others."""
    text = paragraph.text
    if paragraph.is_code or paragraph.cells or paragraph.term:
        return paragraph, None
    if _BULLET.match(text) or _ITEM_NUMBER.match(text) or (is_item and text.startswith(_INNER_BULLETS)):
        return None, paragraph
    start = text.find(next((f"\n{line}" for line in text.split("\n")[1:] if _FIRST_ITEM.match(line)), "\0"))
    if start < 0:
        return paragraph, None
    return replace(paragraph, text=text[:start]), replace(paragraph, text=text[start + 1 :])


@dataclass(slots=True)
class _Level:
    """Items of a list that begin with a sign at `left`; `first` is the number of the first one, and 0 for bullets."""

    sign: str = ""
    first: int = 0
    left: float = 0.0
    items: list[Block] = field(default_factory=list)


def _make_lists(paragraphs: Sequence[Paragraph], words: set[str]) -> Iterator[tuple[Block, Sequence[int]]]:
    """Yield the lists of what begins with bullets or numbers: another sign than those before is that of an inner list.

    What stands to the left of the list above it begins another one, as does a number that does not follow the one
    before it, which is text where Markdown would take both lists for one.
    """
    levels = [_Level()]
    pages: list[int] = []
    for paragraph in paragraphs:
        for item in _ITEM_START.split(_join_words(paragraph.text, words)):
            match = _ITEM_NUMBER.match(item)
            sign, number = (_NUMBER_SIGN, int(match[0])) if match else (item[0], 0)
            level = next((level for level in levels if level.sign == sign), None)
            goes_on = number in (0, level.first + len(level.items) if level else 1)
            is_outside = level is None and paragraph.left < levels[-1].left - paragraph.size / 2
            if levels[1:] and (is_outside or not goes_on):
                yield _close_list(levels), pages
                levels, pages, is_again = [_Level()], [], level is levels[1]
                level = None
                if is_again:
                    yield Block("paragraph", escape(item)), paragraph.pages
                    continue
            if level:
                _close(levels, levels.index(level))
            elif len(levels) <= MAX_LIST_DEPTH:
                levels.append(_Level(sign, number, paragraph.left))
            text = escape(item[match.end() + 1 if match else 1 :].strip())
            levels[-1].items.append(Block("item", text))
            pages += paragraph.pages[:1] * (text.count("\n") + 1)
    if levels[1:]:
        yield _close_list(levels), pages


def _close_list(levels: list[_Level]) -> Block:
    _close(levels, 1)
    return Block("list", children=tuple(levels[1].items), level=levels[1].first)


def _close(levels: list[_Level], depth: int) -> None:
    """Put the lists below a depth into the last items of those that they stand in."""
    while len(levels) > depth + 1:
        inner = levels.pop()
        items = levels[-1].items
        items[-1] = replace(
            items[-1], children=(*items[-1].children, Block("list", children=tuple(inner.items), level=inner.first))
        )


def _write_cell(text: str) -> str:
    """Return the text of a cell; signs alone that Markdown has a meaning for are code, which shows them as they are."""
    written = escape(text)
    is_words = " " in text or any(map(str.isalpha, text))
    return written if written == text or is_words else make_code(text)


def _join_words(text: str, words: set[str]) -> str:
    """Join words that were divided at the end of a line.

    Those keep their hyphen that have it elsewhere or have another one, and those that are two words elsewhere, unless
    they are one word elsewhere.
    """

    def join(match: re.Match[str]) -> str:
        first, rest = match.groups()
        has_another = "-" in (text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1])
        are_words = min(len(first), len(rest)) >= MIN_PART_CHARS and {first.lower(), rest.lower()} <= words
        # A soft one is none where nothing is divided.
        has_hyphen = (are_words and "\u00ad" not in match[0]) or f"{first}-{rest}".lower() in words or has_another
        is_word = f"{first}{rest}".lower() in words and first.isupper() == rest.isupper()
        if not is_word and (has_hyphen or not rest[0].islower()):
            return f"{first}-{rest}"
        return f"{first}{rest}"

    return _DIVIDED.sub(join, text)
