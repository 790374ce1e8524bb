"""Lines of printed pages, from where their characters stand and how large they are."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, dropwhile, groupby, pairwise
from statistics import median_low

from knowledge.formats.page_tables import Box, Cell, Grid

# A character, its left, bottom, right and top edge, in points from the lower left corner of the page.
Glyph = tuple[str, float, float, float, float]
Rows = tuple[tuple[str, ...], ...]

RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_ALL_RAISED = f"{RAISED}⁺⁻⁻⁽⁾ⁿ"
_TO_RAISED = str.maketrans("0123456789+-\u2212()n", _ALL_RAISED)
# Signs of their own, which stand before their letter, and those that belong to one.
_ACCENT_SIGNS = "\u00a8\u00b4\u02c6\u02dc\u00b8\u02c7\u02da"
_ACCENTS = dict(zip(f"{_ACCENT_SIGNS}`", "\u0308\u0301\u0302\u0303\u0327\u030c\u030a\u0300", strict=True))
_ACCENT = re.compile(f"([{_ACCENT_SIGNS}]|(?<=[^\\W\\d_])`(?=[aeiou]))([A-Za-z\u0131])")
_DOTLESS = str.maketrans("\u0131", "i")
_LINE_NUMBER = re.compile(r"[0-9]{1,4}\s+(?=\S)")
HYPHENS = ("-", "\u00ad", "\u2010", "\u2011")
# Of a font of icons, or no sign at all: no text has them.
_ICON = re.compile(r"[\x00-\x1f\ud800-\udfff\ue000-\uf8ff\ufffe\uffff]")
# The bullet of a font of signs, which office programs take.
_BULLET = "\uf0b7"
# Icons of notes, of the font that most tools take, by what they say.
_LABELS = {"\uf05a": "NOTE", "\uf0eb": "TIP", "\uf06a": "IMPORTANT", "\uf071": "WARNING", "\uf06d": "CAUTION"}
_NOTE_NUMBER = re.compile(r"\d{1,2}")
# From a title to its page, as in a table of contents.
_LEADER = re.compile(r"(?<![. ])[ ]?(?>\.(?:[ ]?\.){4,})[ ]?(?:\d{1,5}|[ivxlc]{1,8})$")
# Alone in a line, and large, they are an ornament.
_QUOTES = frozenset("\u201c\u201d\u201e\u275d\u275e")
MIN_SIZE = 0.01
MAX_NUMBER_SIGNS = 6
MAX_SPACES = 100
# More is not looked at: nobody prints so much in a line, or so many parts on a page.
MAX_LINE_SIGNS = 2_000
MAX_ORDERED_PARTS = 500
# All of these are shares of the size of a line: its height, from below its letters to above them.
MAX_RAISED_SIZE = 0.85
MIN_RAISED = 0.2
MIN_OVERLAP = 0.4
MAX_GAP = 0.7
MIN_SPACE = 0.15
MAX_MARK_GAP = 0.24
MIN_CELL_GAP = 1.5
# Between two words whose letters are spaced, of which a line has so many.
MIN_LETTER_GAP = 0.42
MIN_SPACED_LETTERS = 8
MAX_SIZE_DIFFERENCE = 0.08
MIN_LEADING = 0.7
MAX_LEADING = 2.0
MAX_CODE_GAP = 4.0
# Signs of one width are a line of code only if so many are different.
MIN_CODE_SIGNS = 5
# More in a cell are a listing beside its numbers.
MAX_CELL_CODE = 2
MIN_CODE_WIDTH = 0.3
MAX_CODE_WIDTH = 0.8
MAX_PITCH_DIFFERENCE = 0.16
# Those of two fonts differ more, in points.
MAX_HEIGHT_DIFFERENCE = 0.3
# Of the width of its signs.
MAX_PLACE_DIFFERENCE = 0.1
# So many numbers below each other are those of the lines of code beside them.
MIN_LINE_NUMBERS = 3


@dataclass(slots=True)
class Line:
    """A line of a page, in points. Raised digits are written as such; `first_width` is that of the first word.

    `pitch` is the width of all of its signs if they have the same, else 0. `is_row` tells that it has a large gap, as
    rows of tables have: it does not go on in the next line. `sizes` are those of all of its signs. `is_framed` tells
    that it stands in a box with others, `frame` has the left and the right edge of the innermost box. `parts`
    are the texts beside its only large gap, of which the second one begins at `column`. A whole table is one line, with
    the texts of its `cells`. `has_code_font` tells that other lines show its font to be one of code.
    """

    text: str
    left: float
    bottom: float
    right: float
    size: float
    first_width: float
    pitch: float
    is_row: bool = False
    cells: Rows = ()
    sizes: frozenset[float] = frozenset()
    is_turned: bool = False
    is_framed: bool = False
    frame: tuple[float, float] | None = None
    parts: tuple[str, str] | None = None
    column: float = 0.0
    has_code_font: bool = False

    @property
    def is_code(self) -> bool:
        """Return whether the line is set in a font of one width, as code is."""
        return self.has_code_font or (
            MIN_CODE_WIDTH < self.pitch / self.size < MAX_CODE_WIDTH and len(set(self.text) - {" "}) >= MIN_CODE_SIGNS
        )


@dataclass(slots=True)
class _Segment:
    """What stands in one line without a large gap."""

    glyphs: list[Glyph]
    label: str = ""
    left: float = field(init=False)
    bottom: float = field(init=False)
    right: float = field(init=False)
    size: float = field(init=False)
    height: float = field(init=False)

    def __post_init__(self) -> None:
        self.glyphs = list(dropwhile(lambda glyph: glyph[0].isspace(), self.glyphs))
        placed = [glyph for glyph in self.glyphs if not glyph[0].isspace()]
        self.left = min(glyph[1] for glyph in placed)
        self.bottom = median_low(glyph[2] for glyph in placed)
        self.right = max(glyph[3] for glyph in placed)
        self.size = max(MIN_SIZE, median_low(glyph[4] - glyph[2] for glyph in placed))
        self.height = max(glyph[4] - glyph[2] for glyph in placed)
        _, _, bottom, _, top = first = placed[0]
        # A mark of a list is no larger than its text.
        if first[0] in _LABELS and len(placed) > 1 and top - bottom > self.size * (1 + MAX_SIZE_DIFFERENCE):
            self.label = f"{_LABELS[first[0]]}: "
            self.glyphs = self.glyphs[1:]
            self.__post_init__()

    @property
    def text(self) -> str:
        """Return the signs as they are."""
        return "".join(glyph[0] for glyph in self.glyphs)

    @property
    def is_turned(self) -> bool:
        """Return whether it is to be read upwards or downwards."""
        height = max(glyph[4] for glyph in self.glyphs) - min(glyph[2] for glyph in self.glyphs)
        return len(self.glyphs) > 1 and height > self.right - self.left > 0 and height > 1.5 * self.size

    @property
    def code_pitch(self) -> float:
        """Return the width of its signs if it is code, else 0."""
        line = self.to_line()
        return line.pitch if line.is_code else 0.0

    def set_mark(self, code: _Segment, pitch: float) -> None:
        """Write a small number beside code, as callouts have, with signs of the code."""
        bottom = min(self.bottom, code.bottom + MIN_RAISED * code.size)
        self.glyphs = [
            (sign, left, bottom, left + pitch, bottom + code.size)
            for place, sign in enumerate(f"({self.text.strip()})")
            for left in [self.left + place * pitch]
        ]
        self.__post_init__()

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
            for is_raised, glyphs in groupby(self._close_marks(self._fill_gaps()), self._is_raised)
            for signs in ["".join(glyph[0] for glyph in glyphs)]
        )
        placed = [glyph for glyph in self.glyphs if not glyph[0].isspace()]
        first_end = next((glyph[1] for glyph in self.glyphs if glyph[0].isspace()), self.right)
        columns = [other[1] for glyph, other in pairwise(placed) if other[1] - glyph[3] > MIN_CELL_GAP * self.size]
        text, leaders = _LEADER.subn("", self.label + _compose(_ICON.sub("", text.replace(_BULLET, "\u2022")).rstrip()))
        is_row = bool(leaders or columns)
        pitch = _find_pitch(placed)
        sizes = frozenset(round(glyph[4] - glyph[2], 1) for glyph in placed)
        line = Line(text, self.left, self.bottom, self.right, self.size, first_end - self.left, pitch, is_row)
        line.sizes = sizes
        if line.is_code and line.text.split() == "".join(glyph[0] for glyph in self._fill_gaps()).split():
            line.text = "".join(_space_out(self._fill_gaps(), pitch)).rstrip()
        if len(columns) == 1 and not leaders:
            line.column = columns[0]
            line.parts = self._divide(columns[0])
        return line

    def _divide(self, column: float) -> tuple[str, str] | None:
        """Return the texts to the left of a place, and from there on."""
        before = [glyph for glyph in self.glyphs if glyph[1] < column]
        after = [glyph for glyph in self.glyphs if glyph[1] >= column]
        if not before or not after:
            return None
        return self.label + _Segment(before).to_line().text, _Segment(after).to_line().text

    def split_number(self) -> tuple[_Segment | None, int]:
        """Return a line of one width without the number that stands before it, and this, which may be all of it."""
        if self.text.strip().isdecimal():
            return None, int(self.text[:MAX_NUMBER_SIGNS])
        if number := _LINE_NUMBER.match(self.text):
            code = _Segment(self.glyphs[number.end() :])
            if code.to_line().pitch:
                return code, int(number[0])
        return None, 0

    def _fill_gaps(self) -> list[Glyph]:
        """Return the signs with spaces in gaps between letters; where all letters are spaced, only in large ones."""
        words = self.text.split()
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

    def _close_marks(self, glyphs: Sequence[Glyph]) -> Iterator[Glyph]:
        """Yield the signs without spaces between a word and its marks that are none: what is framed has a margin."""
        for number, (sign, _, bottom, _, top) in enumerate(glyphs):
            # No font has a space without a height.
            if sign == " " and bottom == top and 0 < number < len(glyphs) - 1:
                last, following = glyphs[number - 1], glyphs[number + 1]
                is_end = number + 2 == len(glyphs) or not glyphs[number + 2][0].isalnum()
                is_end = is_end and not last[0] == following[0] == "."
                is_mark = last[0] in "([" or (following[0] in ",.)]" and is_end)
                is_alike = abs(last[4] - last[2] - following[4] + following[2]) < MAX_HEIGHT_DIFFERENCE
                if is_mark and not is_alike and following[1] - last[3] < MAX_MARK_GAP * self.size:
                    continue
            yield glyphs[number]

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
        return bottom - self.bottom > MIN_RAISED * self.size and top - bottom < MAX_RAISED_SIZE * self.height


def _find_pitch(glyphs: Sequence[Glyph]) -> float:
    widths = [glyph[3] - glyph[1] for glyph in glyphs]
    if max(widths) - min(widths) <= MAX_PITCH_DIFFERENCE:
        return widths[0]
    # Some of the signs may be wider than their place, but each stands where it would in a column.
    pitch = median_low(widths)
    if min(widths) < pitch - MAX_PITCH_DIFFERENCE:
        return 0.0
    places = [(glyph[1] - glyphs[0][1]) / max(MIN_SIZE, pitch) for glyph in glyphs]
    return pitch if all(abs(place - round(place)) < MAX_PLACE_DIFFERENCE for place in places) else 0.0


def _space_out(glyphs: Sequence[Glyph], pitch: float) -> Iterator[str]:
    """Yield signs of one width, with as many spaces between words as there is room for."""
    end = glyphs[0][1]
    for last, glyph in pairwise([(" ", end, 0.0, end, 0.0), *glyphs]):
        if not glyph[0].isspace():
            has_space = last[0].isspace() and glyph[1] > glyphs[0][1]
            yield " " * max(int(has_space), min(MAX_SPACES, round((glyph[1] - end) / pitch)))
            yield glyph[0]
            end = glyph[1] + pitch


def _write_raised(signs: str) -> str:
    raised = signs.translate(_TO_RAISED)
    # A hyphen stands as high in some fonts.
    is_number = any(map(str.isalnum, signs)) and all(sign in _ALL_RAISED for sign in raised.strip())
    return raised if is_number else signs


def _compose(text: str) -> str:
    """Return a text with the letters that old fonts draw as an accent and a letter."""
    return _ACCENT.sub(
        lambda match: unicodedata.normalize("NFC", match[2].translate(_DOTLESS) + _ACCENTS[match[1]]), text
    )


def make_lines(segments: Iterable[Sequence[Glyph]], grids: Sequence[Grid] = ()) -> list[Line]:
    """Return the lines of a page, in the order of its text; raised digits stand in segments of their own, or not.

    A table, which stands in the cells of a grid, is one of them.
    """
    segments = [glyphs for glyphs in segments if not all(glyph[0].isspace() for glyph in glyphs)]
    cells: dict[int, dict[Cell, list[list[Glyph]]]] = defaultdict(lambda: defaultdict(list))
    if grids:
        for place, run in chain.from_iterable(_split_cells(glyphs, dict(enumerate(grids))) for glyphs in segments):
            if place:
                cells[place[0]][place[1]].append(run)
    tables = {number: table for number, texts in cells.items() if (table := _make_table(grids[number], texts))}
    accepted = {number: grids[number] for number in tables}
    parts: list[_Segment | Line] = []
    for place, run in chain.from_iterable(_split_cells(glyphs, accepted) for glyphs in segments):
        if place is None:
            parts.append(_Segment(run))
        elif place[0] in tables:
            parts.append(tables.pop(place[0]))
    return list(_read_segments(_join_segments(_order(_join_segments(parts)))))


def mark_framed(lines: Sequence[Line], frames: Sequence[Box]) -> None:
    """Mark the lines of a page that stand in a box. One of a single line is that of a title, one of all the page."""
    for frame in sorted(frames, key=lambda frame: (frame[2] - frame[0]) * (frame[3] - frame[1])):
        left, bottom, right, top = frame
        inside = [
            line
            for line in lines
            if left <= line.left and line.right <= right and bottom <= line.bottom + line.size / 2 <= top
        ]
        for line in inside:
            line.frame = line.frame or (left, right)
            line.is_framed |= 1 < len(inside) < len(lines)


def mark_code(pages: Sequence[list[Line]]) -> None:
    """Mark short lines of code, and leave out columns with the numbers of its lines and large signs of quotes.

    They are set in a font that is one of code elsewhere, and stand below or above code, or in a box with others.
    """
    fonts = {
        (size, round(10 * line.pitch) + near)
        for line in chain.from_iterable(pages)
        if line.is_code
        for size in line.sizes
        for near in (-1, 0, 1)
    }
    for page in pages:
        usual = median_low(line.size for line in page) if page else 0.0
        page[:] = [line for line in page if line.text not in _QUOTES or line.size < MIN_CELL_GAP * usual]
        alike = [line for line in page if any((size, round(10 * line.pitch)) in fonts for size in line.sizes)]
        alike_ids = set(map(id, alike))
        page[:] = _drop_numbers(page, alike_ids)
        for line in alike:
            line.has_code_font = line.is_framed
        for lines in (page, page[::-1]):
            for last, line in pairwise(lines):
                is_near = abs(last.bottom - line.bottom) < MAX_CODE_GAP * max(last.size, line.size)
                line.has_code_font |= id(line) in alike_ids and last.is_code and is_near


def _drop_numbers(lines: Sequence[Line], alike: Set[int]) -> Iterator[Line]:
    code_lines = {round(line.bottom): line.left for line in lines if line.is_code}
    is_number = [id(line) in alike and line.text.isdecimal() for line in lines]
    for is_run, pairs in groupby(zip(is_number, lines, strict=True), lambda pair: pair[0]):
        group = [line for _, line in pairs]
        numbers = [line.text for line in group] if is_run and len(group) >= MIN_LINE_NUMBERS else []
        is_beside = any(code_lines.get(round(line.bottom), 0.0) > line.right for line in group)
        if not numbers or not is_beside or numbers != [str(number + 1) for number in range(len(numbers))]:
            yield from group


def _split_cells(
    glyphs: Sequence[Glyph], grids: Mapping[int, Grid]
) -> Iterator[tuple[tuple[int, Cell] | None, list[Glyph]]]:
    """Yield what stands in one cell, which is that of the first letter of a word, or in none."""
    if not grids:
        yield None, list(glyphs)
        return
    place: tuple[int, Cell] | None = None
    places: list[tuple[int, Cell] | None] = []
    is_start = True
    for sign, left, bottom, right, top in glyphs:
        if is_start:
            cells = ((number, grid.find_cell((left + right) / 2, (bottom + top) / 2)) for number, grid in grids.items())
            place = next(((number, cell) for number, cell in cells if cell), None)
        places.append(place)
        is_start = sign.isspace()
    for place, pairs in groupby(zip(places, glyphs, strict=True), lambda pair: pair[0]):
        run = [glyph for _, glyph in pairs]
        if not all(glyph[0].isspace() for glyph in run):
            yield place, run


def _make_table(grid: Grid, segments: Mapping[Cell, Sequence[Sequence[Glyph]]]) -> Line | None:
    """Return a table; none if it has a listing, most of its cells are empty, or but one column has texts.

    Of a single row, all cells have texts.
    """
    lines = {cell: make_lines(parts) for cell, parts in segments.items()}
    if any(sum(line.is_code for line in cell_lines) > MAX_CELL_CODE for cell_lines in lines.values()):
        return None
    written = {cell: _write_cell(cell_lines, *grid.find_sides(cell)) for cell, cell_lines in lines.items()}
    texts = {cell: text for cell, text in written.items() if text}
    rows = sorted({row for row, _ in texts})
    columns = sorted({column for _, column in texts})
    count = len(set(grid.cells.values()))
    if len(columns) < 2 or 2 * len(texts) < count or (len(rows) < 2 and (len(texts) < count or len(grid.rows) > 2)):
        return None
    cells = tuple(tuple(texts.get((row, column), "") for column in columns) for row in rows)
    left, bottom, right, top = grid.box
    text = " ".join(text for row in cells for text in row if text)
    return Line(text, left, bottom, right, top - bottom, 0.0, 0.0, True, cells)


def _write_cell(lines: Sequence[Line], left: float, right: float) -> str:
    """Return the text of a cell; a line that the edge of the cell ended goes on in the next one."""
    text = lines[0].text if lines else ""
    for line, following in pairwise(lines):
        is_full = right - line.right < following.first_width + max(0.0, line.left - left) + MIN_SPACE * line.size
        text += " " if is_full and not line.text.endswith(HYPHENS) else "\n"
        text += following.text
    return text


def _join_segments(parts: Iterable[_Segment | Line]) -> list[_Segment | Line]:
    joined: list[_Segment | Line] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(last, _Segment) and isinstance(part, _Segment) and (last.takes(part) or _take_mark(last, part)):
            last.add(part)
        else:
            joined.append(part)
    return joined


def _take_mark(code: _Segment, mark: _Segment) -> bool:
    """Return whether a small number stands behind code; below it, where a blank line is, it is code, too."""
    if not _is_mark(code, mark) or not (pitch := code.code_pitch):
        return False
    mark.set_mark(code, pitch)
    return abs(code.bottom - mark.bottom) <= MIN_RAISED * code.size


def _is_mark(code: _Segment, mark: _Segment) -> bool:
    """Return whether a number of another font is beside the end of a line, or right below it."""
    if mark.size > code.size * (1 - MAX_SIZE_DIFFERENCE) or not _NOTE_NUMBER.fullmatch(mark.text.strip()):
        return False
    if abs(code.bottom - mark.bottom) <= MIN_RAISED * code.size:
        return 0 < mark.left - code.right <= MIN_CELL_GAP * code.size
    return 0 < code.bottom - mark.bottom <= MAX_LEADING * code.size and code.left <= mark.left <= code.right


def _order(parts: Sequence[_Segment | Line]) -> list[_Segment | Line]:
    """Return parts as they were drawn, but each after what is above it or begins its line; turned ones as drawn."""
    if len(parts) > MAX_ORDERED_PARTS or all(_is_below(other, part) for part, other in pairwise(parts)):
        return list(parts)
    straight: list[int] = []
    for place, part in enumerate(parts):
        # One sign tells nothing: it is turned as what comes before it.
        is_sign = isinstance(part, _Segment) and len(part.glyphs) == 1
        if (not place or straight[-1:] == [place - 1]) if is_sign else not part.is_turned:
            straight.append(place)
    followers: list[list[int]] = [[] for _ in parts]
    for place in straight:
        followers[place] = [other for other in straight if _is_above(parts[place], parts[other])]
    in_line = [[place for place, other in enumerate(parts) if _begins_line(part, other)] for part in parts]
    waiting = Counter(chain(*followers, *in_line))
    free = {place for place in range(len(parts)) if not waiting[place]}
    ordered: list[_Segment | Line] = []
    place = 0
    while free:
        # What goes on in the line comes first, then what was drawn next, if it is below it.
        following = [*in_line[place], *(other for other in followers[place] if other == place + 1)] if ordered else []
        place = next((other for other in following if other in free), min(free))
        free.remove(place)
        ordered.append(parts[place])
        for other in (*followers[place], *in_line[place]):
            waiting[other] -= 1
            if not waiting[other]:
                free.add(other)
    return ordered


def _is_below(part: _Segment | Line, other: _Segment | Line) -> bool:
    """Return whether a part that follows another one is below it, or beside it to the right."""
    return part.bottom <= other.bottom - (0 if other.left <= part.left else MIN_LEADING * part.size)


def _is_above(part: _Segment | Line, other: _Segment | Line) -> bool:
    if part.bottom - other.bottom <= MIN_LEADING * other.size:
        return False
    return min(part.right, other.right) - max(part.left, other.left) > MIN_OVERLAP * min(part.size, other.size)


def _begins_line(part: _Segment | Line, other: _Segment | Line) -> bool:
    if not isinstance(part, _Segment) or not isinstance(other, _Segment) or part.left >= other.left:
        return False
    if part.bottom - other.bottom > MIN_LEADING * other.size:
        return False
    return part.takes(other) or _is_mark(part, other)


def _read_segments(segments: Iterable[_Segment | Line]) -> Iterator[Line]:
    """Yield the lines; the numbers of lines of code, which run, are left out, also those of empty lines."""
    parts = [(part, *(part.split_number() if isinstance(part, _Segment) else (None, 0))) for part in segments]
    numbers = [number for _, _, number in parts]
    is_listing = False
    for (part, code, number), last, following in zip(parts, [0, *numbers], [*numbers[1:], 0], strict=False):
        runs = bool(number) and (last == number - 1 > 0 or following == number + 1)
        is_listing = runs and (is_listing or bool(code and code.code_pitch))
        line = part if isinstance(part, Line) else (code if is_listing and code else part).to_line()
        if line.text and not (is_listing and not code):
            yield line
