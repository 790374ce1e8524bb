"""How sure the gate is that it can help: a logistic regression over a few signs, small enough to be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.gating.asking import personal
from core.gating.relevance import Relevance
from core.settings.platforms import GateWeightSettings

NAMES = ("base", "personal", "match", "foreign")
_PULL = 0.05
_STEPS, _ENOUGH = 60, 1e-8


@dataclass(frozen=True, slots=True)
class Signs:
    """What tells whether a message is a question that the bot can answer; each from 0 to 1."""

    personal: float
    match: float
    foreign: float

    def row(self) -> tuple[float, ...]:
        """Return the signs in the order of `NAMES`, with the constant in front."""
        return 1.0, self.personal, self.match, self.foreign


def signs_of(text: str, found: Relevance) -> Signs:
    """Return the signs of a message."""
    return Signs(float(personal(text)), found.match, found.foreign)


def chance(signs: Signs, weights: GateWeightSettings) -> float:
    """Return how sure it is, from 0 to 1."""
    return _logistic(sum(value * getattr(weights, name) for name, value in zip(NAMES, signs.row(), strict=True)))


def fit(signs: Sequence[Signs], truths: Sequence[bool]) -> GateWeightSettings:
    """Return the weights that explain the truths best (Newton's method, a light pull towards zero).

    Both outcomes weigh the same, however many there are of each. Blocking; some milliseconds for a thousand cases.
    """
    rows = [one.row() for one in signs]
    counts = {outcome: max(1, sum(truth is outcome for truth in truths)) for outcome in (True, False)}
    shares = [len(rows) / (2 * counts[truth]) for truth in truths]
    weights = [0.0] * len(NAMES)
    for _ in range(_STEPS):
        chances = [_logistic(sum(a * b for a, b in zip(row, weights, strict=True))) for row in rows]
        slope = [-_PULL * weight if at else 0.0 for at, weight in enumerate(weights)]
        bend = [[_PULL * (at == other and at > 0) for other in range(len(NAMES))] for at in range(len(NAMES))]
        for row, share, said, truth in zip(rows, shares, chances, truths, strict=True):
            spread = share * max(said * (1 - said), 1e-9)
            for at, value in enumerate(row):
                slope[at] += share * (truth - said) * value
                for other, beside in enumerate(row):
                    bend[at][other] += spread * value * beside
        step = _solved(bend, slope)
        weights = [weight + change for weight, change in zip(weights, step, strict=True)]
        if max(map(abs, step)) < _ENOUGH:
            break
    return GateWeightSettings(**{name: round(weight, 2) for name, weight in zip(NAMES, weights, strict=True)})


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a symmetric positive system by elimination with pivots; what cannot be told apart stays where it is."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        if abs(rows[at][at]) < _ENOUGH:
            continue
        for row in range(size):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
    return [rows[at][size] / rows[at][at] if abs(rows[at][at]) >= _ENOUGH else 0.0 for at in range(size)]
