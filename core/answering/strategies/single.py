"""One retrieval: the completed question is routed and searched once (SRSA's direct strategy).

While the light model completes the question, the query that the rules make of it is searched already. Where both come
to the same words, that search is what counts and the rewrite has cost no time of its own beyond its call; where the
question stands alone there is no call (beyond the report's two parallelisations).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from core.answering.agents.compression import compress
from core.answering.agents.context_manager import complete_by_rule, complete_question, needs_model
from core.answering.agents.search import Found, outcome, search, succeeded
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.errors import KimasError
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.text.keywords import content_words
from core.types import Question

Early = Callable[[Gathered], None]


async def gather(question: Question, parts: Parts, budget: Budget, early: Early | None = None) -> Gathered:
    """Return the passages for one question, with the query and the agents that led to them.

    `early` is told what the rules' query found, when the completed question is still waited for.
    """
    return await gathered(await search_once(question, parts, budget, early), parts, budget)


async def gathered(found: Found, parts: Parts, budget: Budget) -> Gathered:
    """Return what one search found, compressed as its agents are configured."""
    passages = await compress(found.query, found.passages, parts, budget)
    return Gathered(found.query, found.agents, tuple(passages))


async def search_once(question: Question, parts: Parts, budget: Budget, early: Early | None = None) -> Found:
    """Complete the question from its conversation and search it; the rules' query is searched meanwhile."""
    if not needs_model(question, parts.model):
        return await search(await complete_question(question, parts.model, parts.prompts, budget), parts, budget)
    guess = complete_by_rule(question)
    async with task_group() as tasks:
        completing = tasks.create_task(complete_question(question, parts.model, parts.prompts, budget))
        # A speculation that fails must not take down the search that may follow it.
        guessing = tasks.create_task(_search_guess(guess, completing, parts, budget, early))
        query = await completing
        if not _rewriting(parts) and set(content_words(query)) == set(content_words(guess)):
            same = succeeded([await guessing])[0]
            return Found(query, same.agents, same.passages)
        found = await search(query, parts, budget)
        if not found.passages:
            # The rewrite led nowhere or its search was cut: what the guess found is better than nothing.
            raw = await guessing
            return found if isinstance(raw, KimasError) else Found(query, raw.agents, raw.passages)
        guessing.cancel()
    return found


async def _search_guess(
    guess: str, completing: asyncio.Task[str], parts: Parts, budget: Budget, early: Early | None
) -> Found | KimasError:
    # What agents make of a query costs calls: not for one that will most likely be another.
    found = await outcome(search(guess, parts, budget, rewriting=False))
    compressed = any(agent.compression != "none" for agent in parts.settings.retrieval_agents().values())
    if early and isinstance(found, Found) and not completing.done() and not compressed and not _rewriting(parts):
        early(Gathered(found.query, found.agents, found.passages))
    return found


def _rewriting(parts: Parts) -> bool:
    return any(agent.rewrites for agent in parts.settings.retrieval_agents().values())
