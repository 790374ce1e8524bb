"""Fitting the mix, the agents' scales and the threshold of irrelevance to labelled questions (KIMAs 3.2.2)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots.evaluation.datasets import RULE, Case, queries
from bots.evaluation.metrics import ROUTED, Values, rate_routing
from bots.evaluation.tuning import Indices, Judged, enough, held_out, judge, parts_without_model
from core.answering.context.dependencies import Parts
from core.errors import UsageError
from core.settings import AgentSettings
from core.settings.answering import MixInWeightSettings
from knowledge.ports import Embedder, Store, Vectors
from knowledge.retrieval.agent_index import make_indexes
from knowledge.retrieval.library import KNOWN_SHARE
from knowledge.retrieval.routing import AgentIndex

KINDS = tuple(MixInWeightSettings.model_fields)


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """The weight of the mix-in per agent, shape (agents,), and of its kinds, shape (agents, kinds) or (1, kinds)."""

    mix_in: Values
    kinds: Values


@dataclass(frozen=True, slots=True, eq=False)
class Cosines:
    """The best cosines of each case with each agent, not weighted by its mix; NaN where there is nothing to compare.

    `centroid` has the shape (cases, agents), `kinds` (cases, agents, kinds).
    """

    centroid: Values
    kinds: Values

    def of(self, cases: NDArray[np.int64]) -> Cosines:
        """Return those of some cases."""
        return Cosines(self.centroid[cases], self.kinds[cases])

    def mixed(self, mix: Mix) -> Values:
        """Return the scores before they are scaled, shape (cases, agents); minus infinity where nothing compares."""
        weighted = np.where(np.isnan(self.kinds) | (mix.kinds == 0), -np.inf, self.kinds * mix.kinds)
        told = weighted.max(axis=2)
        alone = np.isnan(self.centroid)
        both: Values = (1 - mix.mix_in) * np.where(alone, 0, self.centroid) + mix.mix_in * np.where(
            np.isinf(told), 0, told
        )
        scores: Values = np.where(alone, told, np.where(np.isinf(told), self.centroid, both))
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Labelled questions compared with the agents of these names; `left_out` questions are routed by words."""

    names: tuple[str, ...]
    cases: Sequence[Case]
    cosines: Cosines
    configured: Mix
    scales: Values
    left_out: int


async def compare(cases: Sequence[Case], parts: Parts, store: Store, embedder: Embedder) -> Compared:
    """Compare the rules' queries with every agent that has knowledge or a mix-in.

    Raises `StoreError`, `EmbeddingError`.
    """
    asked, _ = await queries(cases, parts_without_model(parts))
    known = [number for number, text in enumerate(asked[RULE]) if embedder.known_share(text) >= KNOWN_SHARE]
    indexes = sorted(await make_indexes(parts.settings, store, embedder), key=lambda index: index.name)
    vectors = await embedder.embed([asked[RULE][number] for number in known])
    agents = parts.settings.retrieval_agents()
    return Compared(
        tuple(index.name for index in indexes),
        [cases[number] for number in known],
        cosines_of(vectors, indexes),
        _configured([agents[index.name] for index in indexes]),
        np.array([index.scale for index in indexes], np.float64),
        len(cases) - len(known),
    )


def cosines_of(vectors: Vectors, indexes: Sequence[AgentIndex]) -> Cosines:
    """Return the cosines of queries, unit vectors of shape (cases, d), with each agent."""
    centroid = np.full((len(vectors), len(indexes)), np.nan)
    kinds = np.full((len(vectors), len(indexes), len(KINDS)), np.nan)
    for at, index in enumerate(indexes):
        if len(index.centroids):
            centroid[:, at] = (vectors @ index.centroids.T).max(axis=1)
        for kind, name in enumerate(KINDS):
            rows = [row for row, told in enumerate(index.told) if told.kind == name]
            if rows:
                plain = index.mix_in[rows] / np.array([[index.told[row].weight] for row in rows], np.float32)
                kinds[:, at, kind] = (vectors @ plain.T).max(axis=1)
    return Cosines(centroid, kinds)


def _configured(agents: Sequence[AgentSettings]) -> Mix:
    kinds = [[getattr(agent.mix_in_weights, kind) for kind in KINDS] for agent in agents]
    weights = np.array([agent.mix_in_weight for agent in agents], np.float64)
    return Mix(weights, np.array(kinds, np.float64).reshape(len(agents), len(KINDS)))


