"""Search: a query is routed to retrieval agents, which search their own sources (KIMAs 3.3); joining of searches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TypeVar

from core.answering.agents.reranker import ranks_by_model, rerank
from core.answering.agents.spelling import correct_spelling
from core.answering.agents.translation import Translation, translate_by_dictionary, translate_once
from core.answering.context import AnswerDependencies, Query, RewriteContext
from core.answering.rewriting.runner import QueryResults, merge, rewrite
from core.errors import KimasError, ServiceError
from core.evidence.ranking import on_scale_of
from core.observability.logs import get_logger
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.settings import AgentSettings, LiveSource
from core.types import AgentScore, Passage

_log = get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One search: its query, the agents that searched, and their passages."""

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]


async def search(query: str, deps: AnswerDependencies, budget: Budget, *, with_rewrites: bool = True) -> SearchResult:
    """Route a query to agents and search it there; each agent rewrites it as configured, unless `with_rewrites` is off.

    The query of the result is the one that was searched, without typing errors.
    Meanwhile a question in another language than the agents' sources is translated, and searched in theirs as well.
    Raises `ServiceError` when no agent could search.
    """
    agent_settings = deps.settings.retrieval_agents()
    query = await correct_spelling(query, deps.library, budget)
    agents = await budget.run_stage(
        "route",
        deps.library.route(query, at_least_one=deps.is_asked),
        lambda: [AgentScore(name, 0.0) for name in agent_settings],
    )
    budget.saved_searches += len(agent_settings) - len(agents)
    budget.record_scores(agents)
    async with task_group() as tasks:
        translation_search = tasks.create_task(search_translation(query, deps, budget)) if with_rewrites else None
        passages = await retrieve(query, agents, deps, budget, with_rewrites=with_rewrites)
        result = SearchResult(query, tuple(agent.name for agent in agents), tuple(passages))
        return await add_foreign(result, translation_search, deps, budget) if translation_search else result


async def search_translation(query: str, deps: AnswerDependencies, budget: Budget) -> SearchResult | None:
    """Return the search for the translation of a query; None when it needs none, or nothing can be searched."""
    return await _search_foreign_agents(await translate_once(query, deps, budget), deps, budget)


async def add_foreign(
    result: SearchResult, translation_search: Awaitable[SearchResult | None], deps: AnswerDependencies, budget: Budget
) -> SearchResult:
    """Return a search with that for the translation of its query.

    Where that finds nothing, and the query found nothing in its own language, its words are looked up, and searched in
    English.
    """
    foreign_result = await translation_search
    if foreign_result is None or not foreign_result.passages:
        translation = await translate_by_dictionary(result.query, result.passages, deps, budget)
        foreign_result = await _search_foreign_agents(translation, deps, budget)
    if foreign_result is None:
        return result
    own_passages = on_scale_of(result.passages, foreign_result.passages, deps.settings.knowledge.search.alpha)
    passages = (*own_passages, *foreign_result.passages)
    return SearchResult(result.query, get_agent_names((result, foreign_result)), passages)


async def _search_foreign_agents(
    translation: Translation, deps: AnswerDependencies, budget: Budget
) -> SearchResult | None:
    if not translation.text:
        return None
    # Agents can judge the topic of a question only in their own language.
    routes = await budget.run_stage(
        "route",
        deps.library.route(translation.text, at_least_one=deps.is_asked),
        lambda: [AgentScore(name, 0.0) for name in translation.agents],
    )
    agents = [agent for agent in routes if agent.name in translation.agents]
    budget.record_scores(agents)
    passages = await capture_error(retrieve(translation.text, agents, deps, budget, with_rewrites=False))
    if isinstance(passages, KimasError):
        return None
    return SearchResult(translation.text, tuple(agent.name for agent in agents), tuple(passages))


async def ranked_search(
    query: str, deps: AnswerDependencies, budget: Budget, *, is_filtered: bool = False
) -> SearchResult:
    """Search and put the passages in order for this query, best first.

    What is filtered afterwards need not be ordered by the light model first: that is one call for the same.
    """
    result = await search(query, deps, budget)
    by_model = not is_filtered and ranks_by_model(deps.settings, is_final=False)
    ranked_passages = await rerank(query, result.passages, deps, budget, by_model=by_model)
    return SearchResult(result.query, result.agents, tuple(ranked_passages))


def collect_results(outcomes: Iterable[SearchResult | KimasError]) -> list[SearchResult]:
    """Return the successful searches. Raises the first error when there are none."""
    outcomes = list(outcomes)
    results = [result for result in outcomes if isinstance(result, SearchResult)]
    errors = [error for error in outcomes if isinstance(error, KimasError)]
    if errors and not results:
        raise errors[0]
    return results


