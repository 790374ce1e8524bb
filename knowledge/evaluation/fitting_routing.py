"""Fitting the agents' scales and the threshold of irrelevance to labelled questions (KIMAs 3.2.2)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.errors import UsageError
from core.parts import Parts
from knowledge.evaluation.asking import RULE, Case, queries
from knowledge.evaluation.fitting import Indices, Judged, enough, held_out, judge, parts_without_model
from knowledge.evaluation.measures import Values
from knowledge.evaluation.routing import ROUTED, rate_routing
from knowledge.explaining import make_indexes
from knowledge.library import KNOWN_SHARE
from knowledge.ports import Embedder, Store
from knowledge.routing import AgentIndex, fit

# Cosines of related and unrelated texts lie about a tenth apart: such a difference should count, and no more.
TEMPERATURE = 0.05
# What moving a scale away from 1 costs: with few questions it should not move at all.
RESTRAINT = 0.5
STEPS = (0.1, 0.03, 0.01)
LEAST, MOST = 0.5, 2.0
# A wanted agent that is not asked loses the answer, one asked in vain costs milliseconds.
BETA = 2
THRESHOLDS = 200


@dataclass(frozen=True, slots=True)
class Weights:
    """A scale per agent, and the score below which none is asked."""

    scales: Values
    threshold: float


@dataclass(frozen=True, slots=True)
class RoutingFitted:
    """What was fitted to `cases` questions, and the measures with it. `left_out` are routed by words."""

    scales: Mapping[str, float]
    threshold: float
    judged: Mapping[str, Judged]
    left_out: int


async def fit_routing(cases: Sequence[Case], parts: Parts, store: Store, embedder: Embedder) -> RoutingFitted:
    """Fit `agents.*.scale` and `knowledge.routing.threshold` to the rule's queries.

    Raises `UsageError` for too few questions or agents.
    """
    asked, _ = await queries(cases, parts_without_model(parts))
    known = [number for number, text in enumerate(asked[RULE]) if embedder.known_share(text) >= KNOWN_SHARE]
    kept = [cases[number] for number in known]
    enough(kept)
    indexes = await make_indexes(parts.settings, store, embedder)
    if len(indexes) < 2:
        raise UsageError("--fit needs two agents at least that have knowledge or a description")
    vectors = await embedder.embed([asked[RULE][number] for number in known])
    plain = [replace(one, scale=1.0) for one in indexes]
    scores = np.array([[fit(vector, one).score for one in plain] for vector in vectors])
    return await asyncio.to_thread(_fitted, scores, kept, indexes, parts, len(cases) - len(kept))


def _fitted(
    scores: Values, cases: Sequence[Case], indexes: Sequence[AgentIndex], parts: Parts, left_out: int
) -> RoutingFitted:
    names = [one.name for one in indexes]
    routing = parts.settings.knowledge.routing
    wanted = np.array([[name in case.wanted for name in names] for case in cases])
    agents = len(parts.settings.retrieval_agents())
    configured = Weights(np.array([one.scale for one in indexes]), routing.threshold)

    def rated(weights: Weights, which: Indices) -> Mapping[str, Values]:
        chosen = [[names[at] for at in row] for row in asked_agents(scores[which], weights, routing.agents)]
        return rate_routing(chosen, [cases[number].wanted for number in which], agents)

    def found(which: Indices) -> Weights:
        return fit_weights(scores[which], wanted[which], routing.agents)

    everything = np.arange(len(cases))
    before, after = rated(configured, everything), held_out(len(cases), found, rated)
    judged = {name: judge(before[name], after[name]) for name in ROUTED}
    whole = found(everything)
    scales = dict(zip(names, (round(float(scale), 2) for scale in whole.scales), strict=True))
    return RoutingFitted(scales, whole.threshold, judged, left_out)


def fit_weights(scores: Values, wanted: np.ndarray, limit: int) -> Weights:
    """Return the weights that fit labelled questions best.

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
    """Return the agents (columns) that every case goes to, best first."""
    scaled = scores * weights.scales
    order = np.argsort(-scaled, axis=1, kind="stable")[:, :limit]
    return [[int(at) for at in row if scaled[case, at] >= weights.threshold] for case, row in enumerate(order)]


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
