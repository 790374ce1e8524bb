"""Precision, recall and F1, with bootstrap confidence intervals over the cases."""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from dataclasses import dataclass

CONFIDENCE_LEVEL = 0.95


RESAMPLES = 1000
FEWER_RESAMPLES = 200
MANY_CASES = 2000


_SEED = 20_240_601


_COUNT_BITS = 32


@dataclass(frozen=True, slots=True)
class Counts:
    """The right and wrong decisions of one case, or of all together."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0

    @classmethod
    def compare(cls, predicted: Set[str], expected: Set[str]) -> Counts:
        """Compare what was found with what should have been."""
        return cls(len(predicted & expected), len(predicted - expected), len(expected - predicted))

    @property
    def precision(self) -> float | None:
        """The share of what was found that is right; None when nothing was found."""
        return _ratio(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float | None:
        """The share of what was wanted that was found; None when nothing was wanted."""
        return _ratio(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both; None when nothing was wanted and nothing found."""
        return _ratio(2 * self.true_positives, 2 * self.true_positives + self.false_positives + self.false_negatives)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number with the interval that holds it in `CONFIDENCE_LEVEL` of the resamples. None: undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures over all cases together (micro averages)."""

    counts: Counts
    precision: Estimate
    recall: Estimate
    f1: Estimate


def compute_scores(cases: Sequence[Counts]) -> Scores:
    """Return the scores of cases, intervals by resampling them with replacement, the same at every run. Blocking."""
    resamples = RESAMPLES if len(cases) <= MANY_CASES else FEWER_RESAMPLES
    # Three counts in one integer are summed at once.
    packed_counts = [
        case.true_positives | case.false_positives << _COUNT_BITS | case.false_negatives << 2 * _COUNT_BITS
        for case in cases
    ]
    rng = random.Random(_SEED)  # noqa: S311 (drawing samples, no secrets)
    samples = (
        [_unpack_counts(sum(rng.choices(packed_counts, k=len(packed_counts)))) for _ in range(resamples)]
        if packed_counts
        else []
    )
    totals = _unpack_counts(sum(packed_counts))
    return Scores(
        totals,
        _estimate(totals.precision, [sample.precision for sample in samples]),
        _estimate(totals.recall, [sample.recall for sample in samples]),
        _estimate(totals.f1, [sample.f1 for sample in samples]),
    )


def _estimate(value: float | None, samples: Sequence[float | None]) -> Estimate:
    sorted_samples = sorted(sample for sample in samples if sample is not None)
    if value is None or not sorted_samples:
        return Estimate(value, None, None)
    tail = (1 - CONFIDENCE_LEVEL) / 2 * (len(sorted_samples) - 1)
    return Estimate(value, sorted_samples[round(tail)], sorted_samples[round(len(sorted_samples) - 1 - tail)])


def _unpack_counts(packed_counts: int) -> Counts:
    mask = (1 << _COUNT_BITS) - 1
    return Counts(packed_counts & mask, packed_counts >> _COUNT_BITS & mask, packed_counts >> 2 * _COUNT_BITS)


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None
