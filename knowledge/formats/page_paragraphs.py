"""Paragraphs, listings and tables of printed pages, from their lines."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import indent

from knowledge.formats.page_segments import (
    MAX_CODE_WIDTH,
    MAX_LEADING,
    MAX_PITCH_DIFFERENCE,
    MAX_SIZE_DIFFERENCE,
    MIN_CODE_SIGNS,
    MIN_CODE_WIDTH,
    MIN_LEADING,
    MIN_SPACE,
    RAISED,
    Line,
    Rows,
    get_separator,
)
from knowledge.formats.page_tables import NEAR

_FROM_RAISED = str.maketrans(RAISED, "0123456789")
# Behind a word, or a sign: elsewhere it is an exponent.
_NOTE_MARK = re.compile(rf"(?:(?<=[^\W\d_]{{2}})|(?<=[.,;:!?)\]\"'\u2019\u201d]))[ ]?[{RAISED}]{{1,3}}")
_NOTE_START = re.compile(rf"[{RAISED}]{{1,3}}|\d{{1,3}}(?=\s|[^\W\d_]{{2}})")
_LIST_MARK = re.compile(
    r"(?:[\u2022\u25cf\u25cb\u25a0\u25aa\u2023\u2043\u2013*-]|\(?(?:\d{1,2}|[a-z])[.)]|\[\d{1,3}\])\s"
)
_BULLET = re.compile(r"[\u2022\u25cf\u25cb\u25a0\u25aa\u2023\u2043]\s")
_NUMBER = re.compile(r"\d{1,2}")
_NARROW_SIGNS = frozenset(".,:;'|!il")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SENTENCE_END = re.compile(rf"[.!?:;\u3002\uff01\uff1f][\"')\]\u2019\u201d{RAISED}]*$")
# More is not looked at, or not joined: nobody prints so much below each other.
MAX_COLUMN_LINES = 500
MAX_JOINED_CHARS = 20_000
MAX_INDENTATION = 80
MAX_BOX_INDENTATION = 8
MIN_DEFINITION_WORDS = 3
# So many texts below each other, beside others, are a table.
MIN_ROWS = 3
MAX_END_CHARS = 20
# Of the usual distance of two lines: beyond it, a paragraph ends.
MAX_LINE_DISTANCE = 1.3
USUAL_LEADING = MAX_LEADING / MAX_LINE_DISTANCE
# The same between two lines of code, which has blank lines.
MAX_CODE_DISTANCE = 3.4
# So many other lines end where a column does, at least.
MIN_FULL_LINES = 2
# How far from the edge of its column, as a share of its size, a line may end and be full, and begin and belong to it.
MAX_RAGGED = 1.5
MAX_SIDE = 100.0
MAX_INDENT = 3.0
MAX_NUMBER_GAP = 2.0
# Of the size of code: what ends so far above the foot of its page ends there.
MAX_FOOT = 4.0
# A narrower column is a list of short lines.
MIN_COLUMN_WIDTH = 10.0


@dataclass(slots=True)
class Paragraph:
    """A paragraph, lines of code, or the `cells` of a table. `is_open`: the last line is full and ends no sentence.

    `left`, `right` and `bottom` are its edges, `pitch` the width of the signs of code, `frame` the sides of the box
    around it. `pages` has the number of the page of each line of code and each row of a table, and of other text
    that of its first line. `term` is what it explains, which stands beside it. `first_sizes` and `last_sizes` are
    those of the signs of its first and its last line.
    """

    text: str
    size: float
    is_open: bool = False
    is_done: bool = False
    is_code: bool = False
    cells: Rows = ()
    left: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    pitch: float = 0.0
    frame: tuple[float, float] | None = None
    pages: list[int] = field(default_factory=list)
    term: str = ""
    first_sizes: frozenset[float] = frozenset()
    last_sizes: frozenset[float] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """What the lines of a document have in common.

    `leading` is the distance of two lines of a sentence, as a share of their size; `ends` tells by where lines begin
    where they end.
    """

    leading: float = USUAL_LEADING
    ends: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def has_edge(self, lines: Sequence[Line], right: float) -> bool:
        """Return whether most lines of the document that begin like these end at a place, or before it."""
        left = min(line.left for line in lines)
        ragged = min(MAX_RAGGED * lines[0].size, MAX_SIDE)
        count_near = count_beyond = 0
        for start in range(math.ceil(left - ragged), math.floor(left + ragged) + 1):
            ends = self.ends.get(start, ())
            count_beyond += len(ends) - bisect_left(ends, right + ragged)
            count_near += bisect_left(ends, right + ragged) - bisect_right(ends, right - ragged)
        return count_near > max(MIN_FULL_LINES, count_beyond)


@dataclass(slots=True)
class _Lines:
    """Lines below each other. `pitch` is the width of all of their signs, or 0."""

    pitch: float
    is_code: bool = False
    lines: list[Line] = field(default_factory=list)
    item: Line | None = None

    def takes(self, line: Line, leading: float, code_leading: float) -> bool:
        last = self.lines[-1]
        if last.cells or line.cells:
            return False
        is_alike = min(self.pitch, line.pitch) > 0 and abs(self.pitch - line.pitch) <= MAX_PITCH_DIFFERENCE
        if self.item and self._is_outside(line, self.item):
            return False
        if not is_alike and _stand_in_columns(self.lines[0], line):
            return False
        has_size = abs(last.size - line.size) <= MAX_SIZE_DIFFERENCE * last.size or last.sizes & line.sizes
        # What is below the text of an item, and not below its bullet, is part of it.
        hangs = self.item and line.left > self.item.left + line.size / 2
        if not (has_size or hangs or (is_alike and self.is_code)):
            return False
        if not is_alike and (self.is_code or line.is_code or last.right <= line.left or line.right <= last.left):
            return False
        max_distance = MAX_CODE_DISTANCE * code_leading if is_alike else MAX_LINE_DISTANCE * leading
        return 0 < last.bottom - line.bottom <= max_distance * max(last.size, line.size)

    @property
    def has_one_width(self) -> bool:
        """Return whether the signs of several lines have one width, though other fonts write some of them narrower."""
        signs = {sign for line in self.lines for sign in line.text if not sign.isspace()}
        widths = [line.pitch for line in self.lines]
        return (
            len(self.lines) > 1
            and MIN_CODE_WIDTH < min(widths) / self.lines[0].size < MAX_CODE_WIDTH
            and max(widths) - min(widths) <= MAX_PITCH_DIFFERENCE
            and len(signs) >= MIN_CODE_SIGNS
            and not signs.isdisjoint(_NARROW_SIGNS)
        )

    def _is_outside(self, line: Line, item: Line) -> bool:
        """Return whether a line below the end of an item begins at its bullet, or to the left of it."""
        is_left = line.left < item.left + item.first_width + line.size / 4
        is_beside = line.left < item.left - line.size / 2
        has_end = is_beside or _SENTENCE_END.search(self.lines[-1].text[-MAX_END_CHARS:])
        is_new = line.text[:1].isupper() or (is_beside and _LIST_MARK.match(line.text))
        return bool(is_left and is_new and has_end)

    def add(self, line: Line) -> None:
        self.pitch = self.pitch if line.pitch else 0.0
        self.is_code |= line.is_code
        self.item = line if _BULLET.match(line.text) else self.item
        self.lines.append(line)


def split_notes(lines: Sequence[Line]) -> tuple[list[Line], list[tuple[int, list[Line]]]]:
    """Return the text of a page without the marks of its footnotes, and these notes, each with the line of its mark.

    A note begins with a number that the page has as a mark, which is raised again or smaller than most of the page.
    """
    size = _find_size([line for line in lines if not line.is_code] or lines)
    marks = {mark for line in lines for mark in _find_marks(line)}
    texts: list[Line] = []
    notes: dict[str, list[Line]] = {}
    number = ""
    note_size = 0.0
    for line in lines:
        start = _NOTE_START.match(line.text)
        mark = start[0].translate(_FROM_RAISED) if start else ""
        is_small = line.size < size * (1 - MAX_SIZE_DIFFERENCE)
        if start and mark in marks.difference(notes) and (is_small or mark != start[0]):
            line.text = f"{mark} {line.text[start.end() :].lstrip()}"
            number = mark
            note_size = line.size
        elif line.size > note_size * (1 + MAX_SIZE_DIFFERENCE):
            number = ""
        (notes.setdefault(number, []) if number else texts).append(line)
    places: dict[str, int] = {}
    for place, line in enumerate(texts):
        for mark in _find_marks(line):
            places.setdefault(mark, place)
        line.text = _NOTE_MARK.sub(
            lambda mark: "" if mark[0].strip().translate(_FROM_RAISED) in notes else mark[0], line.text
        )
    return texts, [(places.get(mark, len(texts) - 1), note) for mark, note in notes.items()]


def _find_marks(line: Line) -> list[str]:
    return [mark.strip().translate(_FROM_RAISED) for mark in _NOTE_MARK.findall(line.text)]


def find_layout(lines: Sequence[Line]) -> Layout:
    """Return the layout of the lines of a document."""
    ends: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        ends[round(line.left)].append(line.right)
    return Layout(_find_leading(lines, USUAL_LEADING), {left: sorted(rights) for left, rights in ends.items()})


def make_paragraphs(lines: Sequence[Line], layout: Layout) -> list[Paragraph]:
    """Return the paragraphs of lines: those that are full go on in the next line, the others end in a line break.

    `layout` is that of the document.
    """
    leading = _find_leading(lines, layout.leading)
    code_leading = _find_distance(pairwise([line for line in lines if line.is_code]), USUAL_LEADING)
    blocks: list[_Lines] = []
    for line in lines:
        if not blocks or not blocks[-1].takes(line, leading, code_leading):
            blocks.append(_Lines(line.pitch))
        blocks[-1].add(line)
    blocks = _join_numbers(blocks)
    columns = _find_columns([block.lines for block in blocks if not block.is_code])
    paragraphs = [
        _make_definition(block.lines)
        if block.lines[0].parts and not block.is_code and _explains(block.lines, columns)
        else _write_code(block.lines, code_leading)
        if block.is_code or block.has_one_width
        else _make_paragraph(block.lines, lines, layout)
        for block in blocks
    ]
    for paragraph, (block, following) in zip(paragraphs, pairwise(blocks), strict=False):
        # What stands below it is a new one, unless a full line goes on in it; the top of a column is not.
        is_below = following.lines[0].bottom <= block.lines[-1].bottom
        paragraph.is_done = is_below and not paragraph.is_open
        paragraph.is_open &= not is_below
    return join_paragraphs(paragraphs)


def _join_numbers(blocks: Sequence[_Lines]) -> list[_Lines]:
    """Join a number to the text that it stands in the middle of, to the left, as those of the notes of code do."""
    joined: list[_Lines] = []
    number: Line | None = None
    for block in blocks:
        first, last = block.lines[0], block.lines[-1]
        is_beside = number and 0 < first.left - number.right < MAX_NUMBER_GAP * first.size and not block.is_code
        if number and is_beside and last.bottom < number.bottom + number.size / 2 < first.bottom + first.size:
            first.text = f"{number.text} {first.text}"
            joined.pop()
        number = first if len(block.lines) == 1 and _NUMBER.fullmatch(first.text) else None
        joined.append(block)
    return joined


def join_paragraphs(paragraphs: Iterable[Paragraph]) -> list[Paragraph]:
    """Join what goes on in the next column or on the next page."""
    joined: list[Paragraph] = []
    for paragraph in paragraphs:
        if joined and goes_on(joined[-1], paragraph):
            joined[-1].text += f"{get_separator(joined[-1].text, paragraph.text)}{paragraph.text}"
            joined[-1].is_open = paragraph.is_open
            joined[-1].last_sizes = paragraph.last_sizes
            joined[-1].is_done = paragraph.is_done
        else:
            joined.append(paragraph)
    return joined


def join_pages(last: Paragraph, first: Paragraph, foot: float) -> bool:
    """Join what goes on at the top of the next page to the last one before it, and return whether it does.

    A sentence does, a table as wide as the one there, and code below code that reaches down to the `foot`
    of its page.
    """
    if last.is_code and first.is_code and len(last.text) <= MAX_JOINED_CHARS:
        is_full = last.bottom - foot < MAX_FOOT * last.size
        if not is_full or abs(last.pitch - first.pitch) > MAX_PITCH_DIFFERENCE or not _have_same_sides(last, first):
            return False
        shift = max(-MAX_INDENTATION, min(MAX_INDENTATION, round((first.left - last.left) / last.pitch)))
        last.text = f"{indent(last.text, ' ' * -shift)}\n{indent(first.text, ' ' * shift)}"
        last.left = min(last.left, first.left)
        last.bottom = first.bottom
        last.pages += first.pages
        return True
    if last.cells and first.cells:
        edges = abs(last.left - first.left) + abs(last.right - first.right)
        if edges > last.size or len(last.cells[0]) != len(first.cells[0]):
            return False
        # Its header may stand on each page.
        rows = first.cells[first.cells[0] == last.cells[0] :]
        last.cells += rows
        last.pages += first.pages[: len(rows)]
        return True
    return len(join_paragraphs([last, first])) == 1


def _have_same_sides(last: Paragraph, first: Paragraph) -> bool:
    sides, others = last.frame or (0.0, 0.0), first.frame or (0.0, 0.0)
    return all(abs(side - other) < NEAR for side, other in zip(sides, others, strict=True))


def goes_on(paragraph: Paragraph, other: Paragraph) -> bool:
    """Return whether a paragraph goes on in another one: its sentence is not at its end."""
    if paragraph.is_done or paragraph.is_code or other.is_code or len(paragraph.text) > MAX_JOINED_CHARS:
        return False
    if paragraph.cells or other.cells or other.term:
        return False
    if abs(paragraph.size - other.size) > MAX_SIZE_DIFFERENCE * paragraph.size or _LIST_MARK.match(other.text):
        return False
    if _differ(paragraph.last_sizes, other.first_sizes):
        return False
    return not _SENTENCE_END.search(paragraph.text[-MAX_END_CHARS:]) and (paragraph.is_open or other.text[:1].islower())


def _differ(sizes: frozenset[float], others: frozenset[float]) -> bool:
    """Return whether two lines are set in other fonts."""
    return bool(sizes and others and sizes.isdisjoint(others))


def _find_size(lines: Iterable[Line]) -> float:
    """Return the size that most of the text has."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[round(line.size, 1)] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _find_leading(lines: Sequence[Line], usual: float) -> float:
    """Return the distance of two lines of a sentence as a share of their size; the usual one if there are none."""
    pairs = [
        (line, following)
        for line, following in pairwise(lines)
        if abs(line.left - following.left) < NEAR
        and not (line.is_code or following.is_code or line.cells or following.cells)
        and (following.text[:1].islower() or not following.text[:1].isascii())
        and not _LIST_MARK.match(following.text)
    ]
    return _find_distance(pairs, usual)


