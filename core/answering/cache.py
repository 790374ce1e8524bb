"""Answering again: the same question in the same chat gets its earlier reply, as long as nothing has changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

from core.errors import KimasError
from core.llm.prompts import Prompts
from core.observability.logs import logger
from core.ports import Library, Sink
from core.runtime.budget import Budget
from core.settings import Settings
from core.text.keywords import own_turns
from core.text.question_matching import normal, sense, stands_alone
from core.types import Citation, Passage, Question, Reply

if TYPE_CHECKING:
    from core.storage.answer_cache import AnswerCache, Asked, Kept

Result = TypeVar("Result")

# Raise it when what is kept, or when questions count as the same, changes.
FORMAT = 2
# Comparing questions must stay cheaper than answering.
COMPARING_S = 0.5
# How old a version may be that a reply is kept with, and one that it is given again by. A reply kept with an older one
# is merely made anew once.
KEPT_VERSION_S, GIVEN_VERSION_S = 60.0, 1.0
# The sections that have a part in making an answer. Of the templates their text counts, wherever they are.
PART = frozenset(
    ("name", "sources", "agents", "knowledge", "models", "answer", "context", "strategies", "budget", "evidence")
)

# Returns the version of each named source, at most so many seconds old; "" where it has none.
Versions = Callable[[Collection[str], float], Awaitable[Mapping[str, str]]]
Answer = Callable[[Question, Sink, Budget], Awaitable[Reply]]


# No reply to give again, and no versions to keep a new one with.
NOTHING: tuple[Kept | None, Mapping[str, str] | None] = (None, None)


@dataclass(frozen=True, slots=True)
class Repeated:
    """What giving an answer again needs: the replies kept, the library to compare questions with, and versions."""

    cache: AnswerCache
    library: Library
    versions: Versions
    sources: tuple[str, ...]
    similarity: float


async def answer_again(question: Question, sink: Sink, make: Answer, repeated: Repeated, budget: Budget) -> Reply:
    """Give an earlier reply again, or make one and keep it when it may be given again.

    A reply that is kept was made without any conversation: neither what somebody said of themselves nor what somebody
    planted in a group comes back to others. Whoever talked with the bot before gets an earlier reply for the same words
    only: who puts it otherwise may not have been content with it.

    What fails about the cache is logged, and the answer is made as if there were none; so it is when looking takes
    longer than the share `look_up` of the budget, which has begun with the question. Raises what `make` raises.
    """
    if question.pictures or question.unread or not stands_alone(question):
        return await make(question, sink, budget)
    talked = bool(own_turns(question.history, question.author_id))
    asked = _asked(question, by_sense=not talked)
    looking = _tried(_look_up(asked, repeated), NOTHING)
    kept, versions = await budget.within("look_up", looking, lambda: NOTHING)
    if kept:
        spent_ms = round(budget.elapsed_ms(), 2)
        reply = replace(kept.reply, trace=replace(kept.reply.trace, timings_ms={"total": spent_ms}))
        logger(__name__).info("answer.given_again", same_words=kept.same_words, spent_ms=spent_ms)
        await sink.finish(reply)
        return reply
    reply = await make(question if talked else replace(question, history=()), sink, budget)
    if versions and not talked and may_be_given_again(reply):
        cited = {one.source: versions.get(one.source, "") for one in reply.citations}
        # A source without a version, such as a search engine, cannot be seen to have changed.
        if all(cited.values()):
            await _tried(repeated.cache.keep(asked, reply, cited), None)
    return reply


def may_be_given_again(reply: Reply) -> bool:
    """Say whether a reply is good for others who ask the same: cited, and made without a stand-in."""
    return bool(reply.citations) and not reply.trace.cut and not reply.trace.cached


def fingerprint(settings: Settings, prompts: Prompts) -> str:
    """Return a fingerprint of all that makes answers, besides the knowledge itself: configuration and templates."""
    shape = [[field.name for field in fields(kind)] for kind in (Citation, Passage)]
    made_by = [FORMAT, shape, settings.model_dump(mode="json", include=set(PART)), asdict(prompts)]
    return hashlib.sha256(json.dumps(made_by, sort_keys=True, default=str).encode()).hexdigest()


def _asked(question: Question, *, by_sense: bool) -> Asked:
    from core.storage.answer_cache import Asked, scope_of

    return Asked(
        scope_of(question.key, closed=question.closed),
        question.text,
        normal(question.text),
        sense(question.text) if by_sense else "",
    )


async def _look_up(asked: Asked, repeated: Repeated) -> tuple[Kept | None, Mapping[str, str] | None]:
    """Return the reply to give again, or else the versions to keep a new one with."""
    candidates = await repeated.cache.find(asked)
    fresh: list[Kept] = []
    if candidates:
        sources = {source for one in candidates for source in one.versions}
        versions = await repeated.versions(sources, GIVEN_VERSION_S)
        fresh = [one for one in candidates if all(versions.get(name) == was for name, was in one.versions.items())]
        if stale := [one.number for one in candidates if one not in fresh]:
            await repeated.cache.drop(stale)
    if chosen := await _closest(asked, fresh, repeated):
        return chosen, None
    # Taken before the answer is made: if a source changes meanwhile, the reply is not given again.
    return None, await repeated.versions(repeated.sources, KEPT_VERSION_S)


async def _closest(asked: Asked, candidates: list[Kept], repeated: Repeated) -> Kept | None:
    if not candidates or candidates[0].same_words:
        return candidates[0] if candidates else None
    try:
        async with asyncio.timeout(COMPARING_S):
            cosines = await repeated.library.similarity(asked.text, [one.asked for one in candidates])
    except TimeoutError:
        logger(__name__).warning("questions.not_compared", allowed_s=COMPARING_S)
        return None
    best = max(range(len(candidates)), key=lambda at: cosines[at])
    return candidates[best] if cosines[best] >= repeated.similarity else None


async def _tried(work: Awaitable[Result], otherwise: Result) -> Result:
    try:
        return await work
    except KimasError as fault:
        logger(__name__).error("cache.failed", error=str(fault))
        return otherwise
