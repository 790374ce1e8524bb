"""One retrieval: the rewritten query is routed and searched once (SRSA's direct strategy).

The search on the raw question is started at once, while the rewrite is still being written: a question that needs no
rewriting loses no time (beyond the report's two parallelisations).
"""

from __future__ import annotations

from collections.abc import Sequence

from core.agents.context_manager import complete_question
from core.agents.retrieval import retrieve
from core.budget import Budget
from core.parts import Parts
from core.strategies import Gathered
from core.tasks import task_group
from core.types import AgentScore, Passage, Question


async def gather(question: Question, parts: Parts, budget: Budget) -> Gathered:
    """Return the passages for one question, with the query and the agents that led to them."""
    async with task_group() as tasks:
        speculative = tasks.create_task(_route_and_search(question.text, parts, budget))
        query = await complete_question(question, parts.model, parts.prompts, budget)
        if query == question.text:
            agents, passages = await speculative
            return Gathered(query, tuple(agent.name for agent in agents), tuple(passages))
        again = tasks.create_task(_route_and_search(query, parts, budget))
        agents, passages = await again
        if not passages:
            # The rewrite led nowhere or its search was cut: what the raw question found is better than nothing.
            agents, passages = await speculative
        else:
            speculative.cancel()
    return Gathered(query, tuple(agent.name for agent in agents), tuple(passages))


async def _route_and_search(query: str, parts: Parts, budget: Budget) -> tuple[Sequence[AgentScore], Sequence[Passage]]:
    known = parts.settings.retrieval_agents()
    agents = await budget.within("route", parts.library.route(query), lambda: [AgentScore(name, 0.0) for name in known])
    limits = {name: agent.limit for name, agent in known.items()}
    return agents, await retrieve(query, agents, parts.library, budget, limits)
