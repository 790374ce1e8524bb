"""The order of the parts of printed pages: as they were drawn, but what stands above something comes before it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, pairwise

from knowledge.formats.page_segments import (
    MAX_LEADING,
    MAX_SIZE_DIFFERENCE,
    MIN_CELL_GAP,
    MIN_LEADING,
    MIN_OVERLAP,
    MIN_RAISED,
    Line,
    Segment,
)
from knowledge.formats.page_tables import Box

_NOTE_NUMBER = re.compile(r"\d{1,2}")
# More is not looked at: nobody prints so many parts on a page.
MAX_ORDERED_PARTS = 500


def is_mark(code: Segment, mark: Segment) -> bool:
    """Return whether a number of another font is beside the end of a line, or right below it."""
    if mark.size > code.size * (1 - MAX_SIZE_DIFFERENCE) or not _NOTE_NUMBER.fullmatch(mark.text.strip()):
        return False
    if abs(code.bottom - mark.bottom) <= MIN_RAISED * code.size:
        return 0 < mark.left - code.right <= MIN_CELL_GAP * code.size
    return 0 < code.bottom - mark.bottom <= MAX_LEADING * code.size and code.left <= mark.left <= code.right


def _gather(parts: Sequence[Segment | Line], frames: Sequence[Box]) -> list[Segment | Line]:
    """Return parts as they were drawn, but one that was drawn apart from the others in its box among these."""
    gathered = list(parts)
    for frame in sorted(frames, key=_get_area):
        inside = [_stands_in(part, frame) for part in gathered]
        runs = [list(places) for is_run, places in groupby(range(len(gathered)), inside.__getitem__) if is_run]
        if len(runs) == 2 and min(map(len, runs)) == 1 < max(map(len, runs)):
            (place,), others = sorted(runs, key=len)
            part = gathered.pop(place)
            start = others[0] - (place < others[0])
            gathered.insert(start + _find_place(part, gathered[start : start + len(others)]), part)
    return gathered


def _find_sides(parts: Sequence[Segment | Line], frames: Sequence[Box]) -> dict[int, tuple[float, float]]:
    """Return from where to where each part goes; the label in the corner of a box is as wide as that."""
    sides = {id(part): (part.left, part.right) for part in parts}
    for frame in sorted(frames, key=_get_area, reverse=True):
        inside = [part for part in parts if _stands_in(part, frame)]
        label = max(inside, key=lambda part: part.left, default=None)
        others = [part for part in inside if part is not label]
        if label and others and all(part.right <= label.left and not _is_beside(part, label) for part in others):
            sides[id(label)] = frame[0], frame[2]
    return sides


def _get_area(frame: Box) -> float:
    return (frame[2] - frame[0]) * (frame[3] - frame[1])


def _is_beside(part: Segment | Line, other: Segment | Line) -> bool:
    return abs(part.bottom - other.bottom) <= min(part.size, other.size) / 2


def _stands_in(part: Segment | Line, frame: Box) -> bool:
    left, bottom, right, top = frame
    return left <= part.left and part.right <= right and bottom <= part.bottom + part.size / 2 <= top


def _find_place(part: Segment | Line, others: Sequence[Segment | Line]) -> int:
    """Return before which of others a part is read: the first one that is not above it, nor before it in its line."""
    below = [place for place, other in enumerate(others) if min(part.right, other.right) > max(part.left, other.left)]
    for place in below or range(len(others)):
        other = others[place]
        is_before = other.left < part.left if _is_beside(part, other) else other.bottom > part.bottom
        if not is_before:
            return place
    return below[-1] + 1 if below else len(others)


def order(drawn: Sequence[Segment | Line], frames: Sequence[Box] = ()) -> list[Segment | Line]:
    """Return parts as they were drawn, but each after what is above it or begins its line; turned ones as drawn.

    What stands in a frame stays together.
    """
    parts = _gather(drawn, frames)
    if len(parts) > MAX_ORDERED_PARTS or all(_is_below(other, part) for part, other in pairwise(parts)):
        return list(parts)
    sides = _find_sides(parts, frames)
    straight: list[int] = []
    for place, part in enumerate(parts):
        # One sign tells nothing: it is turned as what comes before it.
        is_sign = isinstance(part, Segment) and len(part.glyphs) == 1
        if (not place or straight[-1:] == [place - 1]) if is_sign else not part.is_turned:
            straight.append(place)
    followers: list[list[int]] = [[] for _ in parts]
    for place in straight:
        followers[place] = [other for other in straight if _is_above(parts[place], parts[other], sides)]
    in_line = [[place for place, other in enumerate(parts) if _begins_line(part, other)] for part in parts]
    waiting = Counter(chain(*followers, *in_line))
    free = {place for place in range(len(parts)) if not waiting[place]}
    ordered: list[Segment | Line] = []
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


def _is_below(part: Segment | Line, other: Segment | Line) -> bool:
    """Return whether a part that follows another one is below it, or beside it to the right."""
    return part.bottom <= other.bottom - (0 if other.left <= part.left else MIN_LEADING * part.size)


def _is_above(part: Segment | Line, other: Segment | Line, sides: Mapping[int, tuple[float, float]]) -> bool:
    if part.bottom - other.bottom <= MIN_LEADING * other.size:
        return False
    (left, right), (other_left, other_right) = sides[id(part)], sides[id(other)]
    return min(right, other_right) - max(left, other_left) > MIN_OVERLAP * min(part.size, other.size)


def _begins_line(part: Segment | Line, other: Segment | Line) -> bool:
    if not isinstance(part, Segment) or not isinstance(other, Segment) or part.left >= other.left:
        return False
    if part.bottom - other.bottom > MIN_LEADING * other.size:
        return False
    return part.takes(other) or is_mark(part, other)
