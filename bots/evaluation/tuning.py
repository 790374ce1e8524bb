"""Fitting weights to labelled data, judged on questions that they were not fitted to (cross-validation)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bots.evaluation.datasets import (
    PASSAGES_PER_AGENT,
    RULE,
    QueryCase,
    make_queries,
    run_concurrently,
    to_document_ids,
)
from bots.evaluation.metrics import MAIN_METRIC, MetricValues, compute_metrics, mean_with_interval
from core.answering.context.dependencies import AnswerDependencies
from core.errors import UsageError
from core.grounding.fusion import apply_kind_weights, fuse
from core.messaging.gate.scores import Estimate
from core.settings import SearchSettings
from core.text.tokens import query_tokens
from core.types import Passage
from knowledge.ports import Embedder, Store
from knowledge.retrieval.library import MIN_VOCABULARY_COVERAGE

Indices = NDArray[np.int64]
T = TypeVar("T")

FOLDS = 5
MIN_CASES = 20
ALPHAS = tuple(round(number / 20, 2) for number in range(21))
_SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class TuningComparison:
    """A measure as configured and as fitted, both over questions that the fit had not seen, and what they differ by."""

    configured: Estimate
    tuned: Estimate
    difference: Estimate

    @property
    def is_worse(self) -> bool:
        """Tell whether the fitted values do worse than the configured ones, on average."""
        return (self.difference.value or 0.0) < 0


@dataclass(frozen=True, slots=True)
class AlphaTuning:
    """The fitted weight of the dense score, and nDCG@10 with it."""

    alpha: float
    comparison: TuningComparison


async def tune_alpha(
    cases: Sequence[QueryCase], deps: AnswerDependencies, store: Store, embedder: Embedder
) -> AlphaTuning:
    """Fit `knowledge.search.alpha` to nDCG@10 of the rule's queries. Raises `UsageError` for too few questions."""
    check_enough_cases(cases)
    queries_by_variant, _ = await make_queries(cases, without_model(deps))
    search = deps.settings.knowledge.search
    candidates_by_query: dict[str, Sequence[Passage]] = {}

    async def fetch_candidates(query: str) -> str:
        candidates_by_query[query] = await _search_candidates(query, deps, store, embedder)
        return query

    await run_concurrently(fetch_candidates, sorted(set(queries_by_variant[RULE])))
    values_by_alpha = await asyncio.to_thread(
        _compute_alpha_values, [candidates_by_query[query] for query in queries_by_variant[RULE]], cases, search
    )
    # Before all others stands the configured one: of equals it is kept.
    alphas = sorted(values_by_alpha, key=lambda alpha: abs(alpha - search.alpha))

    def find_best_alpha(case_indices: Indices) -> float:
        return max(alphas, key=lambda alpha: round(float(values_by_alpha[alpha][case_indices].mean()), 6))

    held_out_values = cross_validate(
        len(cases), find_best_alpha, lambda alpha, case_indices: {MAIN_METRIC: values_by_alpha[alpha][case_indices]}
    )
    configured_values = values_by_alpha[search.alpha]
    return AlphaTuning(
        find_best_alpha(np.arange(len(cases))), compare_values(configured_values, held_out_values[MAIN_METRIC])
    )


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


def split_folds(count: int, folds: int = FOLDS) -> Sequence[Indices]:
    """Return the cases in folds of about the same size, drawn the same way every time."""
    return np.array_split(np.random.default_rng(_SEED).permutation(count), folds)


def check_enough_cases(cases: Sequence[QueryCase]) -> None:
    """Raise `UsageError` for fewer questions than anything can be fitted to."""
    if len(cases) < MIN_CASES:
        raise UsageError(f"--fit needs {MIN_CASES} questions at least; there are {len(cases)}. Label more of them.")


def without_model(deps: AnswerDependencies) -> AnswerDependencies:
    """Return the dependencies without a model, for what does not depend on one."""
    return replace(deps, model=None)


async def _search_candidates(
    query: str, deps: AnswerDependencies, store: Store, embedder: Embedder
) -> Sequence[Passage]:
    """Return all candidates of the agents that a query goes to, with both true scores."""
    agents = deps.settings.retrieval_agents()
    sources = {source for agent in await deps.library.route(query) for source in agents[agent.name].sources}
    if not sources:
        return ()
    is_in_vocabulary = embedder.vocabulary_coverage(query) >= MIN_VOCABULARY_COVERAGE
    vector = (await embedder.embed([query]))[0] if is_in_vocabulary else None
    return await store.search(query_tokens(query), vector, sources, deps.settings.knowledge.search.candidates)


def _compute_alpha_values(
    candidates: Sequence[Sequence[Passage]], cases: Sequence[QueryCase], search: SearchSettings
) -> Mapping[float, MetricValues]:
    expected_ids = [case.expected_ids for case in cases]
    values_by_alpha = {}
    for alpha in {*ALPHAS, search.alpha}:
        rankings = [
            apply_kind_weights(fuse(passages, alpha, PASSAGES_PER_AGENT), search.kind_weights)
            for passages in candidates
        ]
        values_by_alpha[alpha] = compute_metrics(
            [to_document_ids(ranking, case_ids) for ranking, case_ids in zip(rankings, expected_ids, strict=True)],
            expected_ids,
        )[MAIN_METRIC]
    return values_by_alpha
