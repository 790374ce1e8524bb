"""What the strategies have in common: one search over the routed agents, and joining the passages of several."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TypeVar

from core.answering.agents.reranker import rerank
from core.answering.agents.retrieval import retrieve
from core.answering.context.dependencies import AnswerDependencies
from core.errors import KimasError
from core.runtime.budget import Budget
from core.types import AgentScore, Passage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One search: its query, the agents asked, and their passages."""

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]


async def search(query: str, deps: AnswerDependencies, budget: Budget, *, with_rewrites: bool = True) -> SearchResult:
    """Route a query and search it at the agents found, each rewriting it in its own way unless `rewriting` is off.

    Raises `ServiceError` when none of them could answer.
    """
    agent_settings = deps.settings.retrieval_agents()
    agents = await budget.run_stage(
        "route", deps.library.route(query), lambda: [AgentScore(name, 0.0) for name in agent_settings]
    )
    passages = await retrieve(query, agents, deps, budget, with_rewrites=with_rewrites)
    return SearchResult(query, tuple(agent.name for agent in agents), tuple(passages))


async def ranked_search(query: str, deps: AnswerDependencies, budget: Budget) -> SearchResult:
    """Search and put the passages in order for this query, best first."""
    result = await search(query, deps, budget)
    ranked_passages = await rerank(query, result.passages, deps, budget)
    return SearchResult(result.query, result.agents, tuple(ranked_passages))


async def capture_error(awaitable: Awaitable[T]) -> T | KimasError:
    """Await what may fail without taking down what runs beside it: the failure is returned."""
    try:
        return await awaitable
    except KimasError as error:
        return error


def collect_results(outcomes: Iterable[SearchResult | KimasError]) -> list[SearchResult]:
    """Return the searches that worked; when none did, the first failure leaves."""
    outcomes = list(outcomes)
    results = [result for result in outcomes if isinstance(result, SearchResult)]
    errors = [error for error in outcomes if isinstance(error, KimasError)]
    if errors and not results:
        raise errors[0]
    return results


def sort_by_score(passages: Iterable[Passage]) -> list[Passage]:
    """Return passages by their score, best first."""
    return sorted(passages, key=lambda passage: -passage.score)


def interleave(rankings: Iterable[Sequence[Passage]]) -> tuple[Passage, ...]:
    """Return the passages of several searches in one order: the best of each, then the second of each, none twice.

    So every search keeps its best passages, whatever is cut from the end.
    """
    passages_by_id: dict[str, Passage] = {}
    texts: set[str] = set()
    for passage in chain.from_iterable(zip_longest(*rankings)):
        if passage is None or passage.id in passages_by_id:
            continue
        fingerprint = " ".join(passage.text.split()).lower()
        if fingerprint not in texts:
            texts.add(fingerprint)
            passages_by_id[passage.id] = passage
    return tuple(passages_by_id.values())


def get_agent_names(results: Iterable[SearchResult]) -> tuple[str, ...]:
    """Return all agents that were asked, each once."""
    return tuple(dict.fromkeys(name for result in results for name in result.agents))
