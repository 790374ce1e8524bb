"""Runs an agent's rewrites, and merges what their queries find.

The rewrites run in the order of the agent's list, inside the stage's share of the budget. Each gets an equal part of
the time left; what it does not use goes to those after it. `keyword` and `hyde` run at once when they are next to each
other, for they change different texts of a query.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import entry_points
from itertools import chain, zip_longest

from core.answering.context import MAX_PASSAGE_CHARS, MAX_QUERY_CHARS, Query, Rewrite, RewriteContext
from core.errors import UsageError
from core.evidence.ranking import merge_scores
from core.language.keywords import content_words
from core.runtime.tasks import task_group
from core.settings.answering import REWRITES_GROUP
from core.types import Passage

MAX_QUERIES = 4
PARALLEL_REWRITES = frozenset(("keyword", "hyde"))


async def rewrite(query: Query, context: RewriteContext) -> tuple[Query, ...]:
    """Return the queries to search in place of one: at most four, none twice, as `agent.rewrites` says.

    It ends by the context's deadline unless a rewrite blocks the event loop.
    """
    steps = _group_steps(context.agent.rewrites)
    queries: tuple[Query, ...] = (query,)
    with context.budget.timed("requery"):
        for number, step in enumerate(steps):
            share = context.remaining() / (len(steps) - number)
            step_context = replace(context, deadline=time.monotonic() + share)
            queries = _filter_queries(await _run_step(step, queries, step_context)) or queries
    return queries


# Reading what all installed packages offer takes a while; it does not change while the process runs.
@lru_cache
def load_plugin(name: str) -> Rewrite:
    """Return the rewrite that an installed package offers. Raises `UsageError` for none, and what its import raises."""
    entry_point = next(iter(entry_points(group=REWRITES_GROUP, name=name)), None)
    if entry_point is None:
        raise UsageError(f"no rewrite is named {name!r}: no installed package offers it under {REWRITES_GROUP}")
    plugin: Rewrite = entry_point.load()
    return plugin


def _group_steps(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the names in steps, one after the other; those of one step run at once."""
    steps: list[tuple[str, ...]] = []
    for name in names:
        if steps and {*steps[-1], name} == PARALLEL_REWRITES:
            steps[-1] = ("keyword", "hyde")
        else:
            steps.append((name,))
    return steps


async def _run_step(step: Sequence[str], queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    if len(step) == 1:
        return await _run_rewrite(step[0], queries, context)
    async with task_group() as tasks:
        keyword_task, hyde_task = (tasks.create_task(_run_rewrite(name, queries, context)) for name in step)
    pairs = zip(keyword_task.result(), hyde_task.result(), strict=True)
    return [replace(keyword_query, dense=hyde_query.dense) for keyword_query, hyde_query in pairs]


async def _run_rewrite(name: str, queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Run one rewrite. A plug-in may raise anything: then the queries stay as they are."""
    if name in context.deps.rewrites:
        return await context.deps.rewrites[name](queries, context)
    stage = f"rewrite_{name}"
    try:
        # Importing a plug-in may take long.
        plugin = await context.run_stage(stage, asyncio.to_thread(load_plugin, name))
        new_queries = (
            tuple(map(_validate_query, await context.run_stage(stage, plugin(queries, context)) or ()))
            if plugin
            else ()
        )
    except Exception as error:  # The question is answered despite any error of a plug-in.
        context.degrade(stage, f"{type(error).__name__}: {error}")
        return queries
    return new_queries


def _validate_query(value: object) -> Query:
    """Return a plug-in's value as a query of three texts. Raises `TypeError` for anything else."""
    if not isinstance(value, Query):
        raise TypeError(f"it returned a {type(value).__name__} among its queries")
    texts: tuple[object, ...] = (value.text, value.words, value.dense)
    wrong_types = [type(text).__name__ for text in texts if not isinstance(text, str)]
    if wrong_types:
        raise TypeError(f"it returned a query with a {wrong_types[0]} for a text")
    return value


def _filter_queries(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return the queries that have content words: none twice, none too long, at most as many as can be searched."""
    unique_queries: dict[tuple[str, str], Query] = {}
    for query in queries:
        bounded_query = Query(
            query.text[:MAX_QUERY_CHARS], query.words[:MAX_QUERY_CHARS], query.dense[:MAX_PASSAGE_CHARS]
        )
        if content_words(bounded_query.get_lexical_text()) or content_words(bounded_query.get_dense_text()):
            unique_queries.setdefault(
                (bounded_query.get_lexical_text().casefold(), bounded_query.get_dense_text().casefold()), bounded_query
            )
    return tuple(unique_queries.values())[:MAX_QUERIES]


@dataclass(frozen=True, slots=True)
class QueryResults:
    """The passages of one query, best first."""

    query: Query
    passages: Sequence[Passage]


def merge(original_results: QueryResults, results: Sequence[QueryResults], limit: int) -> list[Passage]:
    """Return at most `limit` passages: the best of each query, then the second of each, none twice.

    `original_results` holds the original question and its passages. They set the scale of the scores and are not part
    of the result. A passage that several queries found gets the highest of its scores.
    """
    passages_by_id: dict[str, Passage] = {}
    for passage in chain.from_iterable(
        zip_longest(*(_rescale_scores(original_results, query_results) for query_results in results))
    ):
        if passage is not None:
            passages_by_id[passage.id] = merge_scores(passages_by_id.get(passage.id, passage), passage)
    return list(passages_by_id.values())[:limit]


def _rescale_scores(original_results: QueryResults, query_results: QueryResults) -> list[Passage]:
    """Return a query's passages with the similarities to a written answer (HyDE) on the scale of the question's."""
    if query_results.query == original_results.query:
        return list(query_results.passages)
    original_max = max((passage.similarity for passage in original_results.passages), default=0.0)
    query_max = max((passage.similarity for passage in query_results.passages), default=0.0)
    dense_factor = original_max / query_max if query_results.query.dense and 0 < original_max < query_max else 1.0
    return [replace(passage, similarity=passage.similarity * dense_factor) for passage in query_results.passages]
