"""Texts of printed pages that were drawn across each other: columns row by row, and signs between those of a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from knowledge.formats.page_segments import MAX_GAP, MIN_OVERLAP, MIN_SPACE, Glyph, Segment

# From where to where it goes.
Gap = tuple[float, float]
# More is not looked at: nobody prints so many texts on a page.
MAX_SEGMENTS = 1_000
MAX_NEIGHBOURS = 40
# A sign may reach so far into the next one, in points.
MAX_BEYOND = 1.0
# So many rows have their gap at one place, which is so wide, and texts on both sides of it; as shares of their size.
MIN_ROWS = 4
MIN_GUTTER = 0.8
MIN_COLUMN_WIDTH = 10.0
MAX_ROW_DISTANCE = 3.0
MAX_ROW_HEIGHT = 0.75
MAX_ROWS = 300
MAX_GUTTERS = 4
# Of the texts in a column, so many go on from the line above them.
MIN_SHARE = 0.4


def untangle(segments: Sequence[Sequence[Glyph]]) -> list[Sequence[Glyph]]:
    """Return segments with signs where they are seen: in their line, and in their column."""
    if len(segments) > MAX_SEGMENTS:
        return list(segments)
    measured = [Segment(list(glyphs)) for glyphs in segments]
    woven = _weave(segments, measured)
    return _part_columns(woven, [segment for segment in measured if segment.glyphs])


def _weave(segments: Sequence[Sequence[Glyph]], measured: list[Segment]) -> list[Sequence[Glyph]]:
    """Return segments with those put together whose signs stand between each other's, as a frame and what it has."""
    woven = list(segments)
    by_height = sorted(range(len(woven)), key=lambda number: measured[number].bottom)
    for place, number in enumerate(by_height):
        for other in by_height[place + 1 : place + MAX_NEIGHBOURS]:
            if measured[other].bottom > measured[number].bottom + measured[number].size:
                break
            first, second = sorted((number, other))
            if woven[first] and woven[second] and _are_woven(measured[first], measured[second]):
                woven[first] = list(_put_together(measured[first], measured[second]))
                woven[second] = measured[second].glyphs = []
                measured[first] = Segment(list(woven[first]))
    return [glyphs for glyphs in woven if glyphs]


def _are_woven(segment: Segment, other: Segment) -> bool:
    """Return whether signs of one stand in a gap of the other, and none of them upon each other."""
    if min(segment.right, other.right) <= max(segment.left, other.left) or segment.is_turned or other.is_turned:
        return False
    overlap = min(segment.bottom + segment.size, other.bottom + other.size) - max(segment.bottom, other.bottom)
    if overlap < (1 - MIN_OVERLAP) * max(segment.size, other.size):
        return False
    placed = sorted(
        (glyph[1], glyph[3], number)
        for number, each in enumerate((segment, other))
        for glyph in each.glyphs
        if not glyph[0].isspace()
    )
    # Cells of a row are further apart.
    farthest = MAX_GAP * max(segment.size, other.size)
    return all(
        left - right >= -MAX_BEYOND and (owner == last_owner or left - right <= farthest)
        for (_, right, last_owner), (left, _, owner) in pairwise(placed)
    )


def _put_together(segment: Segment, other: Segment) -> Iterator[Glyph]:
    placed = sorted(
        (glyph for each in (segment, other) for glyph in each.glyphs if not glyph[0].isspace()),
        key=lambda glyph: glyph[1],
    )
    size = max(segment.size, other.size)
    yield placed[0]
    for last, glyph in pairwise(placed):
        if glyph[1] - last[3] > MIN_SPACE * size:
            yield (" ", last[3], last[2], glyph[1], last[2])
        yield glyph


def _part_columns(segments: Sequence[Sequence[Glyph]], measured: Sequence[Segment]) -> list[Sequence[Glyph]]:
    """Return segments with columns of running text one after the other that were drawn row by row."""
    rows = _make_rows(segments, measured)
    if sum(bool(row.gaps) for row in rows) < MIN_ROWS:
        return list(segments)
    parted: dict[int, list[Sequence[Glyph]]] = {}
    gone: set[int] = set()
    start = 0
    while start < len(rows):
        gutter, end = _find_gutter(rows, start)
        zone = rows[start:end]
        start = end
        if gutter is None:
            continue
        numbers = sorted(number for row in zone for number in row.numbers)
        left = [run for row in zone for number in row.numbers for run in _take_side(segments[number], gutter, -1)]
        right = [run for row in zone for number in row.numbers for run in _take_side(segments[number], gutter, 1)]
        if _runs_on(left) and _runs_on(right) and _is_mixed(segments, numbers, gutter):
            parted[numbers[0]] = [*left, *_part_columns(right, [Segment(list(run)) for run in right])]
            gone.update(numbers)
    return [
        run for number, glyphs in enumerate(segments) for run in parted.get(number, () if number in gone else (glyphs,))
    ]