# Cosines of related and unrelated texts lie about a tenth apart: such a difference should count, and no more.
TEMPERATURE = 0.05
# What moving a weight away from where it was costs: with few questions it should not move at all.
RESTRAINT = 0.5
STEPS = (0.1, 0.03, 0.01)
LEAST, MOST = 0.5, 2.0
TENTHS = tuple(number / 10 for number in range(11))
# The mix and the scales lean on each other; after the second round neither moves any more.
ROUNDS = 2
# A wanted agent that is not asked loses the answer, one asked in vain costs milliseconds.
BETA = 2
THRESHOLDS = 200


@dataclass(frozen=True, slots=True)
class Weights:
    """A scale per agent, the score below which none is asked, and the mix that the scores come from."""

    scales: Values
    threshold: float
    mix: Mix | None = None


@dataclass(frozen=True, slots=True)
class RoutingFitted:
    """What was fitted to all questions, and the measures with what was fitted to others than those measured.

    `mix_in_weight` is one for all agents, None where none has both passages and a mix-in; `mix_in_weights` holds the
    kinds that there are, where there are several. `left_out` questions are routed by words.
    """

    scales: Mapping[str, float]
    threshold: float
    mix_in_weight: float | None
    mix_in_weights: Mapping[str, float]
    judged: Mapping[str, Judged]
    left_out: int


async def fit_routing(cases: Sequence[Case], parts: Parts, store: Store, embedder: Embedder) -> RoutingFitted:
    """Fit `agents.*.mix_in_weight`, `mix_in_weights`, `scale` and `knowledge.retrieval.routing.threshold` to the rules' queries.

    Raises `UsageError` for too few questions or agents.
    """
    compared = await compare(cases, parts, store, embedder)
    enough(compared.cases)
    if len(compared.names) < 2:
        raise UsageError("--fit needs two agents at least that have knowledge or a description")
    return await asyncio.to_thread(_fitted, compared, parts)


def _fitted(compared: Compared, parts: Parts) -> RoutingFitted:
    routing = parts.settings.knowledge.routing
    agents = len(parts.settings.retrieval_agents())
    configured = Weights(compared.scales, routing.threshold, compared.configured)
    wanted = np.array([[name in case.wanted for name in compared.names] for case in compared.cases])

    def rated(weights: Weights, which: Indices) -> Mapping[str, Values]:
        scores = compared.cosines.of(which).mixed(weights.mix or compared.configured)
        chosen = [[compared.names[at] for at in row] for row in asked_agents(scores, weights, routing.agents)]
        return rate_routing(chosen, [compared.cases[number].wanted for number in which], agents)

    def found(which: Indices) -> Weights:
        return fit_all(compared.cosines.of(which), wanted[which], compared.configured, routing.agents)

    everything = np.arange(len(compared.cases))
    before, after = rated(configured, everything), held_out(len(compared.cases), found, rated)
    judged = {name: judge(before[name], after[name]) for name in ROUTED}
    whole = found(everything)
    scales = dict(zip(compared.names, (round(float(scale), 2) for scale in whole.scales), strict=True))
    mixing, kinds = _moved(compared.cosines)
    weight = round(float((whole.mix or compared.configured).mix_in[0]), 2) if mixing else None
    weights = {KINDS[at]: round(float((whole.mix or compared.configured).kinds[0, at]), 2) for at in kinds}
    return RoutingFitted(scales, whole.threshold, weight, weights, judged, compared.left_out)


def fit_all(cosines: Cosines, wanted: np.ndarray, configured: Mix, limit: int) -> Weights:
    """Return the mix, the scales and the threshold that fit labelled questions best.

    `wanted` tells which agents should be asked, shape (cases, agents). All agents get the same mix: to tell their
    weights apart would take many questions of each.
    """
    mix, scales = configured, np.ones(len(configured.mix_in))
    if any(_moved(cosines)):
        for _ in range(ROUNDS):
            mix = _fit_mix(cosines, wanted, scales, configured)
            scales = _fit_scales(cosines.mixed(mix), wanted)
    found = fit_weights(cosines.mixed(mix), wanted, limit)
    return Weights(found.scales, found.threshold, mix)


def fit_weights(scores: Values, wanted: np.ndarray, limit: int) -> Weights:
    """Return the scales and the threshold that fit labelled questions best.

    `scores` are unscaled, shape (cases, agents); `wanted` tells which agents should be asked, of the same shape.
    """
    scales = _fit_scales(scores, wanted)
    ranked = np.sort((scores * scales).max(axis=1))
    between = np.quantile(ranked, np.linspace(0, 1, THRESHOLDS))
    # Rounded down, so that nothing just above it falls below. The first excludes nobody.
    steps = [-1.0, *np.unique(np.floor(between * 1000) / 1000)]
    worth = [_worth(scores, wanted, Weights(scales, float(step)), limit) for step in steps]
    return Weights(scales, float(steps[int(np.argmax(np.round(worth, 6)))]))


