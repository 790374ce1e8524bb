"""The arguments of slash commands: how they are written, and what a word in their place stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.errors import UsageError

Kind = Literal["text", "choice", "source", "integer", "number"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, given in the order of the table.

    A `choice` is one of `choices`; of the other kinds `choices` are words that may stand in place of a value. `least`
    and `most` bound a number. A `text` takes all that is left. An `alternative` is given in place of the argument
    before it, a number: a word that is none is taken for it.
    """

    name: str
    summary: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    required: bool = False
    least: float | None = None
    most: float | None = None
    alternative: bool = False


def written(arguments: tuple[Argument, ...]) -> str:
    """Return how arguments are written behind a command; those in brackets may be left out."""
    shown: list[str] = []
    for argument in arguments:
        if argument.alternative and shown:
            shown[-1] = f"{shown[-1].removesuffix(']')}|{argument.name.upper()}]"
        else:
            shown.append(_shown(argument))
    return " ".join(shown)


def choose(arguments: tuple[Argument, ...], place: int, word: str) -> Argument:
    """Return which argument a word in a place is of: the one there, or the alternative behind it."""
    there = arguments[place]
    following = arguments[place + 1 : place + 2]
    return following[0] if following and following[0].alternative and _number(word) is None else there


def value_of(argument: Argument, word: str, usage: str) -> str:
    """Return what a word stands for. Raises `UsageError`, which says by `usage` how the command is written."""
    lowered = word.lower()
    if lowered in argument.choices:
        return lowered
    if argument.kind == "choice":
        allowed = ", ".join(f"`{one}`" for one in argument.choices)
        raise UsageError(f"`{argument.name}` is one of {allowed}. Write it as `{usage}`.")
    if argument.kind in ("integer", "number") and not _is_within(argument, word):
        kind = "a whole number" if argument.kind == "integer" else "a number"
        bounds = f" from {argument.least:g} to {argument.most:g}" if argument.least is not None else ""
        words = "".join(f" or `{one}`" for one in argument.choices)
        raise UsageError(f"`{argument.name}` is {kind}{bounds}{words}. Write it as `{usage}`.")
    return word


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _is_within(argument: Argument, word: str) -> bool:
    number = _number(word)
    if number is None:
        return False
    whole = argument.kind == "number" or number.is_integer()
    # Not a number is neither below nor above anything.
    above = argument.least is None or number >= argument.least
    return whole and above and (argument.most is None or number <= argument.most)


def _shown(argument: Argument) -> str:
    words = (
        "|".join(argument.choices)
        if argument.kind == "choice" and len(argument.choices) <= 4
        else argument.name.upper()
    )
    return words if argument.required else f"[{words}]"
