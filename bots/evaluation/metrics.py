"""Metrics of rankings, means with bootstrap intervals, and cross-validation. The only module that uses ir_measures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bots.evaluation.datasets import QueryCase
from core.errors import UsageError
from core.install_hints import format_install_hint
from core.messaging.gate.classification_metrics import (
    _SEED,
    CONFIDENCE_LEVEL,
    FEWER_RESAMPLES,
    MANY_CASES,
    RESAMPLES,
    Estimate,
)

T = TypeVar("T")
MetricValues = NDArray[np.float64]

# Recall is the share of the relevant documents among the first k, a hit any of them. MRR looks at all that is found.
METRICS = ("recall@5", "recall@10", "recall@20", "nDCG@10", "MRR", "hit@1", "hit@3", "hit@10")
MAIN_METRIC = "nDCG@10"
# The values of k in charts.
CUTOFFS = (1, 3, 5, 10, 20)
PLOTTED_METRICS = ("recall", "nDCG")
_BATCH_SIZE = 50
ROUTING_METRICS = ("accuracy", "coverage", "saved", "irrelevant")
Indices = NDArray[np.int64]
FOLDS = 5
MIN_CASES = 20


def require_package(name: str) -> None:
    """Raise `UsageError` when a package of the extra `eval` is missing."""
    if find_spec(name) is None:
        raise UsageError(f"kimas eval needs the package {name}: {format_install_hint('eval')}")


def compute_metrics(
    rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], names: Sequence[str] = METRICS
) -> Mapping[str, MetricValues]:
    """Return each of these measures for each case, shape (cases,), 0 to 1. Blocking.

    `rankings` are ids, the best first, each once; of the `relevant` ones there is at least one in every case.
    """
    require_package("ir_measures")
    import ir_measures

    families = {"recall": ir_measures.R, "hit": ir_measures.Success, "nDCG": ir_measures.nDCG, "MRR": ir_measures.RR}
    names_by_measure = {}
    for name in names:
        family, _, cutoff = name.partition("@")
        names_by_measure[families[family] @ int(cutoff) if cutoff else families[family]] = name
    qrels = {str(case): dict.fromkeys(ids, 1) for case, ids in enumerate(relevant)}
    # Distinct scores keep the order: equal ones would be ordered by id.
    runs = {
        str(case): {document_id: float(len(ranking) - rank) for rank, document_id in enumerate(ranking)}
        for case, ranking in enumerate(rankings)
    }
    values = {name: np.zeros(len(rankings)) for name in names}
    for metric in ir_measures.iter_calc(names_by_measure, qrels, runs):
        values[names_by_measure[metric.measure]][int(metric.query_id)] = metric.value
    return values


def mean_with_interval(values: MetricValues) -> Estimate:
    """Return the mean of what cases are worth, its interval by resampling them; the same at every run. Blocking.

    Of no cases there is no figure. Cases without a value (NaN) do not count.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return Estimate(None, None, None)
    resamples = RESAMPLES if len(values) <= MANY_CASES else FEWER_RESAMPLES
    generator = np.random.default_rng(_SEED)
    means = np.concatenate(
        [
            values[generator.integers(len(values), size=(_BATCH_SIZE, len(values)))].mean(axis=1)
            for _ in range(resamples // _BATCH_SIZE)
        ]
    )
    low, high = np.quantile(means, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    return Estimate(float(values.mean()), float(low), float(high))


def compute_routing_metrics(
    selected_agents: Sequence[Sequence[str]], expected_agents: Sequence[frozenset[str]], agents: int
) -> Mapping[str, MetricValues]:
    """Return what each routed question is worth, shape (cases,), 0 to 1; NaN where a measure does not apply.

    `accuracy`: the best agent is a wanted one, or none is asked where none is wanted. `coverage`: the share of the
    wanted agents that are asked. `saved`: the share of all agents that are not. `irrelevant`: none is asked where none
    is wanted.
    """
    values = {name: np.full(len(selected_agents), np.nan) for name in ROUTING_METRICS}
    for case, (agent_names, expected_names) in enumerate(zip(selected_agents, expected_agents, strict=True)):
        values["accuracy"][case] = (
            (bool(agent_names) and agent_names[0] in expected_names) if expected_names else not agent_names
        )
        values["saved"][case] = 1 - len(agent_names) / max(1, agents)
        if expected_names:
            values["coverage"][case] = len(expected_names & set(agent_names)) / len(expected_names)
        else:
            values["irrelevant"][case] = not agent_names
    return values


def summarize(values: Mapping[str, MetricValues]) -> Mapping[str, Estimate]:
    """Return the means with their intervals."""
    return {name: mean_with_interval(metric_values) for name, metric_values in values.items()}


@dataclass(frozen=True, slots=True)
class TuningComparison:
    """A measure as configured and as fitted, both over questions that the fit had not seen, and what they differ by."""

    configured: Estimate
    tuned: Estimate
    difference: Estimate

    @property
    def is_worse(self) -> bool:
        """Return whether the fitted values do worse than the configured ones, on average."""
        return (self.difference.value or 0.0) < 0


def compare_values(configured: MetricValues, tuned: MetricValues) -> TuningComparison:
    """Compare what the same cases are worth in both ways."""
    return TuningComparison(
        mean_with_interval(configured), mean_with_interval(tuned), mean_with_interval(tuned - configured)
    )


def cross_validate(
    count: int, tune: Callable[[Indices], T], evaluate: Callable[[T, Indices], Mapping[str, MetricValues]]
) -> Mapping[str, MetricValues]:
    """Return what every case is worth with what was fitted to the other folds, by measure, shape (count,)."""
    folds = [(fold, evaluate(tune(np.setdiff1d(np.arange(count), fold)), fold)) for fold in split_folds(count)]
    values = {name: np.full(count, np.nan) for name in folds[0][1]}
    for fold, fold_values in folds:
        for name, metric_values in fold_values.items():
            values[name][fold] = metric_values
    return values


def split_folds(count: int) -> Sequence[Indices]:
    """Return the cases in folds of about the same size, drawn the same way every time."""
    return np.array_split(np.random.default_rng(_SEED).permutation(count), FOLDS)


def check_enough_cases(cases: Sequence[QueryCase]) -> None:
    """Raise `UsageError` for fewer questions than anything can be fitted to."""
    if len(cases) < MIN_CASES:
        raise UsageError(f"--fit needs {MIN_CASES} questions at least; there are {len(cases)}. Label more of them.")