def _find_distance(pairs: Iterable[tuple[Line, Line]], usual: float) -> float:
    distances = Counter(
        max(MIN_LEADING, round((line.bottom - following.bottom) / line.size, 1))
        for line, following in pairs
        if line.size and 0 < line.bottom - following.bottom < MAX_LEADING * line.size
    )
    return distances.most_common(1)[0][0] if distances else usual


def _write_code(lines: Sequence[Line], leading: float) -> Paragraph:
    left = min(line.left for line in lines)
    start = lines[0].code_left
    # In a box, all of the code may be indented.
    left = left if start is None or left - start > MAX_BOX_INDENTATION * lines[0].pitch else min(left, start)
    text = ""
    for number, line in enumerate(lines):
        if number:
            distance = (lines[number - 1].bottom - line.bottom) / (leading * line.size)
            text += "\n" * max(1, round(distance))
        text += f"{' ' * min(MAX_INDENTATION, round((line.left - left) / line.pitch))}{line.text}"
    last = lines[-1]
    pitch = max(line.pitch for line in lines)
    frame = lines[0].frame
    return Paragraph(text, last.size, is_code=True, left=left, bottom=last.bottom, pitch=pitch, frame=frame)


def _stand_in_columns(line: Line, other: Line) -> bool:
    return bool(line.parts and other.parts and abs(line.column - other.column) < NEAR)


