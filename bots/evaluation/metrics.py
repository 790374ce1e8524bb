"""Measures of a ranking, and means with bootstrap intervals. The only module that knows ir_measures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from core.messaging.gate.scores import _SEED, FEWER_RESAMPLES, LEVEL, MANY_CASES, RESAMPLES, Figure

Values = NDArray[np.float64]

# Recall is the share of the relevant documents among the first k, a hit any of them. MRR looks at all that is found.
MEASURES = ("recall@5", "recall@10", "recall@20", "nDCG@10", "MRR", "hit@1", "hit@3", "hit@10")
MAIN = "nDCG@10"
# What is drawn over k.
DEPTHS = (1, 3, 5, 10, 20)
DRAWN = ("recall", "nDCG")
_AT_ONCE = 50


def rate(
    rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], names: Sequence[str] = MEASURES
) -> Mapping[str, Values]:
    """Return each of these measures for each case, shape (cases,), 0 to 1. Blocking.

    `rankings` are ids, the best first, each once; of the `relevant` ones there is at least one in every case.
    """
    import ir_measures

    measures = {
        ir_measures.parse_measure(name.replace("recall", "R").replace("hit", "Success").replace("MRR", "RR")): name
        for name in names
    }
    wanted = {str(case): dict.fromkeys(ids, 1) for case, ids in enumerate(relevant)}
    # Scores say the order: equal ones would be ordered by the ids.
    runs = {
        str(case): {one: float(len(ranking) - place) for place, one in enumerate(ranking)}
        for case, ranking in enumerate(rankings)
    }
    values = {name: np.zeros(len(rankings)) for name in names}
    for metric in ir_measures.iter_calc(measures, wanted, runs):
        values[measures[metric.measure]][int(metric.query_id)] = metric.value
    return values


def mean(values: Values) -> Figure:
    """Return the mean of what cases are worth, its interval by resampling them; the same at every run. Blocking.

    Of no cases there is no figure. Cases without a value (NaN) do not count.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return Figure(None, None, None)
    resamples = RESAMPLES if len(values) <= MANY_CASES else FEWER_RESAMPLES
    dice = np.random.default_rng(_SEED)
    means = np.concatenate(
        [
            values[dice.integers(len(values), size=(_AT_ONCE, len(values)))].mean(axis=1)
            for _ in range(resamples // _AT_ONCE)
        ]
    )
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(float(values.mean()), float(low), float(high))


ROUTED = ("accuracy", "coverage", "saved", "irrelevant")


def rate_routing(
    chosen: Sequence[Sequence[str]], wanted: Sequence[frozenset[str]], agents: int
) -> Mapping[str, Values]:
    """Return what each routed question is worth, shape (cases,), 0 to 1; NaN where a measure does not apply.

    `accuracy`: the best agent is a wanted one, or none is asked where none is wanted. `coverage`: the share of the
    wanted agents that are asked. `saved`: the share of all agents that are not. `irrelevant`: none is asked where none
    is wanted.
    """
    values = {name: np.full(len(chosen), np.nan) for name in ROUTED}
    for case, (names, right) in enumerate(zip(chosen, wanted, strict=True)):
        values["accuracy"][case] = (bool(names) and names[0] in right) if right else not names
        values["saved"][case] = 1 - len(names) / max(1, agents)
        if right:
            values["coverage"][case] = len(right & set(names)) / len(right)
        else:
            values["irrelevant"][case] = not names
    return values


def summed(values: Mapping[str, Values]) -> Mapping[str, Figure]:
    """Return the means with their intervals."""
    return {name: mean(one) for name, one in values.items()}
