"""Signs of printed pages that are drawn and no text: bullets of lists, and underscores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile, pairwise

from knowledge.formats.page_segments import LABELS, Glyph
from knowledge.formats.page_tables import Box

# By how far they stand in: each is that of a list of its own.
BULLETS = "\u2022\u25cb\u25aa\u2023\u25cf\u25a0"
# More are a drawing, or its labels.
MAX_MARKS = 500
MAX_SEGMENTS = 1_000
# All of these are shares of the size of the line.
MIN_BULLET = 0.15
MAX_BULLET = 0.6
MAX_BULLET_GAP = 1.5
MAX_RULE = 0.15
MIN_RULE = 0.25
MAX_RULE_WIDTH = 0.7
# Of the larger side of a bullet, its sides may differ so much.
MAX_DIFFERENCE = 0.25
# How far what is drawn may reach beyond the gap that it stands in, in points.
MAX_BEYOND = 1.0


def add_drawn(segments: Iterable[list[Glyph]], boxes: Iterable[Box]) -> list[list[Glyph]]:
    """Return the characters of a page with those that are drawn among its lines and areas."""
    read = [glyphs for glyphs in segments if any(not glyph[0].isspace() for glyph in glyphs)]
    if not 0 < len(read) <= MAX_SEGMENTS:
        return read
    sizes = [max(top - bottom for _, _, bottom, _, top in glyphs[_find_text(glyphs) :]) for glyphs in read]
    marks = [box for box in boxes if 0 < box[2] - box[0] < max(sizes)]
    if len(marks) > MAX_MARKS:
        return read
    bullets: dict[int, Box] = {}
    for box in marks:
        for number, glyphs in enumerate(read):
            if _is_bullet(box, glyphs, sizes[number]):
                bullets[number] = box
            elif _is_underscore(box, glyphs, sizes[number]):
                read[number] = list(_insert(box, glyphs))
    lefts = sorted({round(box[0] + box[2]) for box in bullets.values()})
    for number, (left, _, right, _) in bullets.items():
        sign = BULLETS[min(_find_level(lefts, round(left + right)), len(BULLETS) - 1)]
        start = _find_text(read[number])
        _, _, line_bottom, _, line_top = read[number][start]
        bullet = [(sign, left, line_bottom, right, line_top), (" ", right, line_bottom, right, line_top)]
        read[number][start:start] = bullet
    return read


def _find_level(middles: Sequence[int], middle: int) -> int:
    """Return how many lists begin to the left of a bullet; those of one list are not drawn at the same point."""
    before = [other for other in middles if other <= middle]
    return sum(following - other > 2 * MAX_BEYOND for other, following in pairwise(before))


def _is_bullet(box: Box, glyphs: Sequence[Glyph], size: float) -> bool:
    """Return whether a small box, as high as it is wide, stands right before a line, at half of its height."""
    left, bottom, right, top = box
    width, height = right - left, top - bottom
    _, line_left, line_bottom, _, line_top = glyphs[_find_text(glyphs)]
    return (
        MIN_BULLET * size < max(width, height) < MAX_BULLET * size
        and abs(width - height) < MAX_DIFFERENCE * max(width, height)
        and -MAX_BEYOND < line_left - right < MAX_BULLET_GAP * size
        and line_bottom < bottom
        and top < line_top
    )


def _find_text(glyphs: Sequence[Glyph]) -> int:
    """Return where the text of a line begins: behind the icon of a note."""
    text = dropwhile(lambda number: glyphs[number][0].isspace() or glyphs[number][0] in LABELS, range(len(glyphs)))
    return next(text, 0)


def _is_underscore(box: Box, glyphs: Sequence[Glyph], size: float) -> bool:
    """Return whether a short rule stands between two letters, at their feet."""
    left, bottom, right, top = box
    if top - bottom > MAX_RULE * size or not MIN_RULE * size < right - left < MAX_RULE_WIDTH * size:
        return False
    line_bottom = glyphs[0][2]
    if not line_bottom - MAX_BEYOND < bottom < line_bottom + MAX_BULLET * size / 2:
        return False
    placed = [glyph for glyph in glyphs if not glyph[0].isspace()]
    before = [glyph for glyph in placed if glyph[3] <= left + MAX_BEYOND]
    after = [glyph for glyph in placed if glyph[1] >= right - MAX_BEYOND]
    return (
        len(before) + len(after) == len(placed)
        and bool(before and after)
        and left - before[-1][3] < MAX_BEYOND
        and after[0][1] - right < MAX_BEYOND
        and after[0][0].isalnum()
    )


def _insert(box: Box, glyphs: Sequence[Glyph]) -> Iterator[Glyph]:
    """Yield the characters of a line with an underscore instead of the space where it is drawn."""
    left, _, right, _ = box
    is_open = True
    for glyph in glyphs:
        is_behind = glyph[1] >= right - MAX_BEYOND
        if is_open and is_behind and not glyph[0].isspace():
            yield ("_", left, glyph[2], right, glyph[4])
            is_open = False
        if not glyph[0].isspace() or not is_open or glyph[3] <= left - MAX_BEYOND:
            yield glyph