def interleave(rankings: Iterable[Sequence[Passage]]) -> tuple[Passage, ...]:
    """Return the passages of several searches in one order: the best of each, then the second of each, none twice.

    So every search keeps its best passages when the list is cut.
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
    """Return the names of all agents that searched, each once."""
    return tuple(dict.fromkeys(name for result in results for name in result.agents))


@dataclass(frozen=True, slots=True)
class _SearchOutcome:
    """The outcome of one search, or of all searches of one agent: passages, or the reason why there are none."""

    passages: Sequence[Passage] = ()
    error: KimasError | None = None
    is_late: bool = False


async def retrieve(
    query: str, agents: Sequence[AgentScore], deps: AnswerDependencies, budget: Budget, *, with_rewrites: bool = True
) -> list[Passage]:
    """Search at all agents at the same time and return the passages of all; each agent has its own limit.

    The stage is degraded when an agent fails or overruns the stage's share: the passages of the others count. Raises
    `ServiceError` when all of them failed.
    """
    agent_settings = deps.settings.retrieval_agents()
    async with task_group() as tasks:
        agent_tasks = {
            agent.name: tasks.create_task(
                _RetrievalAgent(agent.name, agent_settings[agent.name], deps, budget).search(
                    query, with_rewrites=with_rewrites
                )
            )
            for agent in agents
        }
    outcomes = {name: task.result() for name, task in agent_tasks.items()}
    errors = [outcome.error for outcome in outcomes.values() if outcome.error]
    late_agents = [name for name, outcome in outcomes.items() if outcome.is_late]
    if late_agents or errors:
        budget.degrade("search", "failed" if errors else "late")
        _log.warning("search.incomplete", late=late_agents, failed=len(errors))
    if errors and len(errors) == len(outcomes):
        raise ServiceError(f"no retrieval agent could search: {errors[0]}") from errors[0]
    return [passage for outcome in outcomes.values() for passage in outcome.passages]


class _Once:
    """A search that begins when it is first needed."""

    def __init__(self, begin: Callable[[], asyncio.Task[_SearchOutcome]]) -> None:
        self._begin = begin
        self._task: asyncio.Task[_SearchOutcome] | None = None

    def start(self) -> asyncio.Task[_SearchOutcome]:
        """Return the search, which has begun now at the latest."""
        self._task = self._task or self._begin()
        return self._task

    def take_passages(self) -> Sequence[Passage]:
        """Return what it has found so far, and end it."""
        if self._task is None:
            return ()
        passages = self._task.result().passages if self._task.done() else ()
        self._task.cancel()
        return passages


@dataclass(frozen=True, slots=True)
class _RetrievalAgent:
    """One retrieval agent that searches for one question."""

    name: str
    settings: AgentSettings
    deps: AnswerDependencies
    budget: Budget

    async def search(self, text: str, *, with_rewrites: bool) -> _SearchOutcome:
        """Search the rewritten queries, or the original one when rewriting changes nothing.

        The original is searched while it is rewritten: its passages count when the rewritten queries find nothing. Live
        sources are asked for it only then: each question costs money there.
        """
        original_query = Query(text)
        if not with_rewrites or not self.settings.rewrites:
            return await self._search_query(original_query)
        async with task_group() as tasks:
            original_search = _Once(lambda: tasks.create_task(self._search_query(original_query)))
            if not all(isinstance(self.deps.settings.sources[name], LiveSource) for name in self.settings.sources):
                original_search.start()
            queries = await rewrite(original_query, self._make_context(original_search))
            search_tasks = [
                original_search.start() if query == original_query else tasks.create_task(self._search_query(query))
                for query in queries
            ]
            outcomes = [await task for task in search_tasks]
            if any(outcome.is_late or outcome.error for outcome in outcomes):
                self.budget.degrade("search", "failed" if any(outcome.error for outcome in outcomes) else "late")
            if not any(outcome.passages for outcome in outcomes):
                return await original_search.start()
            original_passages = original_search.take_passages()
        query_results = [
            QueryResults(query, outcome.passages) for query, outcome in zip(queries, outcomes, strict=True)
        ]
        return _SearchOutcome(
            merge(QueryResults(original_query, original_passages), query_results, self.settings.limit)
        )

    def _make_context(self, original_search: _Once) -> RewriteContext:
        async def get_passages() -> Sequence[Passage]:
            # This wait can be cancelled without cancelling the search.
            await asyncio.wait((original_search.start(),))
            return original_search.start().result().passages

        deadline = time.monotonic() + self.budget.share("requery")
        return RewriteContext(self.name, self.settings, self.deps, self.budget, get_passages, deadline)

    async def _search_query(self, query: Query) -> _SearchOutcome:
        library = self.deps.library
        limit = self.settings.limit
        with self.budget.timed("search"):
            try:
                async with asyncio.timeout(self.budget.share("search")) as share:
                    if query.get_lexical_text() == query.get_dense_text():
                        return _SearchOutcome(await library.search(self.name, query.get_lexical_text(), limit))
                    hybrid_search = library.search(
                        self.name, query.get_lexical_text(), limit, dense_query=query.get_dense_text()
                    )
                    return _SearchOutcome(await hybrid_search)
            except TimeoutError:
                if not share.expired():
                    raise
                return _SearchOutcome(is_late=True)
            except KimasError as error:
                _log.warning("search.failed", agent=self.name, error=str(error))
                return _SearchOutcome(error=error)
