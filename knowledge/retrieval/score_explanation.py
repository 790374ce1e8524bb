"""Explains a search: every score that routed the query and ranked its passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.errors import EmbeddingError
from core.evidence.ranking import fuse, get_kind_weight
from core.settings import Settings
from core.types import AgentScore, Passage
from knowledge.ports import Embedder, Store
from knowledge.retrieval.agent_index import make_indexes
from knowledge.retrieval.query_embedder import MIN_VOCABULARY_COVERAGE
from knowledge.retrieval.routing import RoutingScore, score_agent

RoutingMethod = Literal["vectors", "words", "option", "off"]


@dataclass(frozen=True, slots=True)
class AgentExplanation:
    """One agent: its score if it is asked, and its routing score by vectors (None when words decide)."""

    name: str
    is_selected: bool
    score: float | None
    routing_score: RoutingScore | None


@dataclass(frozen=True, slots=True)
class PassageExplanation:
    """One passage in its final order.

    `agent_scores` holds the score of each agent's own search, `fused_score` the one over all results; `score` in the
    passage is the final one after the reranker and the weight of its kind.
    """

    passage: Passage
    agent_scores: Mapping[str, float]
    fused_score: float
    kind_weight: float


async def explain_routing(
    query: str, selected_agents: Sequence[AgentScore], settings: Settings, store: Store, embedder: Embedder
) -> tuple[RoutingMethod, Sequence[AgentExplanation]]:
    """Return how a query was routed, and every agent: those that are asked first, then the others by score."""
    routing_scores: dict[str, RoutingScore] = {}
    if embedder.vocabulary_coverage(query) >= MIN_VOCABULARY_COVERAGE:
        try:
            vector = (await embedder.embed([query], "query"))[0]
            routing_scores = {
                index.name: score_agent(vector, index) for index in await make_indexes(settings, store, embedder)
            }
        except EmbeddingError:
            # The question was routed by words for the same reason, so that is reported.
            routing_scores = {}
    scores = {agent.name: agent.score for agent in selected_agents}
    unselected_names = sorted(
        (name for name in settings.retrieval_agents() if name not in scores),
        key=lambda name: -routing_scores[name].score if name in routing_scores else np.inf,
    )
    explanations = [
        AgentExplanation(
            name,
            name in scores,
            scores.get(name, routing_scores[name].score if name in routing_scores else None),
            routing_scores.get(name),
        )
        for name in (*scores, *unselected_names)
    ]
    if not settings.knowledge.routing.enabled:
        return "off", explanations
    return "vectors" if routing_scores else "words", explanations


def explain_passages(
    ranked_passages: Sequence[Passage], results_by_agent: Mapping[str, Sequence[Passage]], settings: Settings
) -> Sequence[PassageExplanation]:
    """Return the scores behind each ranked passage. `results_by_agent` holds the results of each agent's search."""
    search = settings.knowledge.search
    candidates = [passage for passages in results_by_agent.values() for passage in passages]
    fused_scores = {passage.id: passage.score for passage in fuse(candidates, search.alpha)}
    scores_by_passage: dict[str, dict[str, float]] = {}
    for agent, passages in results_by_agent.items():
        for passage in passages:
            scores_by_passage.setdefault(passage.id, {})[agent] = passage.score
    return [
        PassageExplanation(
            passage,
            scores_by_passage[passage.id],
            fused_scores[passage.id],
            get_kind_weight(passage.kind, search.kind_weights),
        )
        for passage in ranked_passages
    ]
