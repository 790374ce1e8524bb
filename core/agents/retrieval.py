"""Retrieval agents: each searches its own sources for a query (KIMAs 3.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from core.budget import Budget
from core.errors import KimasError, ServiceError
from core.logs import logger
from core.ports import Library
from core.types import AgentScore, Passage


async def retrieve(
    query: str, agents: Sequence[AgentScore], library: Library, budget: Budget, limits: Mapping[str, int]
) -> list[Passage]:
    """Ask the agents at once, each for its number of passages (`limits`, by agent), and return all of them.

    An agent that overruns the stage's share is left behind: the others' passages count, and the stage is cut. So is one
    whose service fails. When none of them could answer, the first failure leaves.
    """
    if not agents:
        return []
    with budget.timed("search"):
        searches = {
            asyncio.create_task(library.search(agent.name, query, limits[agent.name])): agent.name for agent in agents
        }
        try:
            done, late = await asyncio.wait(searches, timeout=budget.share("search"))
        finally:
            # Also when the answer itself is cancelled: no search outlives its question.
            for search in searches:
                search.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    failures: list[KimasError] = []
    passages: list[Passage] = []
    for search in (search for search in searches if search in done):
        fault = search.exception()
        if fault is None:
            passages += search.result()
        elif isinstance(fault, KimasError):
            failures.append(fault)
            logger(__name__).warning("search.failed", agent=searches[search], error=str(fault))
        else:
            raise fault
    if late or failures:
        budget.cut_off("search")
        logger(__name__).warning("search.cut", late=[searches[search] for search in late])
    if failures and len(failures) == len(searches):
        raise ServiceError(f"no retrieval agent could search: {failures[0]}") from failures[0]
    return passages
