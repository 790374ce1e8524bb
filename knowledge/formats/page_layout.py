"""Lines and paragraphs of printed pages, from where their characters stand and how large they are."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, groupby, pairwise
from statistics import median_low

# A character, its left, bottom, right and top edge, in points from the lower left corner of the page.
Glyph = tuple[str, float, float, float, float]

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_ALL_RAISED = f"{_RAISED}⁺⁻⁻⁽⁾ⁿ"
_TO_RAISED = str.maketrans("0123456789+-\u2212()n", _ALL_RAISED)
_FROM_RAISED = str.maketrans(_RAISED, "0123456789")
# Behind a word, or a sign: elsewhere it is an exponent.
_NOTE_MARK = re.compile(rf"(?:(?<=[^\W\d_]{{2}})|(?<=[.,;:!?)\]\"'\u2019\u201d]))[ ]?[{_RAISED}]{{1,3}}")
_NOTE_START = re.compile(rf"[{_RAISED}]{{1,3}}|\d{{1,3}}(?=\s)")
_LIST_MARK = re.compile(
    r"(?:[\u2022\u25cf\u25cb\u25a0\u25aa\u2023\u2043\u2013*-]|\(?(?:\d{1,2}|[a-z])[.)]|\[\d{1,3}\])\s"
)
_SENTENCE_END = re.compile(rf"[.!?:;\u3002\uff01\uff1f][\"')\]\u2019\u201d{_RAISED}]*$")
# Signs of their own, which stand before their letter, and those that belong to one.
_ACCENT_SIGNS = "\u00a8\u00b4\u02c6\u02dc\u00b8\u02c7\u02da"
_ACCENTS = dict(zip(f"{_ACCENT_SIGNS}`", "\u0308\u0301\u0302\u0303\u0327\u030c\u030a\u0300", strict=True))
_ACCENT = re.compile(f"([{_ACCENT_SIGNS}]|(?<=[^\\W\\d_])`(?=[aeiou]))([A-Za-z\u0131])")
_DOTLESS = str.maketrans("\u0131", "i")
_LINE_NUMBER = re.compile(r"[0-9]{1,4}\s+(?=\S)")
_HYPHENS = ("-", "\u00ad", "\u2010", "\u2011")
# Of a font of icons, or no sign at all: no text has them.
_ICON = re.compile(r"[\x00-\x1f\ue000-\uf8ff\ufffe\uffff]")
# From a title to its page, as in a table of contents.
_LEADER = re.compile(r"(?<![. ])[ ]?(?>\.(?:[ ]?\.){4,})[ ]?(?:\d{1,5}|[ivxlc]{1,8})$")
MIN_SIZE = 0.01
# More is not looked at, or not joined: nobody prints so much in a line or below each other.
MAX_LINE_SIGNS = 2_000
MAX_COLUMN_LINES = 500
MAX_JOINED_CHARS = 20_000
MAX_INDENTATION = 80
MAX_END_CHARS = 20
# All of these are shares of the size of a line: its height, from below its letters to above them.
MAX_RAISED_SIZE = 0.85
MIN_RAISED = 0.2
MIN_OVERLAP = 0.4
MAX_GAP = 0.7
MIN_SPACE = 0.15
MIN_CELL_GAP = 1.5
# Between two words whose letters are spaced, of which a line has so many.
MIN_LETTER_GAP = 0.42
MIN_SPACED_LETTERS = 8
MAX_SIZE_DIFFERENCE = 0.08
MIN_LEADING = 0.7
MAX_LEADING = 2.0
# Of the usual distance of two lines: beyond it, a paragraph ends.
MAX_LINE_DISTANCE = 1.3
# The same between two lines of code, which has blank lines.
MAX_CODE_DISTANCE = 3.4
# So many other lines end where a column does, at least.
MIN_FULL_LINES = 2
# How far from the edge of its column a line may end and be full, and begin and belong to it.
MAX_RAGGED = 1.5
# A narrower column is a list of short lines.
MIN_COLUMN_WIDTH = 8.0
# Signs of one width are a line of code only if so many are different.
MIN_CODE_SIGNS = 5
MIN_CODE_WIDTH = 0.3
MAX_CODE_WIDTH = 0.75
MAX_PITCH_DIFFERENCE = 0.11


@dataclass(slots=True)
class Line:
    """A line of a page, in points. Raised digits are written as such; `first_width` is that of the first word.

    `pitch` is the width of all of its signs if they have the same, else 0. `is_row` tells that it has a large gap, as
    rows of tables have: it does not go on in the next line.
    """

    text: str
    left: float
    bottom: float
    right: float
    size: float
    first_width: float
    pitch: float
    is_row: bool = False

    @property
    def is_code(self) -> bool:
        """Return whether the line is set in a font of one width, as code is."""
        return (
            MIN_CODE_WIDTH < self.pitch / self.size < MAX_CODE_WIDTH and len(set(self.text) - {" "}) >= MIN_CODE_SIGNS
        )


@dataclass(slots=True)
class Paragraph:
    """A paragraph, or lines of code. `is_open` tells that its last line is full and ends no sentence."""

    text: str
    size: float
    is_open: bool = False
    is_code: bool = False


@dataclass(slots=True)
class _Segment:
    """What stands in one line without a large gap."""

    glyphs: list[Glyph]
    left: float = field(init=False)
    bottom: float = field(init=False)
    right: float = field(init=False)
    size: float = field(init=False)

    def __post_init__(self) -> None:
        self.glyphs = list(dropwhile(lambda glyph: glyph[0].isspace(), self.glyphs))
        placed = [glyph for glyph in self.glyphs if not glyph[0].isspace()]
        self.left = min(glyph[1] for glyph in placed)
        self.bottom = median_low(glyph[2] for glyph in placed)
        self.right = max(glyph[3] for glyph in placed)
        self.size = max(MIN_SIZE, median_low(glyph[4] - glyph[2] for glyph in placed))

    def takes(self, other: _Segment) -> bool:
        """Return whether another one goes on in the same line, as a raised digit does, and what follows it."""
        if len(self.glyphs) > MAX_LINE_SIGNS:
            return False
        overlap = min(self.bottom + self.size, other.bottom + other.size) - max(self.bottom, other.bottom)
        gap = other.left - self.right
        size = max(self.size, other.size)
        return overlap >= MIN_OVERLAP * min(self.size, other.size) and -MIN_SPACE * size <= gap <= MAX_GAP * size

    def add(self, other: _Segment) -> None:
        has_space = other.left - self.right > MIN_SPACE * max(self.size, other.size)
        space = [(" ", self.right, self.bottom, other.left, self.bottom)] if has_space else []
        self.glyphs = [*self.glyphs, *space, *other.glyphs]
        self.__post_init__()

    def to_line(self) -> Line:
        """Return the line, with what is raised written in raised digits, without icons and what leads to a page."""
        text = "".join(
            _write_raised(signs) if is_raised else signs
            for is_raised, glyphs in groupby(self._fill_gaps(), self._is_raised)
            for signs in ["".join(glyph[0] for glyph in glyphs)]
        )
        placed = [glyph for glyph in self.glyphs if not glyph[0].isspace()]
        first_end = next((glyph[1] for glyph in self.glyphs if glyph[0].isspace()), self.right)
        gap = max((following[1] - glyph[3] for glyph, following in pairwise(placed)), default=0.0)
        text, leaders = _LEADER.subn("", _compose(_ICON.sub("", text).rstrip()))
        is_row = bool(leaders) or gap > MIN_CELL_GAP * self.size
        pitch = _find_pitch(placed)
        return Line(text, self.left, self.bottom, self.right, self.size, first_end - self.left, pitch, is_row)

    def split_number(self, previous: int) -> tuple[_Segment, int]:
        """Return a line of code without its number, and this; other lines as they are, and 0."""
        if number := _LINE_NUMBER.match("".join(glyph[0] for glyph in self.glyphs)):
            code = _Segment(self.glyphs[number.end() :])
            line = code.to_line()
            if line.is_code or (line.pitch and previous and int(number[0]) == previous + 1):
                return code, int(number[0])
        return self, 0

    def _fill_gaps(self) -> list[Glyph]:
        """Return the signs with spaces in gaps between letters; where all letters are spaced, only in large ones."""
        words = "".join(glyph[0] for glyph in self.glyphs).split()
        if sum(len(word) == 1 and word.isalpha() for word in words) > max(MIN_SPACED_LETTERS, len(words) / 2):
            return self._close_up()
        gaps = [following[1] - glyph[3] for glyph, following in pairwise(self.glyphs)]
        if not gaps or median_low(gaps) > MIN_SPACE * self.size / 2:
            return self.glyphs
        filled = [self.glyphs[0]]
        for following, gap in zip(self.glyphs[1:], gaps, strict=True):
            last = filled[-1]
            if gap > MIN_SPACE * self.size and last[0].isalpha() and following[0].isalpha():
                filled.append((" ", last[3], last[2], following[1], last[2]))
            filled.append(following)
        return filled

    def _close_up(self) -> list[Glyph]:
        placed = [glyph for glyph in self.glyphs if not glyph[0].isspace()]
        closed = placed[:1]
        for last, glyph in pairwise(placed):
            if glyph[1] - last[3] > MIN_LETTER_GAP * self.size:
                closed.append((" ", last[3], last[2], glyph[1], last[2]))
            closed.append(glyph)
        return closed

    def _is_raised(self, glyph: Glyph) -> bool:
        _, _, bottom, _, top = glyph
        return bottom - self.bottom > MIN_RAISED * self.size and top - bottom < MAX_RAISED_SIZE * self.size


def _find_pitch(glyphs: Sequence[Glyph]) -> float:
    widths = [glyph[3] - glyph[1] for glyph in glyphs]
    return widths[0] if max(widths) - min(widths) <= MAX_PITCH_DIFFERENCE else 0.0


@dataclass(slots=True)
class _Lines:
    """Lines below each other. `pitch` is the width of all of their signs, or 0."""

    pitch: float
    is_code: bool = False
    lines: list[Line] = field(default_factory=list)

    def takes(self, line: Line, leading: float) -> bool:
        last = self.lines[-1]
        is_alike = min(self.pitch, line.pitch) > 0 and abs(self.pitch - line.pitch) <= MAX_PITCH_DIFFERENCE
        if abs(last.size - line.size) > MAX_SIZE_DIFFERENCE * last.size:
            return False
        if not is_alike and (self.is_code or line.is_code or last.right <= line.left or line.right <= last.left):
            return False
        max_distance = MAX_CODE_DISTANCE if is_alike else MAX_LINE_DISTANCE
        return 0 < last.bottom - line.bottom <= max_distance * leading * last.size

    def add(self, line: Line) -> None:
        self.pitch = self.pitch if line.pitch else 0.0
        self.is_code |= line.is_code
        self.lines.append(line)


def _write_raised(signs: str) -> str:
    raised = signs.translate(_TO_RAISED)
    return raised if all(sign in _ALL_RAISED for sign in raised.strip()) else signs


def _compose(text: str) -> str:
    """Return a text with the letters that old fonts draw as an accent and a letter."""
    return _ACCENT.sub(
        lambda match: unicodedata.normalize("NFC", match[2].translate(_DOTLESS) + _ACCENTS[match[1]]), text
    )


def make_lines(segments: Iterable[Sequence[Glyph]]) -> list[Line]:
    """Return the lines of a page, in the order of its text; raised digits stand in segments of their own, or not."""
    parts: list[_Segment] = []
    for glyphs in segments:
        if all(glyph[0].isspace() for glyph in glyphs):
            continue
        segment = _Segment(list(glyphs))
        if parts and parts[-1].takes(segment):
            parts[-1].add(segment)
        else:
            parts.append(segment)
    return list(_read_segments(parts))


def _read_segments(segments: Iterable[_Segment]) -> Iterator[Line]:
    """Yield the lines; the numbers of lines of code are left out, also those of empty lines."""
    number = 0
    for segment in segments:
        code, code_number = segment.split_number(number)
        line = code.to_line()
        if not code_number and number and line.text == str(number + 1):
            number += 1
        elif line.text:
            number = code_number or number
            yield line


def split_notes(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Return the text of a page without the marks of its footnotes, and these notes.

    A note begins with a number that the page has as a mark, which is raised again or smaller than most of the page.
    """
    size = _find_size(lines)
    marks = {mark.strip().translate(_FROM_RAISED) for line in lines for mark in _NOTE_MARK.findall(line.text)}
    texts: list[Line] = []
    notes: list[Line] = []
    numbers: set[str] = set()
    is_note = False
    for line in lines:
        start = _NOTE_START.match(line.text)
        number = start[0].translate(_FROM_RAISED) if start else ""
        is_small = line.size < size * (1 - MAX_SIZE_DIFFERENCE)
        if start and number in marks and (is_small or number != start[0]):
            numbers.add(number)
            line.text = f"{number} {line.text[start.end() :].lstrip()}"
            is_note = True
        is_note = is_note and (line.size <= size or is_small)
        (notes if is_note else texts).append(line)
    for line in texts:
        line.text = _NOTE_MARK.sub(
            lambda mark: "" if mark[0].strip().translate(_FROM_RAISED) in numbers else mark[0], line.text
        )
    return texts, notes


