"""The cosines behind the agents' scores, kept apart so that they can be mixed anew with other weights (KIMAs 3.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.parts import Parts
from core.settings import AgentSettings
from core.settings.agents import MixInWeightSettings
from knowledge.evaluation.asking import RULE, Case, queries
from knowledge.evaluation.fitting import parts_without_model
from knowledge.evaluation.measures import Values
from knowledge.indexing import make_indexes
from knowledge.library import KNOWN_SHARE
from knowledge.ports import Embedder, Store, Vectors
from knowledge.routing import AgentIndex

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
