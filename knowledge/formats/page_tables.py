"""Tables of printed pages, from the lines that are drawn around their cells."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

# The left, bottom, right and top edge of what is drawn, in points from the lower left corner of the page.
Box = tuple[float, float, float, float]
# Its row and its column.
Cell = tuple[int, int]
# Lines that are nearer are one, or touch; shorter ones are none.
NEAR = 3.0
# More are a drawing.
MAX_RULES = 2_000
MAX_CELLS = 2_000
# A note beside its icon has two.
MIN_ROW_CELLS = 3
# A smaller one is part of a drawing, and so are more.
MIN_FRAME = 20.0
MAX_FRAMES = 100


@dataclass(slots=True)
class _Rule:
    """A straight line: where it stands, and from where to where it goes."""

    place: float
    start: float
    end: float

    def crosses(self, other: _Rule) -> bool:
        """Return whether a line across this one touches it."""
        return (
            self.start - NEAR <= other.place <= self.end + NEAR and other.start - NEAR <= self.place <= other.end + NEAR
        )


@dataclass(slots=True)
class Grid:
    """The cells of a table, by the row and the column where they begin."""

    columns: list[float]
    rows: list[float]
    cells: dict[Cell, Cell] = field(default_factory=dict)

    @property
    def box(self) -> Box:
        """The outer edges of the table."""
        return self.columns[0], self.rows[-1], self.columns[-1], self.rows[0]

    def find_cell(self, x: float, y: float) -> Cell | None:
        """Return the cell at a place of the page."""
        column = bisect(self.columns, x) - 1
        row = bisect(self.rows, -y, key=lambda top: -top) - 1
        return self.cells.get((row, column))

    def find_sides(self, cell: Cell) -> tuple[float, float]:
        """Return the left and the right edge of a cell."""
        columns = [column for (_, column), owner in self.cells.items() if owner == cell]
        return self.columns[min(columns)], self.columns[max(columns) + 1]


def find_grids(boxes: Iterable[Box]) -> list[Grid]:
    """Return the tables among lines that touch: at least two columns of cells, and two rows, or one of several cells.

    Whether one has texts as a table has them is to be looked at.
    """
    across: list[_Rule] = []
    upright: list[_Rule] = []
    boxes = list(boxes)
    for left, bottom, right, top in boxes:
        if top - bottom < NEAR < right - left:
            across.append(_Rule((bottom + top) / 2, left, right))
        elif right - left < NEAR < top - bottom:
            upright.append(_Rule((left + right) / 2, bottom, top))
    for frame in find_frames(boxes):
        if sum(_divides(rule, frame) for rule in upright) >= MIN_ROW_CELLS - 1:
            left, bottom, right, top = frame
            across += [_Rule(bottom, left, right), _Rule(top, left, right)]
            upright += [_Rule(left, bottom, top), _Rule(right, bottom, top)]
    across, upright = _join(across), _join(upright)
    if len(across) + len(upright) > MAX_RULES:
        return []
    grids = [_make_grid(rows, columns) for rows, columns in _find_groups(across, upright)]
    return [grid for grid in grids if len(grid.columns) > (2 if len(grid.rows) > 2 else MIN_ROW_CELLS) and grid.cells]


def _divides(rule: _Rule, frame: Box) -> bool:
    """Return whether an upright line stands in a box, from its foot to its head."""
    left, bottom, right, top = frame
    is_inside = left + NEAR < rule.place < right - NEAR
    return is_inside and abs(rule.start - bottom) < NEAR and abs(rule.end - top) < NEAR


def find_frames(boxes: Iterable[Box]) -> list[Box]:
    """Return the areas that are drawn as one, framed or filled."""
    areas = [box for box in boxes if box[2] - box[0] > MIN_FRAME and box[3] - box[1] > MIN_FRAME]
    return areas if len(areas) <= MAX_FRAMES else []


def _join(rules: Iterable[_Rule]) -> list[_Rule]:
    """Return rules with those joined that go on in each other, or are drawn beside each other."""
    by_place: list[list[_Rule]] = []
    for rule in sorted(rules, key=lambda rule: rule.place):
        if by_place and rule.place - by_place[-1][0].place < NEAR:
            by_place[-1].append(rule)
        else:
            by_place.append([rule])
    joined: list[_Rule] = []
    for same in by_place:
        place = sum(rule.place for rule in same) / len(same)
        last: _Rule | None = None
        for rule in sorted(same, key=lambda rule: rule.start):
            if last and rule.start <= last.end + NEAR:
                last.end = max(last.end, rule.end)
            else:
                last = _Rule(place, rule.start, rule.end)
                joined.append(last)
    return joined


def _find_groups(across: Sequence[_Rule], upright: Sequence[_Rule]) -> list[tuple[list[_Rule], list[_Rule]]]:
    """Return the rules that touch each other, or do so by others."""
    left = set(range(len(upright)))
    waiting = dict(enumerate(across))
    groups: list[tuple[list[_Rule], list[_Rule]]] = []
    while waiting:
        rows = [waiting.pop(next(iter(waiting)))]
        columns: list[_Rule] = []
        for row in rows:
            for index in [index for index in left if row.crosses(upright[index])]:
                left.remove(index)
                columns.append(upright[index])
                touching = [number for number, other in waiting.items() if other.crosses(upright[index])]
                rows += [waiting.pop(number) for number in touching]
        groups.append((rows, columns))
    return groups


def _make_grid(across: Sequence[_Rule], upright: Sequence[_Rule]) -> Grid:
    """Return the cells between rules; the outer edge of a table may have none."""
    columns = _merge(
        [rule.place for rule in upright] + [min(rule.start for rule in across), max(rule.end for rule in across)]
    )
    rows = _merge([rule.place for rule in across] + [end for rule in upright for end in (rule.start, rule.end)])[::-1]
    grid = Grid(columns, rows)
    if len(rows) * len(columns) > MAX_CELLS:
        return grid
    lines = defaultdict(list)
    for rule in across:
        lines[_find_nearest(rows, rule.place), False].append(rule)
    for rule in upright:
        lines[_find_nearest(columns, rule.place), True].append(rule)

    def is_divided(edge: int, is_upright: bool, middle: float) -> bool:
        return any(rule.start <= middle <= rule.end for rule in lines[edge, is_upright])

    for row, (top, bottom) in enumerate(pairwise(rows)):
        for column, (left, right) in enumerate(pairwise(columns)):
            owner = (row, column)
            if row and not is_divided(row, False, (left + right) / 2):
                owner = grid.cells[row - 1, column]
            elif column and not is_divided(column, True, (top + bottom) / 2):
                owner = grid.cells[row, column - 1]
            grid.cells[row, column] = owner
    return grid


def _merge(places: Iterable[float]) -> list[float]:
    merged: list[float] = []
    for place in sorted(places):
        if not merged or place - merged[-1] >= NEAR:
            merged.append(place)
    return merged


def _find_nearest(places: Sequence[float], place: float) -> int:
    return min(range(len(places)), key=lambda index: abs(places[index] - place))