@dataclass(slots=True)
class _Row:
    """What stands at one height: the numbers of its segments, from left to right, and its gaps."""

    bottom: float
    size: float
    numbers: list[int]
    left: float = 0.0
    right: float = 0.0
    gaps: list[Gap] = field(default_factory=list)


def _make_rows(segments: Sequence[Sequence[Glyph]], measured: Sequence[Segment]) -> list[_Row]:
    """Return the rows of a page, from its top; none if there are too many."""
    rows: list[_Row] = []
    for number in sorted(range(len(segments)), key=lambda number: -measured[number].bottom):
        segment = measured[number]
        if rows and rows[-1].bottom - segment.bottom < MAX_ROW_HEIGHT * segment.size:
            rows[-1].numbers.append(number)
        else:
            rows.append(_Row(segment.bottom, segment.size, [number]))
    if len(rows) > MAX_ROWS:
        return []
    for row in rows:
        row.numbers.sort(key=lambda number: measured[number].left)
        placed = sorted(
            (glyph[1], glyph[3]) for number in row.numbers for glyph in segments[number] if not glyph[0].isspace()
        )
        row.left = placed[0][0]
        ends = accumulate((right for _, right in placed), max)
        gaps = [
            (end, left) for end, (left, _) in zip(ends, placed[1:], strict=False) if left - end > MIN_GUTTER * row.size
        ]
        row.gaps = gaps if len(gaps) <= MAX_GUTTERS else []
        row.right = max(right for _, right in placed)
    return rows


def _find_gutter(rows: Sequence[_Row], start: int) -> tuple[Gap | None, int]:
    """Return the first gap of a row that enough of those below it have as well, and where they end."""
    for first in rows[start].gaps:
        gap = first
        count = end = 0
        for last, row in pairwise([rows[start], *rows[start:]]):
            beside = [(-math.inf, row.left), *row.gaps, (row.right, math.inf)]
            met = [(max(gap[0], left), min(gap[1], right)) for left, right in beside]
            wide = [place for place, (left, right) in enumerate(met) if right - left > MIN_GUTTER * row.size]
            if last.bottom - row.bottom > MAX_ROW_DISTANCE * row.size or not wide:
                break
            gap = met[wide[0]]
            count += 0 < wide[0] <= len(row.gaps)
            end += 1
        if count >= MIN_ROWS:
            return gap, start + end
    return None, start + 1


def _take_side(glyphs: Sequence[Glyph], gutter: Gap, side: int) -> Iterator[Sequence[Glyph]]:
    """Yield what a segment has to the left of a gap, or to the right of it."""
    middle = sum(gutter) / 2
    run = [glyph for glyph in glyphs if (glyph[1] + glyph[3] - 2 * middle) * side > 0]
    if any(not glyph[0].isspace() for glyph in run):
        yield run


def _runs_on(runs: Sequence[Sequence[Glyph]]) -> bool:
    """Return whether texts below each other are those of a column: wide, not code, and many of them go on."""
    segments = [Segment(list(run)) for run in runs]
    count_wide = sum(segment.right - segment.left > MIN_COLUMN_WIDTH * segment.size for segment in segments)
    count_going_on = sum(segment.text[:1].islower() or not segment.text[:1].isascii() for segment in segments)
    count_code = sum(bool(segment.code_pitch) for segment in segments)
    return min(count_wide / 2, count_going_on) >= MIN_SHARE * len(segments) and count_code < MIN_SHARE * len(segments)


def _is_mixed(segments: Sequence[Sequence[Glyph]], numbers: Sequence[int], gutter: Gap) -> bool:
    """Return whether columns were drawn row by row."""
    sides = [[any(_take_side(segments[number], gutter, side)) for side in (-1, 1)] for number in numbers]
    return sum(last != following or all(following) for last, following in pairwise(sides)) >= MIN_ROWS - 1
