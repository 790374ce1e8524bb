"""The numbers and bullets of lists in Word documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from knowledge.formats.ooxml import Element, find, find_all, get_attribute, get_name

MAX_LEVEL = 8
_ROMAN_DIGITS = tuple(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
        strict=True,
    )
)
_PLACEHOLDER = re.compile(r"%([1-9])")
_PLAIN_NUMBER = re.compile(r"%[1-9][.)]?$")


@dataclass(frozen=True, slots=True)
class _Level:
    form: str = "decimal"
    label: str = "%1."
    start: int = 1


@dataclass(frozen=True, slots=True)
class Label:
    """What stands before an item: `number` where it is a plain number (0 otherwise), or `text`; neither is a bullet."""

    level: int
    number: int = 0
    text: str = ""


@dataclass(slots=True)
class _Numbers:
    levels: dict[int, _Level]
    counts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Counts the items of a document's lists, in the order in which they are asked for."""

    def __init__(self, root: Element | None) -> None:
        self._lists: dict[str, _Numbers] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        if root is None:
            return
        abstract_lists = {
            get_attribute(node, "abstractNumId"): _Numbers(_read_levels(node))
            for node in root
            if get_name(node) == "abstractNum"
        }
        for node in root:
            target = abstract_lists.get(get_attribute(find(node, "abstractNumId"), "val"))
            if get_name(node) == "num" and target is not None:
                identifier = get_attribute(node, "numId")
                self._lists[identifier] = target
                self._overrides[identifier] = _read_overrides(node)

    def count(self, list_id: str, level: int) -> Label | None:
        """Return what stands before the next item of a list; None where there is no such list."""
        numbers = self._lists.get(list_id)
        if numbers is None:
            return None
        # A list that starts anew does so once, at its first item.
        for depth, start in self._overrides.pop(list_id, {}).items():
            numbers.counts[depth] = start - 1
        definition = numbers.levels.get(level, _Level())
        numbers.counts[level] = numbers.counts.get(level, definition.start - 1) + 1
        for depth in [depth for depth in numbers.counts if depth > level]:
            del numbers.counts[depth]
        if definition.form == "bullet" or not definition.label:
            return Label(level)
        if definition.form == "decimal" and _PLAIN_NUMBER.match(definition.label):
            return Label(level, number=numbers.counts[level])
        return Label(level, text=_PLACEHOLDER.sub(lambda match: _format(numbers, int(match[1]) - 1), definition.label))


def _read_levels(node: Element) -> dict[int, _Level]:
    return {
        int(get_attribute(level, "ilvl")): _Level(
            get_attribute(find(level, "numFmt"), "val") or "decimal",
            get_attribute(find(level, "lvlText"), "val"),
            _to_number(get_attribute(find(level, "start"), "val"), 1),
        )
        for level in find_all(node, "lvl")
        if get_attribute(level, "ilvl").isdecimal()
    }


def _read_overrides(node: Element) -> dict[int, int]:
    starts = {
        _to_number(get_attribute(override, "ilvl"), 0): get_attribute(find(override, "startOverride"), "val")
        for override in node
        if get_name(override) == "lvlOverride"
    }
    return {level: int(start) for level, start in starts.items() if start.isdecimal()}


def _to_number(text: str, default: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 8 else default


def _format(numbers: _Numbers, level: int) -> str:
    definition = numbers.levels.get(level, _Level())
    count = numbers.counts.get(level, definition.start)
    match definition.form:
        case "lowerLetter" | "upperLetter":
            letters = chr(ord("a") + (count - 1) % 26) * min((count - 1) // 26 + 1, 9)
            text = letters if count > 0 else str(count)
        case "lowerRoman" | "upperRoman":
            text = _to_roman(count)
        case "decimalZero":
            text = f"{count:02d}"
        case _:
            text = str(count)
    return text.upper() if definition.form.startswith("upper") else text


def _to_roman(number: int) -> str:
    if not 0 < number < 5000:
        return str(number)
    digits = []
    for value, digit in _ROMAN_DIGITS:
        digits.append(digit * (number // value))
        number %= value
    return "".join(digits)
