"""Precision, recall and F1, with bootstrap confidence intervals over the cases."""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from dataclasses import dataclass

LEVEL = 0.95


RESAMPLES, FEWER_RESAMPLES, MANY_CASES = 1000, 200, 2000


_SEED = 20_240_601


_BITS = 32


@dataclass(frozen=True, slots=True)
class Counts:
    """What one case, or all together, had right and wrong."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @classmethod
    def of(cls, found: Set[str], wanted: Set[str]) -> Counts:
        """Compare what was found with what should have been."""
        return cls(len(found & wanted), len(found - wanted), len(wanted - found))

    @property
    def precision(self) -> float | None:
        """The share of what was found that is right; None when nothing was found."""
        return _ratio(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float | None:
        """The share of what was wanted that was found; None when nothing was wanted."""
        return _ratio(self.right, self.right + self.missed)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both; None when nothing was wanted and nothing found."""
        return _ratio(2 * self.right, 2 * self.right + self.wrong + self.missed)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with the interval that holds it in `LEVEL` of the resamples. None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures over all cases together (micro averages)."""

    counts: Counts
    precision: Figure
    recall: Figure
    f1: Figure


def score(cases: Sequence[Counts]) -> Scores:
    """Return the scores of cases, intervals by resampling them with replacement, the same at every run. Blocking."""
    resamples = RESAMPLES if len(cases) <= MANY_CASES else FEWER_RESAMPLES
    # Three counts in one integer are summed at once.
    packed = [case.right | case.wrong << _BITS | case.missed << 2 * _BITS for case in cases]
    dice = random.Random(_SEED)  # noqa: S311 (drawing samples, no secrets)
    drawn = [_unpacked(sum(dice.choices(packed, k=len(packed)))) for _ in range(resamples)] if packed else []
    whole = _unpacked(sum(packed))
    return Scores(
        whole,
        _figure(whole.precision, [one.precision for one in drawn]),
        _figure(whole.recall, [one.recall for one in drawn]),
        _figure(whole.f1, [one.f1 for one in drawn]),
    )


def _figure(value: float | None, drawn: Sequence[float | None]) -> Figure:
    ordered = sorted(one for one in drawn if one is not None)
    if value is None or not ordered:
        return Figure(value, None, None)
    tail = (1 - LEVEL) / 2 * (len(ordered) - 1)
    return Figure(value, ordered[round(tail)], ordered[round(len(ordered) - 1 - tail)])


def _unpacked(total: int) -> Counts:
    mask = (1 << _BITS) - 1
    return Counts(total & mask, total >> _BITS & mask, total >> 2 * _BITS)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