def asked_agents(scores: Values, weights: Weights, limit: int) -> Sequence[Sequence[int]]:
    """Return the agents (columns) that every case goes to, best first. `scores` are mixed and not yet scaled."""
    scaled = scores * weights.scales
    order = np.argsort(-scaled, axis=1, kind="stable")[:, :limit]
    return [[int(at) for at in row if scaled[case, at] >= weights.threshold] for case, row in enumerate(order)]


def _moved(cosines: Cosines) -> tuple[bool, Sequence[int]]:
    """Tell whether any agent has both sides to weigh, and which kinds can be weighed against each other."""
    told = np.asarray(~np.isnan(cosines.kinds).all(axis=0))
    passages = np.asarray(~np.isnan(cosines.centroid).all(axis=0))
    kinds = np.flatnonzero(told.any(axis=0))
    return bool((told.any(axis=1) & passages).any()), [int(kind) for kind in kinds] if len(kinds) > 1 else []


def _fit_mix(cosines: Cosines, wanted: np.ndarray, scales: Values, configured: Mix) -> Mix:
    """Return one mix for all agents under which wanted agents stand out most, by moving one weight at a time."""
    related = np.flatnonzero(wanted.any(axis=1))
    mixing, kinds = _moved(cosines)
    before = np.array([configured.mix_in.mean(), *configured.kinds.mean(axis=0)])
    if not len(related):
        return configured
    cosines, wanted = cosines.of(related), wanted[related]

    def value(weights: Values) -> float:
        gone = RESTRAINT * float((weights - before) @ (weights - before)) / math.sqrt(len(related))
        return _standing_out(cosines.mixed(_common(weights, len(scales))), wanted, scales) - gone

    best = before
    for _ in range(ROUNDS):
        for at in [*([0] if mixing else []), *(kind + 1 for kind in kinds)]:
            # A kind without any weight would take the only thing that some agents are known by.
            tried = [_with(best, at, tenth) for tenth in TENTHS if tenth or at == 0]
            best = max([best, *tried], key=lambda weights: round(value(weights), 9))
    return _common(best, len(scales))


def _common(weights: Values, agents: int) -> Mix:
    return Mix(np.full(agents, weights[0]), weights[None, 1:])


def _with(values: Values, at: int, value: float) -> Values:
    changed = values.copy()
    changed[at] = value
    return changed


def _fit_scales(scores: Values, wanted: np.ndarray) -> Values:
    """Return the scales under which wanted agents stand out most, by moving one at a time; about 1 on average."""
    related = wanted.any(axis=1)
    scores, wanted = scores[related], wanted[related]
    scales = np.ones(scores.shape[1])
    if not len(scores):
        return scales
    best = _standing_out(scores, wanted, scales)
    for step in STEPS:
        moved = True
        while moved:
            moved = False
            for agent in range(len(scales)):
                for factor in (1 + step, 1 / (1 + step)):
                    tried = scales.copy()
                    tried[agent] = np.clip(tried[agent] * factor, LEAST, MOST)
                    value = _standing_out(scores, wanted, tried)
                    if value > best + 1e-9:
                        scales, best, moved = tried, value, True
    return np.round(scales, 2)


def _standing_out(scores: Values, wanted: np.ndarray, scales: Values) -> float:
    """Return the mean log share of the wanted agents in a soft choice, less what the scales' distance from 1 costs."""
    raised = scores * scales / TEMPERATURE
    raised = np.exp(raised - raised.max(axis=1, keepdims=True))
    share: Values = (raised * wanted).sum(axis=1) / raised.sum(axis=1)
    logarithms: Values = np.log(scales)
    gone = RESTRAINT * float(logarithms @ logarithms) / math.sqrt(len(scores))
    gained: Values = np.log(np.maximum(share, 1e-9))
    return float(gained.mean()) - gone


def _worth(scores: Values, wanted: np.ndarray, weights: Weights, limit: int) -> float:
    """Return the mean F-measure of the agents asked, with recall counting more; 1 where none is wanted or asked."""
    values = []
    for case, chosen in enumerate(asked_agents(scores, weights, limit)):
        right = int(wanted[case, chosen].sum()) if chosen else 0
        sizes = BETA**2 * int(wanted[case].sum()) + len(chosen)
        values.append((1 + BETA**2) * right / sizes if sizes else 1.0)
    return float(np.mean(values))