def _find_columns(blocks: Sequence[Sequence[Line]]) -> set[int]:
    """Return where texts stand that explain what is beside them: they hang, or several others stand below them.

    Of a table without lines, these are the rows. What says the same in each of them explains nothing.
    """
    texts: dict[int, set[str]] = defaultdict(set)
    for first, *_ in blocks:
        if first.parts and _WORD.search(first.parts[1]) and not _LIST_MARK.match(f"{first.parts[0]} "):
            texts[round(first.column)].add(first.parts[1])
    rows = {column for column, found in texts.items() if len(found) >= MIN_ROWS}
    return rows | {round(lines[0].column) for lines in blocks if _hangs(lines)}


def _hangs(lines: Sequence[Line]) -> bool:
    """Return whether text goes on below itself, but not below what stands beside it, as definitions do."""
    first, *others = lines
    if not others or not first.parts or _LIST_MARK.match(f"{first.parts[0]} "):
        return False
    # Parts of a formula stand so, too.
    words = _WORD.findall(" ".join([first.parts[1], *(line.text for line in others)]))
    are_below = all(abs(line.left - first.column) < NEAR and not line.is_row for line in others)
    return are_below and len(words) >= MIN_DEFINITION_WORDS


def _explains(lines: Sequence[Line], columns: Set[int]) -> bool:
    """Return whether lines are a definition: they hang, or the only one is divided where others hang."""
    return _hangs(lines) or (len(lines) == 1 and any(abs(lines[0].column - column) < NEAR for column in columns))


