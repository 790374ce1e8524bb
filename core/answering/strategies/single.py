"""One retrieval: the completed question is routed and searched once (SRSA's direct strategy).

While the light model completes the question, what it will probably write is already searched: the question, behind the
questions that it depends on. When both queries have the same words, that search is the result, and completing the
question has cost only the time of its call. A question without a conversation needs no call. (This goes beyond the two
parallelisations of the report.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from core.answering.agents.compression import compress
from core.answering.agents.context_manager import complete_question, get_early_query, needs_model
from core.answering.agents.search import (
    SearchResult,
    add_foreign,
    collect_results,
    get_agent_names,
    interleave,
    search,
    search_translation,
)
from core.answering.agents.translation import get_foreign_agents
from core.answering.context import AnswerDependencies, RetrievalResult
from core.errors import KimasError
from core.language.keywords import content_words
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.types import Question

OnPartialResult = Callable[[RetrievalResult], None]


async def gather(
    question: Question, deps: AnswerDependencies, budget: Budget, on_partial_result: OnPartialResult | None = None
) -> RetrievalResult:
    """Return the passages for one question, with the query and the agents that led to them.

    `on_partial_result` is called with the passages of that early search while the question is still being completed.
    """
    return await compress_result(await search_once(question, deps, budget, on_partial_result), deps, budget)


async def compress_result(result: SearchResult, deps: AnswerDependencies, budget: Budget) -> RetrievalResult:
    """Return the passages of one search, compressed as its agents are configured."""
    passages = await compress(result.query, result.passages, deps, budget)
    return RetrievalResult(result.query, result.agents, tuple(passages))


async def join_query(
    first_search: asyncio.Task[SearchResult | KimasError], query: str, deps: AnswerDependencies, budget: Budget
) -> RetrievalResult:
    """Return the passages of a first search and of the query that the router named, which need not be another one.

    Rewrites of agents are not repeated: the first search has paid for them. Raises what the first search raised when
    neither found anything.
    """
    outcomes = [await first_search]
    first_query = outcomes[0].query if isinstance(outcomes[0], SearchResult) else ""
    new_words = set(content_words(query)) - set(content_words(first_query))
    if query and (new_words or len(content_words(query)) < len(content_words(first_query))):
        outcomes.append(await capture_error(search(query, deps, budget, with_rewrites=False)))
    results = collect_results(outcomes)
    passages = interleave([result.passages for result in reversed(results)])
    return await compress_result(SearchResult(results[-1].query, get_agent_names(results), passages), deps, budget)


async def search_once(
    question: Question, deps: AnswerDependencies, budget: Budget, on_partial_result: OnPartialResult | None = None
) -> SearchResult:
    """Complete the question from its conversation and search it; search what it will probably be meanwhile."""
    if not needs_model(question, deps.model):
        return await search(await complete_question(question, deps.model, deps.prompts, budget), deps, budget)
    early_query = get_early_query(question)
    async with task_group() as tasks:
        completion_task = tasks.create_task(complete_question(question, deps.model, deps.prompts, budget))
        # When this search fails, the search for the completed question must still run.
        early_search = tasks.create_task(_search_early(early_query, completion_task, deps, budget, on_partial_result))
        query = await completion_task
        if not _has_rewrites(deps) and set(content_words(query)) == set(content_words(early_query)):
            early_result = replace(collect_results([await early_search])[0], query=query)
            return await add_foreign(early_result, search_translation(query, deps, budget), deps, budget)
        result = await search(query, deps, budget)
        if not result.passages:
            # The completed question found nothing: the passages of the early search are better than none.
            early_outcome = await early_search
            return (
                result
                if isinstance(early_outcome, KimasError)
                else SearchResult(query, early_outcome.agents, early_outcome.passages)
            )
        early_search.cancel()
    return result


async def _search_early(
    early_query: str,
    completion_task: asyncio.Task[str],
    deps: AnswerDependencies,
    budget: Budget,
    on_partial_result: OnPartialResult | None,
) -> SearchResult | KimasError:
    # Rewrites of agents cost model calls: not for a query that will probably change.
    result = await capture_error(search(early_query, deps, budget, with_rewrites=False))
    has_compression = any(agent.compression != "none" for agent in deps.settings.retrieval_agents().values())
    if (
        on_partial_result
        and isinstance(result, SearchResult)
        and not completion_task.done()
        and not has_compression
        and not _has_rewrites(deps)
        and not get_foreign_agents(early_query, deps)[0]
    ):
        on_partial_result(RetrievalResult(result.query, result.agents, result.passages))
    return result


def _has_rewrites(deps: AnswerDependencies) -> bool:
    return any(agent.rewrites for agent in deps.settings.retrieval_agents().values())
