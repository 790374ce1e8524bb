"""Running an agent's rewrites: in the order of its list, inside the stage's share, each with a part of the time.

What one does not use goes to those after it. `keyword` and `hyde`, next to each other, run at once: they change
different sides of a query.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import entry_points
from itertools import chain, zip_longest

from core.answering.rewriting.base import MAX_QUERY_CHARS, Query, Rewrite, RewriteContext, rule
from core.answering.rewriting.decompose import decompose
from core.answering.rewriting.hyde import MAX_PASSAGE_CHARS, hyde
from core.answering.rewriting.keyword import keyword
from core.answering.rewriting.prompt import prompt
from core.answering.rewriting.retrieval import retrieval
from core.answering.rewriting.translation import translation
from core.errors import UsageError
from core.runtime.tasks import task_group
from core.settings.answering import REWRITES_GROUP
from core.text.keywords import content_words
from core.types import Passage


@dataclass(frozen=True, slots=True)
class Hits:
    """What one query found, best first."""

    query: Query
    passages: Sequence[Passage]


def merge(asked: Hits, found: Sequence[Hits], limit: int) -> list[Passage]:
    """Return at most `limit` passages: of every query the best, then of every query the second, none twice.

    `asked` is the question as it is and what it found, which is the measure and not part of the result. A passage that
    several queries found has the highest of its scores.
    """
    best: dict[str, Passage] = {}
    for passage in chain.from_iterable(zip_longest(*(_measured(asked, hits) for hits in found))):
        if passage is not None:
            best[passage.id] = _joined(best.get(passage.id, passage), passage)
    return list(best.values())[:limit]


def _joined(one: Passage, other: Passage) -> Passage:
    return replace(
        one,
        similarity=max(one.similarity, other.similarity),
        lexical=max(one.lexical, other.lexical),
        score=max(one.score, other.score),
    )


def _measured(asked: Hits, hits: Hits) -> list[Passage]:
    """Return what a query found in the measure of the question."""
    if hits.query == asked.query:
        return list(hits.passages)
    words = len(content_words(asked.query.text)) or 1
    per_word = min(1.0, words / max(1, len(content_words(hits.query.lexical()))))
    near = max((one.similarity for one in asked.passages), default=0.0)
    nearest = max((one.similarity for one in hits.passages), default=0.0)
    closeness = near / nearest if hits.query.dense and 0 < near < nearest else 1.0
    return [
        replace(one, lexical=one.lexical * per_word, similarity=one.similarity * closeness) for one in hits.passages
    ]


MOST_QUERIES = 4
BUILT_IN: Mapping[str, Rewrite] = {
    "prompt": prompt,
    "retrieval": retrieval,
    "keyword": keyword,
    "hyde": hyde,
    "translation": translation,
    "rule": rule,
    "decompose": decompose,
}
SIDES = frozenset(("keyword", "hyde"))


async def rewrite(query: Query, context: RewriteContext) -> tuple[Query, ...]:
    """Return the queries to search in place of one, at most four, none twice, by the context's `agent.rewrites`.

    Takes no longer than the context's `ends`, so long as nobody blocks the event loop.
    """
    steps = _steps(context.agent.rewrites)
    queries: tuple[Query, ...] = (query,)
    with context.budget.timed("requery"):
        for number, step in enumerate(steps):
            share = context.remaining() / (len(steps) - number)
            here = replace(context, ends=time.monotonic() + share)
            queries = _usable(await _stepped(step, queries, here)) or queries
    return queries


def load(name: str) -> Rewrite:
    """Return the rewrite of a name. Raises `UsageError` where none is installed, or whatever its import raises."""
    return BUILT_IN.get(name) or _plugged_in(name)


# Reading what all installed packages offer takes a while; it does not change while the process runs.
@lru_cache
def _plugged_in(name: str) -> Rewrite:
    found = next(iter(entry_points(group=REWRITES_GROUP, name=name)), None)
    if found is None:
        raise UsageError(f"no rewrite is named {name!r}: no installed package offers it under {REWRITES_GROUP}")
    loaded: Rewrite = found.load()
    return loaded


def _steps(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the names in steps, one after the other; those of one step run at once."""
    steps: list[tuple[str, ...]] = []
    for name in names:
        if steps and {*steps[-1], name} == SIDES:
            steps[-1] = ("keyword", "hyde")
        else:
            steps.append((name,))
    return steps


async def _stepped(step: Sequence[str], queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    if len(step) == 1:
        return await _run(step[0], queries, context)
    async with task_group() as tasks:
        words = tasks.create_task(keyword(queries, context))
        meanings = tasks.create_task(hyde(queries, context))
    pairs = zip(words.result(), meanings.result(), strict=True)
    return [replace(one, dense=other.dense) for one, other in pairs]


async def _run(name: str, queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Run one rewrite. One that is not ours may raise anything: then the queries stay as they are."""
    if name in BUILT_IN:
        return await BUILT_IN[name](queries, context)
    stage = f"rewrite_{name}"
    try:
        # Its import may take long.
        own = await context.within(stage, asyncio.to_thread(load, name))
        made = tuple(map(_checked, await context.within(stage, own(queries, context)) or ())) if own else ()
    except Exception as fault:  # Whatever somebody else's code raises, the question is answered.
        context.cut(stage, f"{type(fault).__name__}: {fault}")
        return queries
    return made


def _checked(made: object) -> Query:
    """Return what is a query of three texts. Raises `TypeError`."""
    if not isinstance(made, Query):
        raise TypeError(f"it returned a {type(made).__name__} among its queries")
    texts: tuple[object, ...] = (made.text, made.words, made.dense)
    others = [type(text).__name__ for text in texts if not isinstance(text, str)]
    if others:
        raise TypeError(f"it returned a query with a {others[0]} for a text")
    return made


def _usable(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return the queries that say something, none twice, none too long, and no more than can be searched."""
    kept: dict[tuple[str, str], Query] = {}
    for query in queries:
        short = Query(query.text[:MAX_QUERY_CHARS], query.words[:MAX_QUERY_CHARS], query.dense[:MAX_PASSAGE_CHARS])
        if content_words(short.lexical()) or content_words(short.meaning()):
            kept.setdefault((short.lexical().casefold(), short.meaning().casefold()), short)
    return tuple(kept.values())[:MOST_QUERIES]
