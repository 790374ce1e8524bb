"""Every regular expression of the product, and how it grows."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from re import _constants as codes, _parser as parser
from typing import Any

from tests.support.growth import PATTERN_LIMITS, UNITS, Growth, Text, find_growth

METHODS = ("match", "fullmatch", "search", "finditer")
METHOD_ALIASES = {"sub": "finditer", "subn": "finditer", "split": "finditer", "findall": "finditer"}
# What a method does before anything else: its time is never shorter.
CONTAINED = {"match": (), "fullmatch": (), "search": ("match",), "finditer": ("match", "search")}


def make_texts(pattern: re.Pattern[str]) -> set[tuple[str, str, str]]:
    """Return the beginnings, repeated parts and ends of texts that may be hard for a pattern."""
    texts = {(start, unit, end) for unit in UNITS for start in ("", "x") for end in ("", "\x00", "x", "\n")}

    def walk(items: Any, prefix: str) -> None:
        for code, argument in items:
            if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
                for unit in sample_all(argument[2]):
                    texts.update((prefix[-60:], unit, end) for end in ("", "\x00", "!\n"))
                    texts.update({("", unit, "\x00"), ("", prefix[-60:] + unit, ""), ("x", unit, "x")})
                if prefix:
                    texts.add(("", prefix[-60:], ""))
                walk(argument[2], prefix)
            elif code is codes.SUBPATTERN:
                walk(argument[3], prefix)
            elif code is codes.BRANCH:
                for branch in argument[1]:
                    walk(branch, prefix)
            elif code in (codes.ASSERT, codes.ASSERT_NOT):
                walk(argument[1], prefix)
            elif code is codes.ATOMIC_GROUP:
                walk(argument, prefix)
            prefix += sample_item(code, argument)

    walk(parser.parse(pattern.pattern, pattern.flags), "")
    return {text for text in texts if text[1]}


def sample_all(items: Any) -> set[str]:
    """Return several texts that a part of a pattern matches."""
    results = {sample(items)}
    for code, argument in items:
        if code is codes.IN:
            results |= {character for character in "ab1 -\n\t`<[*._\"'" if is_in(argument, character)}
            results |= {chr(value) for kind, value in argument if kind is codes.LITERAL}
        elif code in (codes.ANY, codes.NOT_LITERAL):
            results |= set("ab *`[<1")
        elif code is codes.BRANCH:
            for branch in argument[1]:
                results |= sample_all(branch)
        elif code is codes.SUBPATTERN:
            results |= sample_all(argument[3])
    return results - {""}


def sample(items: Any) -> str:
    return "".join(sample_item(code, argument) for code, argument in items)


def sample_item(code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return "b" if argument == ord("a") else "a"
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        candidates = [
            chr(value) for kind, value in argument if kind is codes.LITERAL and argument[0][0] != codes.NEGATE
        ]
        candidates += [character for character in "a1 -\n`<[" if is_in(argument, character)]
        candidates += [chr(value[0]) for kind, value in argument if kind is codes.RANGE]
        return candidates[0] if candidates else "\x01"
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return sample(argument[2]) * min(max(argument[0], 1), 50)
    if code is codes.SUBPATTERN:
        return sample(argument[3])
    if code is codes.ATOMIC_GROUP:
        return sample(argument)
    return sample(argument[1][0]) if code is codes.BRANCH else ""


def is_in(members: Any, character: str) -> bool:
    """Return whether a set of characters, as `re` has parsed it, holds one."""
    escapes = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w", "NOT_DIGIT": r"\D", "NOT_SPACE": r"\S", "NOT_WORD": r"\W"}
    results = []
    for kind, value in members:
        if kind is codes.LITERAL:
            results.append(chr(value) == character)
        elif kind is codes.RANGE:
            results.append(value[0] <= ord(character) <= value[1])
        elif kind is codes.CATEGORY:
            name = str(value).removeprefix("CATEGORY_").replace("UNI_", "")
            results.append(re.fullmatch(escapes[name], character) is not None)
    return any(results) != (members[0][0] is codes.NEGATE)


def run_method(pattern: re.Pattern[str], method: str, text: str) -> None:
    if method == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, method)(text)


def find_superlinear(pattern: re.Pattern[str], methods: Collection[str], limits: Growth = PATTERN_LIMITS) -> str:
    """Return what makes a pattern slow, or an empty string."""
    texts = [Text(*parts) for parts in sorted(make_texts(pattern))]
    for method in set(methods).difference(*(CONTAINED[used] for used in methods)):
        if reason := find_growth(partial(run_method, pattern, method), texts, limits):
            return f"{method} of {reason}"
    return ""
