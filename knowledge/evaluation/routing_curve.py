"""What a threshold of irrelevance costs and brings: coverage of the wanted agents against searches saved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.evaluation.scores import Figure
from core.parts import Parts
from knowledge.evaluation.asking import Case
from knowledge.evaluation.fitting_routing import Weights, asked_agents
from knowledge.evaluation.measures import mean
from knowledge.evaluation.mixing import Compared, compare
from knowledge.evaluation.routing import rate_routing
from knowledge.ports import Embedder, Store

STEPS = 24


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """Coverage and saved searches with one threshold."""

    threshold: float
    coverage: Figure
    saved: Figure


@dataclass(frozen=True, slots=True)
class RoutingCurve:
    """The rules' queries over thresholds from low to high, and with the configured one."""

    points: Sequence[AtThreshold]
    configured: AtThreshold


async def routing_curve(cases: Sequence[Case], parts: Parts, store: Store, embedder: Embedder) -> RoutingCurve:
    """Route questions with many thresholds, all else as configured; those that are routed by words are left out.

    Raises `StoreError`, `EmbeddingError`.
    """
    return await asyncio.to_thread(_curve, await compare(cases, parts, store, embedder), parts)


def _curve(compared: Compared, parts: Parts) -> RoutingCurve:
    scores = compared.cosines.mixed(compared.configured)
    wanted = [case.wanted for case in compared.cases]
    routing, agents = parts.settings.knowledge.routing, len(parts.settings.retrieval_agents())

    def at(threshold: float) -> AtThreshold:
        rows = asked_agents(scores, Weights(compared.scales, threshold), routing.agents)
        rated = rate_routing([[compared.names[agent] for agent in row] for row in rows], wanted, agents)
        figures: Mapping[str, Figure] = {name: mean(rated[name]) for name in ("coverage", "saved")}
        return AtThreshold(threshold, figures["coverage"], figures["saved"])

    scaled = scores * compared.scales
    # Steps of equal numbers of scores: where many lie the threshold tells most.
    between = np.quantile(scaled, np.linspace(0, 1, STEPS)) if scaled.size else np.empty(0)
    return RoutingCurve([at(float(step)) for step in between], at(routing.threshold))
