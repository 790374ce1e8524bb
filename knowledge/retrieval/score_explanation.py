"""Why a query went where it went, and why its passages stand in their order: every score on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.errors import EmbeddingError
from core.grounding.document_kinds import kind_weight
from core.grounding.fusion import fuse
from core.settings import Settings
from core.types import AgentScore, Passage
from knowledge.ports import Embedder, Store
from knowledge.retrieval.agent_index import make_indexes
from knowledge.retrieval.library import KNOWN_SHARE
from knowledge.retrieval.routing import Fit, fit

Way = Literal["vectors", "words", "option"]


@dataclass(frozen=True, slots=True)
class AgentExplained:
    """One agent: its score where it is asked, and what the vectors say of it (None where words decide)."""

    name: str
    asked: bool
    score: float | None
    fit: Fit | None


@dataclass(frozen=True, slots=True)
class PassageExplained:
    """One passage in its final order.

    `agents` holds the score that each agent's own search gave it, `fused` the one over all that was found; `score` in
    the passage is what the reranker and the weight of its kind made of it.
    """

    passage: Passage
    agents: Mapping[str, float]
    fused: float
    kind_weight: float


async def explain_routing(
    query: str, asked: Sequence[AgentScore], settings: Settings, store: Store, embedder: Embedder
) -> tuple[Way, Sequence[AgentExplained]]:
    """Return by what a query was routed, and every agent, those that are asked first and the others by score."""
    fits: dict[str, Fit] = {}
    if embedder.known_share(query) >= KNOWN_SHARE:
        try:
            vector = (await embedder.embed([query]))[0]
            fits = {one.name: fit(vector, one) for one in await make_indexes(settings, store, embedder)}
        except EmbeddingError:
            # The question was routed by words for the same reason: that is what is told.
            fits = {}
    scores = {agent.name: agent.score for agent in asked}
    others = sorted(
        (name for name in settings.retrieval_agents() if name not in scores),
        key=lambda name: -fits[name].score if name in fits else np.inf,
    )
    explained = [
        AgentExplained(
            name, name in scores, scores.get(name, fits[name].score if name in fits else None), fits.get(name)
        )
        for name in (*scores, *others)
    ]
    return "vectors" if fits else "words", explained


def explain_passages(
    ranked: Sequence[Passage], found: Mapping[str, Sequence[Passage]], settings: Settings
) -> Sequence[PassageExplained]:
    """Return the scores behind each ranked passage. `found` is what each agent's search gave."""
    search = settings.knowledge.search
    everything = [passage for passages in found.values() for passage in passages]
    fused = {passage.id: passage.score for passage in fuse(everything, search.alpha)}
    by_agent: dict[str, dict[str, float]] = {}
    for agent, passages in found.items():
        for passage in passages:
            by_agent.setdefault(passage.id, {})[agent] = passage.score
    return [
        PassageExplained(
            passage, by_agent[passage.id], fused[passage.id], kind_weight(passage.kind, search.kind_weights)
        )
        for passage in ranked
    ]
