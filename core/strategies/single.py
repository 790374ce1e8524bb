"""One retrieval: the rewritten query is routed and searched once (SRSA's direct strategy).

The search on the raw question is started at once, while the rewrite is still being written: a question that needs no
rewriting loses no time (beyond the report's two parallelisations).
"""

from __future__ import annotations

from core.agents.compression import compress
from core.agents.context_manager import complete_question
from core.budget import Budget
from core.errors import KimasError
from core.parts import Parts
from core.strategies import Gathered
from core.strategies.searching import Found, outcome, search, succeeded
from core.tasks import task_group
from core.types import Question


async def gather(question: Question, parts: Parts, budget: Budget) -> Gathered:
    """Return the passages for one question, with the query and the agents that led to them."""
    found = await search_once(question, parts, budget)
    passages = await compress(found.query, found.passages, parts, budget)
    return Gathered(found.query, found.agents, tuple(passages))


async def search_once(question: Question, parts: Parts, budget: Budget) -> Found:
    """Complete the question from its conversation and search it; the raw question is searched meanwhile."""
    async with task_group() as tasks:
        # A speculation that fails must not take down the search that may follow it.
        speculative = tasks.create_task(outcome(search(question.text, parts, budget)))
        query = await complete_question(question, parts.model, parts.prompts, budget)
        if query == question.text:
            return succeeded([await speculative])[0]
        again = tasks.create_task(search(query, parts, budget))
        found = await again
        if not found.passages:
            # The rewrite led nowhere or its search was cut: what the raw question found is better than nothing.
            raw = await speculative
            return found if isinstance(raw, KimasError) else Found(query, raw.agents, raw.passages)
        speculative.cancel()
    return found
