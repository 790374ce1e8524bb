"""Fitting the mix, the agents' scales and the threshold of irrelevance to labelled questions (KIMAs 3.3.2)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bots.evaluation import metrics
from bots.evaluation.datasets import RULE, QueryCase, make_queries
from core.answering.context import AnswerDependencies
from core.errors import UsageError
from core.settings import AgentSettings
from core.settings.answering import MixInWeightSettings
from knowledge.ports import Embedder, Store, Vectors
from knowledge.retrieval.agent_index import make_indexes
from knowledge.retrieval.query_embedder import MIN_VOCABULARY_COVERAGE
from knowledge.retrieval.routing import AgentIndex

MIX_IN_KINDS = tuple(MixInWeightSettings.model_fields)
# Cosines of related and unrelated texts lie about a tenth apart: such a difference should count, and no more.
TEMPERATURE = 0.05
# The cost of moving a weight away from its start: with few questions it should not move at all.
REGULARIZATION = 0.5
SCALE_STEPS = (0.1, 0.03, 0.01)
MIN_SCALE = 0.5
MAX_SCALE = 2.0
WEIGHT_GRID = tuple(number / 10 for number in range(11))
# The mix and the scales lean on each other; after the second round neither moves any more.
ROUNDS = 2
# A wanted agent that is not asked loses the answer, one asked in vain costs milliseconds.
BETA = 2
THRESHOLD_STEPS = 200


@dataclass(frozen=True, slots=True, eq=False)
class MixWeights:
    """The weight of the mix-in per agent, shape (agents,), and of its kinds, shape (agents, kinds) or (1, kinds)."""

    mix_in: metrics.MetricValues
    kinds: metrics.MetricValues


@dataclass(frozen=True, slots=True, eq=False)
class Cosines:
    """The best cosines of each case with each agent, not weighted by its mix; NaN where there is nothing to compare.

    `centroid` has the shape (cases, agents), `kinds` (cases, agents, kinds).
    """

    centroid: metrics.MetricValues
    kinds: metrics.MetricValues

    def select(self, cases: NDArray[np.int64]) -> Cosines:
        """Return those of some cases."""
        return Cosines(self.centroid[cases], self.kinds[cases])

    def mix_scores(self, weights: MixWeights) -> metrics.MetricValues:
        """Return the scores before they are scaled, shape (cases, agents); minus infinity where nothing compares."""
        weighted_cosines = np.where(np.isnan(self.kinds) | (weights.kinds == 0), -np.inf, self.kinds * weights.kinds)
        mix_in_cosines = weighted_cosines.max(axis=2)
        has_no_centroids = np.isnan(self.centroid)
        mixed_scores: metrics.MetricValues = (1 - weights.mix_in) * np.where(
            has_no_centroids, 0, self.centroid
        ) + weights.mix_in * np.where(np.isinf(mix_in_cosines), 0, mix_in_cosines)
        scores: metrics.MetricValues = np.where(
            has_no_centroids, mix_in_cosines, np.where(np.isinf(mix_in_cosines), self.centroid, mixed_scores)
        )
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class AgentComparison:
    """Labelled questions compared with the agents of these names; `skipped` questions are routed by words."""

    agent_names: tuple[str, ...]
    cases: Sequence[QueryCase]
    cosines: Cosines
    configured_weights: MixWeights
    scales: metrics.MetricValues
    skipped: int


async def compare_agents(
    cases: Sequence[QueryCase], deps: AnswerDependencies, store: Store, embedder: Embedder
) -> AgentComparison:
    """Compare the rules' queries with every agent that has knowledge or a mix-in.

    Raises `StoreError`, `EmbeddingError`.
    """
    queries_by_variant, _ = await make_queries(cases, replace(deps, model=None))
    case_numbers = [
        number
        for number, text in enumerate(queries_by_variant[RULE])
        if embedder.vocabulary_coverage(text) >= MIN_VOCABULARY_COVERAGE
    ]
    indexes = sorted(await make_indexes(deps.settings, store, embedder), key=lambda index: index.name)
    vectors = await embedder.embed([queries_by_variant[RULE][number] for number in case_numbers], "query")
    agents = deps.settings.retrieval_agents()
    return AgentComparison(
        tuple(index.name for index in indexes),
        [cases[number] for number in case_numbers],
        compute_cosines(vectors, indexes),
        _configured_weights([agents[index.name] for index in indexes]),
        np.array([index.scale for index in indexes], np.float64),
        len(cases) - len(case_numbers),
    )


def compute_cosines(vectors: Vectors, indexes: Sequence[AgentIndex]) -> Cosines:
    """Return the cosines of queries, unit vectors of shape (cases, d), with each agent."""
    centroid_cosines = np.full((len(vectors), len(indexes)), np.nan)
    kind_cosines = np.full((len(vectors), len(indexes), len(MIX_IN_KINDS)), np.nan)
    for agent_number, index in enumerate(indexes):
        if len(index.centroids):
            centroid_cosines[:, agent_number] = (vectors @ index.centroids.T).max(axis=1)
        for kind_number, kind_name in enumerate(MIX_IN_KINDS):
            rows = [row for row, mix_in_text in enumerate(index.mix_in_texts) if mix_in_text.kind == kind_name]
            if rows:
                unweighted_vectors = index.mix_in_vectors[rows] / np.array(
                    [[index.mix_in_texts[row].weight] for row in rows], np.float32
                )
                kind_cosines[:, agent_number, kind_number] = (vectors @ unweighted_vectors.T).max(axis=1)
    return Cosines(centroid_cosines, kind_cosines)


def _configured_weights(agents: Sequence[AgentSettings]) -> MixWeights:
    kind_weights = [[getattr(agent.mix_in_weights, kind) for kind in MIX_IN_KINDS] for agent in agents]
    mix_in_weights = np.array([agent.mix_in_weight for agent in agents], np.float64)
    return MixWeights(mix_in_weights, np.array(kind_weights, np.float64).reshape(len(agents), len(MIX_IN_KINDS)))


@dataclass(frozen=True, slots=True)
class RoutingWeights:
    """A scale per agent, the score below which none is asked, and the mix that the scores come from."""

    scales: metrics.MetricValues
    threshold: float
    mix: MixWeights | None = None


@dataclass(frozen=True, slots=True)
class RoutingTuning:
    """What was fitted to all questions, and the measures with what was fitted to others than those measured.

    `mix_in_weight` is one for all agents, None where none has both passages and a mix-in; `mix_in_weights` holds the
    kinds that there are, where there are several. `skipped` questions are routed by words.
    """

    scales: Mapping[str, float]
    threshold: float
    mix_in_weight: float | None
    mix_in_weights: Mapping[str, float]
    comparisons: Mapping[str, metrics.TuningComparison]
    skipped: int


async def tune_routing(
    cases: Sequence[QueryCase], deps: AnswerDependencies, store: Store, embedder: Embedder
) -> RoutingTuning:
    """Fit `agents.*.mix_in_weight`, `mix_in_weights`, `scale` and `knowledge.routing.threshold` to the rules' queries.

    Raises `UsageError` for too few questions or agents.
    """
    comparison = await compare_agents(cases, deps, store, embedder)
    metrics.check_enough_cases(comparison.cases)
    if len(comparison.agent_names) < 2:
        raise UsageError("--fit needs two agents at least that have knowledge or a description")
    return await asyncio.to_thread(_tune, comparison, deps)


def _tune(comparison: AgentComparison, deps: AnswerDependencies) -> RoutingTuning:
    routing = deps.settings.knowledge.routing
    agent_count = len(deps.settings.retrieval_agents())
    configured_weights = RoutingWeights(comparison.scales, routing.threshold, comparison.configured_weights)
    expected = np.array([[name in case.expected_ids for name in comparison.agent_names] for case in comparison.cases])

    def evaluate(weights: RoutingWeights, case_indices: metrics.Indices) -> Mapping[str, metrics.MetricValues]:
        scores = comparison.cosines.select(case_indices).mix_scores(weights.mix or comparison.configured_weights)
        agent_names = [
            [comparison.agent_names[column] for column in row]
            for row in select_agent_columns(scores, weights, routing.agents)
        ]
        return metrics.compute_routing_metrics(
            agent_names, [comparison.cases[number].expected_ids for number in case_indices], agent_count
        )

    def tune(case_indices: metrics.Indices) -> RoutingWeights:
        return tune_all(
            comparison.cosines.select(case_indices),
            expected[case_indices],
            comparison.configured_weights,
            routing.agents,
        )

    all_cases = np.arange(len(comparison.cases))
    configured_values = evaluate(configured_weights, all_cases)
    tuned_values = metrics.cross_validate(len(comparison.cases), tune, evaluate)
    comparisons = {
        name: metrics.compare_values(configured_values[name], tuned_values[name]) for name in metrics.ROUTING_METRICS
    }
    return _make_result(comparison, tune(all_cases), comparisons)


def _make_result(
    comparison: AgentComparison, weights: RoutingWeights, comparisons: Mapping[str, metrics.TuningComparison]
) -> RoutingTuning:
    mix = weights.mix or comparison.configured_weights
    is_mix_tunable, kind_numbers = _find_tunable(comparison.cosines)
    return RoutingTuning(
        {name: round(float(scale), 2) for name, scale in zip(comparison.agent_names, weights.scales, strict=True)},
        weights.threshold,
        round(float(mix.mix_in[0]), 2) if is_mix_tunable else None,
        {MIX_IN_KINDS[number]: round(float(mix.kinds[0, number]), 2) for number in kind_numbers},
        comparisons,
        comparison.skipped,
    )


def tune_all(cosines: Cosines, expected: np.ndarray, configured_weights: MixWeights, limit: int) -> RoutingWeights:
    """Return the mix, the scales and the threshold that fit labelled questions best.

    `expected` marks the agents that should be asked, shape (cases, agents). All agents get the same mix: to tell their
    weights apart would take many questions of each.
    """
    mix = configured_weights
    scales = np.ones(len(configured_weights.mix_in))
    if any(_find_tunable(cosines)):
        for _ in range(ROUNDS):
            mix = _tune_mix(cosines, expected, scales, configured_weights)
            scales = _tune_scales(cosines.mix_scores(mix), expected)
    tuned_weights = tune_scales_and_threshold(cosines.mix_scores(mix), expected, limit)
    return RoutingWeights(tuned_weights.scales, tuned_weights.threshold, mix)


def tune_scales_and_threshold(scores: metrics.MetricValues, expected: np.ndarray, limit: int) -> RoutingWeights:
    """Return the scales and the threshold that fit labelled questions best.

    `scores` are unscaled, shape (cases, agents); `expected` marks the agents that should be asked, of the same shape.
    """
    scales = _tune_scales(scores, expected)
    best_scores = np.sort((scores * scales).max(axis=1))
    quantiles = np.quantile(best_scores, np.linspace(0, 1, THRESHOLD_STEPS))
    # Rounded down, so that nothing just above it falls below. The first excludes nobody.
    thresholds = [-1.0, *np.unique(np.floor(quantiles * 1000) / 1000)]
    f_scores = [
        _mean_f_score(scores, expected, RoutingWeights(scales, float(threshold)), limit) for threshold in thresholds
    ]
    return RoutingWeights(scales, float(thresholds[int(np.argmax(np.round(f_scores, 6)))]))


def select_agent_columns(scores: metrics.MetricValues, weights: RoutingWeights, limit: int) -> Sequence[Sequence[int]]:
    """Return the agents (columns) that every case goes to, best first. `scores` are mixed and not yet scaled."""
    scaled_scores = scores * weights.scales
    order = np.argsort(-scaled_scores, axis=1, kind="stable")[:, :limit]
    return [
        [int(column) for column in row if scaled_scores[case, column] >= weights.threshold]
        for case, row in enumerate(order)
    ]


def _find_tunable(cosines: Cosines) -> tuple[bool, Sequence[int]]:
    """Return whether any agent has both sides to weigh, and which kinds can be weighed against each other."""
    has_mix_in = np.asarray(~np.isnan(cosines.kinds).all(axis=0))
    has_passages = np.asarray(~np.isnan(cosines.centroid).all(axis=0))
    kind_numbers = np.flatnonzero(has_mix_in.any(axis=0))
    return bool((has_mix_in.any(axis=1) & has_passages).any()), [int(kind) for kind in kind_numbers] if len(
        kind_numbers
    ) > 1 else []


def _tune_mix(
    cosines: Cosines, expected: np.ndarray, scales: metrics.MetricValues, configured_weights: MixWeights
) -> MixWeights:
    """Return one mix for all agents under which wanted agents stand out most, by moving one weight at a time."""
    positive_cases = np.flatnonzero(expected.any(axis=1))
    is_mix_tunable, kind_numbers = _find_tunable(cosines)
    initial_weights = np.array([configured_weights.mix_in.mean(), *configured_weights.kinds.mean(axis=0)])
    if not len(positive_cases):
        return configured_weights
    cosines = cosines.select(positive_cases)
    expected = expected[positive_cases]

    def objective(weights: metrics.MetricValues) -> float:
        penalty = (
            REGULARIZATION
            * float((weights - initial_weights) @ (weights - initial_weights))
            / math.sqrt(len(positive_cases))
        )
        return _softmax_objective(cosines.mix_scores(_to_shared_mix(weights, len(scales))), expected, scales) - penalty

    best_weights = initial_weights
    for _ in range(ROUNDS):
        for position in [*([0] if is_mix_tunable else []), *(kind + 1 for kind in kind_numbers)]:
            # A kind without any weight would take the only thing that some agents are known by.
            candidates = [
                _replace_at(best_weights, position, grid_weight)
                for grid_weight in WEIGHT_GRID
                if grid_weight or position == 0
            ]
            best_weights = max([best_weights, *candidates], key=lambda weights: round(objective(weights), 9))
    return _to_shared_mix(best_weights, len(scales))


def _to_shared_mix(weights: metrics.MetricValues, agent_count: int) -> MixWeights:
    return MixWeights(np.full(agent_count, weights[0]), weights[None, 1:])


def _replace_at(values: metrics.MetricValues, position: int, value: float) -> metrics.MetricValues:
    result = values.copy()
    result[position] = value
    return result


def _tune_scales(scores: metrics.MetricValues, expected: np.ndarray) -> metrics.MetricValues:
    """Return the scales under which wanted agents stand out most, by moving one at a time; about 1 on average."""
    positive_cases = expected.any(axis=1)
    scores = scores[positive_cases]
    expected = expected[positive_cases]
    scales = np.ones(scores.shape[1])
    if not len(scores):
        return scales
    best_value = _softmax_objective(scores, expected, scales)
    for step in SCALE_STEPS:
        is_improving = True
        while is_improving:
            is_improving = False
            for agent in range(len(scales)):
                for factor in (1 + step, 1 / (1 + step)):
                    trial_scales = scales.copy()
                    trial_scales[agent] = np.clip(trial_scales[agent] * factor, MIN_SCALE, MAX_SCALE)
                    trial_value = _softmax_objective(scores, expected, trial_scales)
                    if trial_value > best_value + 1e-9:
                        scales = trial_scales
                        best_value = trial_value
                        is_improving = True
    return np.round(scales, 2)


def _softmax_objective(scores: metrics.MetricValues, expected: np.ndarray, scales: metrics.MetricValues) -> float:
    """Return the mean log share of the wanted agents in a soft choice, less what the scales' distance from 1 costs."""
    exponentials = scores * scales / TEMPERATURE
    exponentials = np.exp(exponentials - exponentials.max(axis=1, keepdims=True))
    shares: metrics.MetricValues = (exponentials * expected).sum(axis=1) / exponentials.sum(axis=1)
    logarithms: metrics.MetricValues = np.log(scales)
    penalty = REGULARIZATION * float(logarithms @ logarithms) / math.sqrt(len(scores))
    log_shares: metrics.MetricValues = np.log(np.maximum(shares, 1e-9))
    return float(log_shares.mean()) - penalty


def _mean_f_score(scores: metrics.MetricValues, expected: np.ndarray, weights: RoutingWeights, limit: int) -> float:
    """Return the mean F-measure of the agents asked, with recall counting more; 1 where none is wanted or asked."""
    f_scores = []
    for case, columns in enumerate(select_agent_columns(scores, weights, limit)):
        hits = int(expected[case, columns].sum()) if columns else 0
        denominator = BETA**2 * int(expected[case].sum()) + len(columns)
        f_scores.append((1 + BETA**2) * hits / denominator if denominator else 1.0)
    return float(np.mean(f_scores))
