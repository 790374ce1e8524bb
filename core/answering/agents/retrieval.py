"""Retrieval agents: each searches its own sources, with the query rewritten as its settings say (KIMAs 3.3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from core.answering.context.dependencies import Parts
from core.answering.rewriting.base import Query, RewriteContext
from core.answering.rewriting.pipeline import Hits, merge, rewrite
from core.errors import KimasError, ServiceError
from core.observability.logs import logger
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.settings import AgentSettings
from core.types import AgentScore, Passage


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one search, or of all searches of one agent: passages, or why there are none."""

    passages: Sequence[Passage] = ()
    fault: KimasError | None = None
    late: bool = False


async def retrieve(
    query: str, agents: Sequence[AgentScore], parts: Parts, budget: Budget, *, rewriting: bool = True
) -> list[Passage]:
    """Ask the agents at once, each for its number of passages, and return all of them.

    Each rewrites the query as `agents.NAME.rewrites` say, unless `rewriting` is off. An agent that overruns the stage's
    share is left behind: the others' passages count, and the stage is cut. So is one whose service fails. When none of
    them could answer, the first failure leaves.
    """
    known = parts.settings.retrieval_agents()
    async with task_group() as tasks:
        asked = {
            agent.name: tasks.create_task(
                _Agent(agent.name, known[agent.name], parts, budget).search(query, rewriting=rewriting)
            )
            for agent in agents
        }
    outcomes = {name: task.result() for name, task in asked.items()}
    faults = [outcome.fault for outcome in outcomes.values() if outcome.fault]
    late = [name for name, outcome in outcomes.items() if outcome.late]
    if late or faults:
        budget.cut_off("search", "failed" if faults else "late")
        logger(__name__).warning("search.cut", late=late, failed=len(faults))
    if faults and len(faults) == len(outcomes):
        raise ServiceError(f"no retrieval agent could search: {faults[0]}") from faults[0]
    return [passage for outcome in outcomes.values() for passage in outcome.passages]


@dataclass(frozen=True, slots=True)
class _Agent:
    """One retrieval agent at work on one question."""

    name: str
    settings: AgentSettings
    parts: Parts
    budget: Budget

    async def search(self, text: str, *, rewriting: bool) -> _Outcome:
        """Search the question as it is, and, where rewriting made others of it, those in its place.

        The question is searched while it is rewritten: its passages count when the others lead nowhere.
        """
        asked = Query(text)
        if not rewriting or not self.settings.rewrites:
            return await self._searched(asked)
        async with task_group() as tasks:
            first = tasks.create_task(self._searched(asked))
            queries = await rewrite(asked, self._context(first))
            running = [first if query == asked else tasks.create_task(self._searched(query)) for query in queries]
            outcomes = [await task for task in running]
            if any(outcome.late or outcome.fault for outcome in outcomes):
                self.budget.cut_off("search", "failed" if any(outcome.fault for outcome in outcomes) else "late")
            if not any(outcome.passages for outcome in outcomes):
                return await first
            measure = first.result().passages if first.done() else ()
            first.cancel()
        found = [Hits(query, outcome.passages) for query, outcome in zip(queries, outcomes, strict=True)]
        return _Outcome(merge(Hits(asked, measure), found, self.settings.limit))

    def _context(self, first: asyncio.Task[_Outcome]) -> RewriteContext:
        async def passages() -> Sequence[Passage]:
            # Waiting so does not cancel the search with who waits for it.
            await asyncio.wait((first,))
            return first.result().passages

        ends = time.monotonic() + self.budget.share("requery")
        return RewriteContext(self.name, self.settings, self.parts, self.budget, passages, ends)

    async def _searched(self, query: Query) -> _Outcome:
        library, limit = self.parts.library, self.settings.limit
        with self.budget.timed("search"):
            try:
                async with asyncio.timeout(self.budget.share("search")) as share:
                    if query.lexical() == query.meaning():
                        return _Outcome(await library.search(self.name, query.lexical(), limit))
                    split = library.search(self.name, query.lexical(), limit, dense=query.meaning())
                    return _Outcome(await split)
            except TimeoutError:
                if not share.expired():
                    raise
                return _Outcome(late=True)
            except KimasError as fault:
                logger(__name__).warning("search.failed", agent=self.name, error=str(fault))
                return _Outcome(fault=fault)
