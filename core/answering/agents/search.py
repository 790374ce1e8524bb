"""What the strategies have in common: one search over the routed agents, and joining the passages of several."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TypeVar

from core.answering.agents.reranker import rerank
from core.answering.agents.retrieval import retrieve
from core.answering.context.dependencies import Parts
from core.errors import KimasError
from core.runtime.budget import Budget
from core.types import AgentScore, Passage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """One search: its query, the agents asked, and their passages."""

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]


async def search(query: str, parts: Parts, budget: Budget, *, rewriting: bool = True) -> Found:
    """Route a query and search it at the agents found, each rewriting it in its own way unless `rewriting` is off.

    Raises `ServiceError` when none of them could answer.
    """
    known = parts.settings.retrieval_agents()
    agents = await budget.within("route", parts.library.route(query), lambda: [AgentScore(name, 0.0) for name in known])
    passages = await retrieve(query, agents, parts, budget, rewriting=rewriting)
    return Found(query, tuple(agent.name for agent in agents), tuple(passages))


async def ranked_search(query: str, parts: Parts, budget: Budget) -> Found:
    """Search and put the passages in order for this query, best first."""
    found = await search(query, parts, budget)
    ordered = await rerank(query, found.passages, parts, budget)
    return Found(found.query, found.agents, tuple(ordered))


async def outcome(work: Awaitable[T]) -> T | KimasError:
    """Await what may fail without taking down what runs beside it: the failure is returned."""
    try:
        return await work
    except KimasError as fault:
        return fault


def succeeded(outcomes: Iterable[Found | KimasError]) -> list[Found]:
    """Return the searches that worked; when none did, the first failure leaves."""
    outcomes = list(outcomes)
    found = [one for one in outcomes if isinstance(one, Found)]
    failures = [one for one in outcomes if isinstance(one, KimasError)]
    if failures and not found:
        raise failures[0]
    return found


def by_score(passages: Iterable[Passage]) -> list[Passage]:
    """Return passages by their score, best first."""
    return sorted(passages, key=lambda passage: -passage.score)


def interleave(rankings: Iterable[Sequence[Passage]]) -> tuple[Passage, ...]:
    """Return the passages of several searches in one order: the best of each, then the second of each, none twice.

    So every search keeps its best passages, whatever is cut from the end.
    """
    kept: dict[str, Passage] = {}
    texts: set[str] = set()
    for passage in chain.from_iterable(zip_longest(*rankings)):
        if passage is None or passage.id in kept:
            continue
        fingerprint = " ".join(passage.text.split()).lower()
        if fingerprint not in texts:
            texts.add(fingerprint)
            kept[passage.id] = passage
    return tuple(kept.values())


def agents_of(found: Iterable[Found]) -> tuple[str, ...]:
    """Return all agents that were asked, each once."""
    return tuple(dict.fromkeys(name for one in found for name in one.agents))
