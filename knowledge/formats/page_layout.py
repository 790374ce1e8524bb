"""Lines of printed pages, from their parts, and which of them are code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, groupby, pairwise
from statistics import median_low

from knowledge.formats.page_order import is_mark, order
from knowledge.formats.page_segments import (
    MIN_CELL_GAP,
    MIN_RAISED,
    MIN_SPACE,
    Glyph,
    Line,
    Segment,
    get_separator,
)
from knowledge.formats.page_tables import Box, Cell, Grid

# Alone in a line, and large, they are an ornament.
_QUOTES = frozenset("\u201c\u201d\u201e\u275d\u275e")
MAX_CODE_GAP = 4.0
# More in a cell are a listing beside its numbers.
MAX_CELL_CODE = 2
# So many numbers below each other are those of the lines of code beside them.
MIN_LINE_NUMBERS = 3


def make_lines(
    segments: Iterable[Sequence[Glyph]], grids: Sequence[Grid] = (), frames: Sequence[Box] = ()
) -> list[Line]:
    """Return the lines of a page, in the order of its text; raised digits stand in segments of their own, or not.

    A table, which stands in the cells of a grid, is one of them. What stands in a frame stays together.
    """
    segments = [glyphs for glyphs in segments if not all(glyph[0].isspace() for glyph in glyphs)]
    cells: dict[int, dict[Cell, list[list[Glyph]]]] = defaultdict(lambda: defaultdict(list))
    if grids:
        for place, run in chain.from_iterable(_split_cells(glyphs, dict(enumerate(grids))) for glyphs in segments):
            if place:
                cells[place[0]][place[1]].append(run)
    tables = {number: table for number, texts in cells.items() if (table := _make_table(grids[number], texts))}
    accepted = {number: grids[number] for number in tables}
    parts: list[Segment | Line] = []
    for place, run in chain.from_iterable(_split_cells(glyphs, accepted) for glyphs in segments):
        if place is None:
            parts.append(Segment(run))
        elif place[0] in tables:
            parts.append(tables.pop(place[0]))
    return list(_read_segments(_join_segments(order(_join_segments(parts), frames))))


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

    They are set in a font that is one of code elsewhere, and stand below or above code, also on the page before or the
    next one, in a box with others, or where code stands in boxes of other pages.
    """
    code = [line for line in chain.from_iterable(pages) if line.is_code]
    fonts = {(size, round(10 * line.pitch) + near) for line in code for size in line.sizes for near in (-1, 0, 1)}
    alike = {
        id(line)
        for line in chain.from_iterable(pages)
        if any((size, round(10 * line.pitch)) in fonts for size in line.sizes)
    }
    others = [line for line in chain.from_iterable(pages) if not line.is_code and id(line) not in alike]
    places = set(map(_get_place, code)).difference(map(_get_place, others))
    for page in pages:
        usual = median_low(line.size for line in page) if page else 0.0
        page[:] = [line for line in page if line.text not in _QUOTES or line.size < MIN_CELL_GAP * usual]
        page[:] = _drop_numbers(page, alike)
        for line in page:
            is_boxed = line.is_framed or (line.frame is not None and _get_place(line) in places)
            line.has_code_font = id(line) in alike and is_boxed
    lefts: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for line in code:
        left, right, start = _get_place(line)
        lefts[left, right][start] += line.frame is not None
    for line in code:
        start = lefts[_get_place(line)[:2]].most_common(1)[0][0]
        line.code_left = start if line.frame and start < line.left else None
    lines = [(number, line) for number, page in enumerate(pages) for line in page]
    for each in (lines, lines[::-1]):
        for (page_number, last), (number, line) in pairwise(each):
            is_near = abs(last.bottom - line.bottom) < MAX_CODE_GAP * max(last.size, line.size)
            line.has_code_font |= id(line) in alike and last.is_code and (is_near or page_number != number)


def _get_place(line: Line) -> tuple[int, int, int]:
    left, right = line.frame or (0.0, 0.0)
    return round(left), round(right), round(line.left)


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
        text += get_separator(line.text, following.text) if is_full else "\n"
        text += following.text
    return text


def _join_segments(parts: Iterable[Segment | Line]) -> list[Segment | Line]:
    joined: list[Segment | Line] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(last, Segment) and isinstance(part, Segment) and (last.takes(part) or _take_mark(last, part)):
            last.add(part)
        else:
            joined.append(part)
    return joined


def _take_mark(code: Segment, mark: Segment) -> bool:
    """Return whether a small number stands behind code; below it, where a blank line is, it is code, too."""
    if not is_mark(code, mark) or not (pitch := code.code_pitch):
        return False
    mark.set_mark(code, pitch)
    return abs(code.bottom - mark.bottom) <= MIN_RAISED * code.size


def _read_segments(segments: Iterable[Segment | Line]) -> Iterator[Line]:
    """Yield the lines; the numbers of lines of code, which run, are left out, also those of empty lines."""
    parts = [(part, *(part.split_number() if isinstance(part, Segment) else (None, 0))) for part in segments]
    numbers = [number for _, _, number in parts]
    is_listing = False
    for (part, code, number), last, following in zip(parts, [0, *numbers], [*numbers[1:], 0], strict=False):
        runs = bool(number) and (last == number - 1 > 0 or following == number + 1)
        is_listing = runs and (is_listing or bool(code and code.code_pitch))
        line = part if isinstance(part, Line) else (code if is_listing and code else part).to_line()
        if line.text and not (is_listing and not code):
            yield line