def make_paragraphs(lines: Sequence[Line]) -> list[Paragraph]:
    """Return the paragraphs of lines: those that are full go on in the next line, the others end in a line break."""
    leading = _find_leading(lines)
    blocks: list[_Lines] = []
    for line in lines:
        if not blocks or not blocks[-1].takes(line, leading):
            blocks.append(_Lines(line.pitch))
        blocks[-1].add(line)
    paragraphs = [
        _write_code(block.lines, leading) if block.is_code else _make_paragraph(block.lines, lines) for block in blocks
    ]
    for paragraph, (block, following) in zip(paragraphs, pairwise(blocks), strict=False):
        # What stands below it is a new one; the top of a column is not.
        paragraph.is_open &= following.lines[0].bottom > block.lines[-1].bottom
    return join_paragraphs(paragraphs)


def join_paragraphs(paragraphs: Iterable[Paragraph]) -> list[Paragraph]:
    """Join what goes on in the next column or on the next page."""
    joined: list[Paragraph] = []
    for paragraph in paragraphs:
        if joined and goes_on(joined[-1], paragraph):
            separator = "\n" if joined[-1].text.endswith(_HYPHENS) else " "
            joined[-1].text += f"{separator}{paragraph.text}"
            joined[-1].is_open = paragraph.is_open
        else:
            joined.append(paragraph)
    return joined