def _make_definition(lines: Sequence[Line]) -> Paragraph:
    term, text = lines[0].parts or ("", "")
    for line in lines[1:]:
        text += get_separator(text, line.text) + line.text
    if term.startswith("["):
        # The mark of a book explains nothing.
        text, term = f"{term} {text}", ""
    return Paragraph(text, lines[-1].size, bottom=lines[-1].bottom, term=term, is_done=True)


def _make_paragraph(lines: Sequence[Line], page: Sequence[Line], layout: Layout) -> Paragraph:
    if lines[0].cells:
        table = lines[0]
        return Paragraph(table.text, table.size, cells=table.cells, left=table.left, right=table.right)
    right = max(line.right for line in lines)
    is_column = right - min(line.left for line in lines) >= MIN_COLUMN_WIDTH * lines[0].size
    is_edge = is_column and (_is_edge(lines, right, page) or layout.has_edge(lines, right))
    text = lines[0].text
    for line, following in pairwise(lines):
        is_full = right - line.right < following.first_width + MIN_SPACE * line.size
        is_full = (
            is_full
            and (is_edge or (is_column and (following.text[0].islower() or following.text[0] == "(")))
            and not _LIST_MARK.match(following.text)
            and not _differ(line.sizes, following.sizes)
        )
        # What begins far to the left of the line above it is set to the right, or in the middle.
        is_full = is_full and line.left - following.left < MAX_INDENT * line.size
        is_full = is_full and not (line.is_row or following.is_row)
        text += get_separator(line.text, following.text) if is_full else "\n"
        text += following.text
    last = lines[-1]
    is_open = (
        is_edge
        and not last.is_row
        and right - last.right < MAX_RAGGED * last.size
        and not _SENTENCE_END.search(last.text)
    )
    left = lines[0].left
    return Paragraph(text, last.size, is_open, left=left, first_sizes=lines[0].sizes, last_sizes=last.sizes)


def _is_edge(lines: Sequence[Line], right: float, page: Sequence[Line]) -> bool:
    """Return whether most lines of a page that begin like these end at a place, or before it."""
    left = min(line.left for line in lines)
    size = lines[0].size
    ends = [line.right - right for line in page[:MAX_COLUMN_LINES] if abs(line.left - left) < MAX_RAGGED * size]
    count_near = sum(abs(end) < MAX_RAGGED * size for end in ends)
    count_beyond = sum(end >= MAX_RAGGED * size for end in ends)
    return count_near > max(MIN_FULL_LINES, count_beyond)
