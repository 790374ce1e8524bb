"""The order of the parts of printed pages: as they were drawn, but what stands above something comes before it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

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


def order(parts: Sequence[Segment | Line]) -> list[Segment | Line]:
    """Return parts as they were drawn, but each after what is above it or begins its line; turned ones as drawn."""
    if len(parts) > MAX_ORDERED_PARTS or all(_is_below(other, part) for part, other in pairwise(parts)):
        return list(parts)
    straight: list[int] = []
    for place, part in enumerate(parts):
        # One sign tells nothing: it is turned as what comes before it.
        is_sign = isinstance(part, Segment) and len(part.glyphs) == 1
        if (not place or straight[-1:] == [place - 1]) if is_sign else not part.is_turned:
            straight.append(place)
    followers: list[list[int]] = [[] for _ in parts]
    for place in straight:
        followers[place] = [other for other in straight if _is_above(parts[place], parts[other])]
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


def _is_above(part: Segment | Line, other: Segment | Line) -> bool:
    if part.bottom - other.bottom <= MIN_LEADING * other.size:
        return False
    return min(part.right, other.right) - max(part.left, other.left) > MIN_OVERLAP * min(part.size, other.size)


def _begins_line(part: Segment | Line, other: Segment | Line) -> bool:
    if not isinstance(part, Segment) or not isinstance(other, Segment) or part.left >= other.left:
        return False
    if part.bottom - other.bottom > MIN_LEADING * other.size:
        return False
    return part.takes(other) or is_mark(part, other)