def goes_on(paragraph: Paragraph, other: Paragraph) -> bool:
    """Return whether a paragraph goes on in another one: its sentence is not at its end."""
    if paragraph.is_code or other.is_code or len(paragraph.text) > MAX_JOINED_CHARS:
        return False
    if abs(paragraph.size - other.size) > MAX_SIZE_DIFFERENCE * paragraph.size or _LIST_MARK.match(other.text):
        return False
    return not _SENTENCE_END.search(paragraph.text[-MAX_END_CHARS:]) and (paragraph.is_open or other.text[:1].islower())


def _find_size(lines: Iterable[Line]) -> float:
    """Return the size that most of the text has."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[round(line.size, 1)] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _find_leading(lines: Sequence[Line]) -> float:
    """Return the usual distance of two lines as a share of their size."""
    distances = Counter(
        max(MIN_LEADING, round((line.bottom - following.bottom) / line.size, 1))
        for line, following in pairwise(lines)
        if line.size and 0 < line.bottom - following.bottom < MAX_LEADING * line.size
    )
    return distances.most_common(1)[0][0] if distances else MAX_LEADING


def _write_code(lines: Sequence[Line], leading: float) -> Paragraph:
    left = min(line.left for line in lines)
    text = ""
    for number, line in enumerate(lines):
        if number:
            distance = (lines[number - 1].bottom - line.bottom) / (leading * line.size)
            text += "\n" * max(1, round(distance))
        text += f"{' ' * min(MAX_INDENTATION, round((line.left - left) / line.pitch))}{line.text}"
    return Paragraph(text, lines[0].size, is_code=True)


def _make_paragraph(lines: Sequence[Line], page: Sequence[Line]) -> Paragraph:
    right = max(line.right for line in lines)
    is_edge = _is_edge(lines, right, page)
    text = lines[0].text
    for line, following in pairwise(lines):
        is_full = right - line.right < following.first_width + MIN_SPACE * line.size
        is_full = is_full and (is_edge or following.text[0].islower()) and not _LIST_MARK.match(following.text)
        is_full = is_full and not (line.is_row or following.is_row)
        text += " " if is_full and not line.text.endswith(_HYPHENS) else "\n"
        text += following.text
    last = lines[-1]
    is_open = is_edge and right - last.right < MAX_RAGGED * last.size and not _SENTENCE_END.search(last.text)
    return Paragraph(text, last.size, is_open)


def _is_edge(lines: Sequence[Line], right: float, page: Sequence[Line]) -> bool:
    """Return whether most lines of a page that begin like these end at a place, or before it."""
    left = min(line.left for line in lines)
    size = lines[0].size
    ends = [line.right - right for line in page[:MAX_COLUMN_LINES] if abs(line.left - left) < MAX_RAGGED * size]
    count_near = sum(abs(end) < MAX_RAGGED * size for end in ends)
    count_beyond = sum(end >= MAX_RAGGED * size for end in ends)
    return right - left >= MIN_COLUMN_WIDTH * size and count_near > max(MIN_FULL_LINES, count_beyond)
