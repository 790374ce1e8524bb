"""Parts of the lines of printed pages, from where their characters stand and how large they are."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, groupby, pairwise
from statistics import median_low

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
_ITEM = re.compile(r"[\u2022\u2023\u2043\u25a0\u25aa\u25cb\u25cf] ")
# What goes on in an address, or in a path, and where no address ends.
_PART_OF_ADDRESS = re.compile(r"[^\W_][/_=&?#%~][^\W_]|[^\W_]\.[a-z]{2,4}\b")
_INNER_SIGNS = "&?=%#_~-"
# Icons of notes, of the font that most tools take, by what they say.
LABELS = {"\uf05a": "NOTE", "\uf0eb": "TIP", "\uf06a": "IMPORTANT", "\uf071": "WARNING", "\uf06d": "CAUTION"}
# From a title to its page, as in a table of contents.
_LEADER = re.compile(r"(?<![. ])[ ]?(?>\.(?:[ ]?\.){4,})[ ]?(?:\d{1,5}|[ivxlc]{1,8})$")
MIN_SIZE = 0.01
MAX_NUMBER_SIGNS = 6
MAX_SPACES = 100
MAX_TOKEN_SIGNS = 500
# More is not looked at: nobody prints so much in a line.
MAX_LINE_SIGNS = 2_000
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
# Signs of one width are a line of code only if so many are different.
MIN_CODE_SIGNS = 5
MIN_CODE_WIDTH = 0.3
MAX_CODE_WIDTH = 0.8
MAX_PITCH_DIFFERENCE = 0.16
# Those of two fonts differ more, in points.
MAX_HEIGHT_DIFFERENCE = 0.3
# Of the width of its signs.
MAX_PLACE_DIFFERENCE = 0.1


@dataclass(slots=True)
class Line:
    """A line of a page, in points. Raised digits are written as such; `first_width` is that of the first word.

    `pitch` is the width of all of its signs if they have the same, else 0. `is_row` tells that it has a large gap, as
    rows of tables have: it does not go on in the next line. `sizes` are those of all of its signs. `is_framed` tells
    that it stands in a box with others, `frame` has the left and the right edge of the innermost box. `parts`
    are the texts beside its only large gap, of which the second one begins at `column`. A whole table is one line, with
    the texts of its `cells`. `has_code_font` tells that other lines show its font to be one of code, `code_left`
    where most code begins in boxes as wide as its own.
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
    code_left: float | None = None

    @property
    def is_code(self) -> bool:
        """Return whether the line is set in a font of one width, as code is."""
        return self.has_code_font or (
            MIN_CODE_WIDTH < self.pitch / self.size < MAX_CODE_WIDTH and len(set(self.text) - {" "}) >= MIN_CODE_SIGNS
        )


@dataclass(slots=True)
class Segment:
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
        if first[0] in LABELS and len(placed) > 1 and top - bottom > self.size * (1 + MAX_SIZE_DIFFERENCE):
            self.label = f"{LABELS[first[0]]}: "
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

    def set_mark(self, code: Segment, pitch: float) -> None:
        """Write a small number beside code, as callouts have, with signs of the code."""
        bottom = min(self.bottom, code.bottom + MIN_RAISED * code.size)
        self.glyphs = [
            (sign, left, bottom, left + pitch, bottom + code.size)
            for place, sign in enumerate(f"({self.text.strip()})")
            for left in [self.left + place * pitch]
        ]
        self.__post_init__()

    def takes(self, other: Segment) -> bool:
        """Return whether another one goes on in the same line, as a raised digit does, and what follows it."""
        if len(self.glyphs) > MAX_LINE_SIGNS:
            return False
        overlap = min(self.bottom + self.size, other.bottom + other.size) - max(self.bottom, other.bottom)
        gap = other.left - self.right
        size = max(self.size, other.size)
        return overlap >= MIN_OVERLAP * min(self.size, other.size) and -MIN_SPACE * size <= gap <= MAX_GAP * size

    def add(self, other: Segment) -> None:
        """Take what goes on in the same line."""
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
        text = _compose(_ICON.sub("", text.replace(_BULLET, "\u2022")).rstrip())
        # An item is no part of the label beside it.
        label = f"{self.label.rstrip()}\n" if self.label and _ITEM.match(text) else self.label
        text, leaders = _LEADER.subn("", f"{label}{text}")
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
        return self.label + Segment(before).to_line().text, Segment(after).to_line().text

    def split_number(self) -> tuple[Segment | None, int]:
        """Return a line of one width without the number that stands before it, and this, which may be all of it."""
        if self.text.strip().isdecimal():
            return None, int(self.text[:MAX_NUMBER_SIGNS])
        if number := _LINE_NUMBER.match(self.text):
            code = Segment(self.glyphs[number.end() :])
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


def get_separator(text: str, following: str) -> str:
    """Return what stands between two lines of a sentence: in an address and in Chinese, there is no space."""
    last = text[-MAX_TOKEN_SIGNS:].rpartition(" ")[2]
    rest = following[:MAX_TOKEN_SIGNS].partition(" ")[0]
    has_part = rest.startswith("//") if last.endswith(":") else last.endswith("/") and _PART_OF_ADDRESS.search(rest)
    is_address = "://" in last or "@" in last
    # Behind an address, a sentence begins with a capital letter.
    is_open = last.endswith(tuple(_INNER_SIGNS)) or (last.endswith(".") and rest[:1].islower())
    if has_part or (is_address and is_open):
        return ""
    if text.endswith(HYPHENS):
        return "\n"
    ends = (text[-1:], following[:1])
    return "" if all(end and _is_wide(end) for end in ends) else " "


def _is_wide(sign: str) -> bool:
    # Words of Korean have spaces between them.
    return unicodedata.east_asian_width(sign) in "WF" and not "\uac00" <= sign <= "\ud7a3"


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
