"""The straight line from a question to a cited reply.

It names no platform and handles no failure: what goes wrong leaves by exception to the one place that tells the asker.
Only the budget's stand-ins are used on the way; the reply's trace says which.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from core.agents import strategy_router, summarizer
from core.agents.look_back import look_back
from core.budget import Budget
from core.citations import Cited, resolve, settled
from core.errors import ModelError, UsageError
from core.evidence import select
from core.logs import logger
from core.parts import Parts
from core.ports import Sink
from core.prompts import Prompts
from core.strategies import Gathered
from core.strategies.searching import by_score
from core.tasks import task_group
from core.types import Passage, Question, Reply, Trace

UPDATE_S = 0.05
OPEN_S = 2.0
NO_REPLY = "The language model could not answer. Please try again in a moment."


async def answer(question: Question, sink: Sink, parts: Parts) -> Reply:
    """Answer one question into its sink and return the reply.

    Raises `UsageError` for an empty or overlong question, `PlatformError` when the sink cannot be written, and whatever
    a stage without a stand-in raises.
    """
    _refuse_unusable(question, parts)
    budget = Budget(parts.settings.budget)
    async with task_group() as tasks:
        # The first sign of life must not hold up the search.
        opening = tasks.create_task(sink.open())
        gathered = await _filter(await strategy_router.gather(question, parts, budget), parts, budget)
        await _opened(opening, budget)
    text, extractive = await _write(question, gathered, sink, parts, budget)
    cited = await _cite(text, gathered.passages, extractive, parts, budget)
    reply = Reply(cited.text, cited.citations, gathered.passages, extractive, _trace(gathered, cited, budget))
    await sink.finish(reply)
    return reply


def _refuse_unusable(question: Question, parts: Parts) -> None:
    limit = parts.settings.answer.max_question_chars
    if not question.text.strip():
        raise UsageError("The question is empty. Ask with a few words, for example: How do I install it?")
    if len(question.text) > limit:
        raise UsageError(
            f"The question has {len(question.text)} characters; {limit} are allowed. "
            "Shorten it, and keep the error message and what you tried."
        )


async def _opened(opening: asyncio.Task[None], budget: Budget) -> None:
    """Wait for the first sign of life; one that hangs is given up, for the answer itself matters more."""
    await asyncio.wait((opening,), timeout=min(OPEN_S, budget.remaining()))
    if not opening.done():
        logger(__name__).warning("sink.opening_hangs")
        opening.cancel()


async def _filter(gathered: Gathered, parts: Parts, budget: Budget) -> Gathered:
    ranked: Sequence[Passage] = gathered.passages
    if not gathered.ranked:
        reranking = parts.reranker.rerank(gathered.query, gathered.passages)
        ranked = await budget.within("rerank", reranking, lambda: by_score(gathered.passages))
    best = select(ranked, limit=parts.settings.answer.passages, tokens=parts.settings.evidence_tokens())
    return replace(gathered, passages=tuple(best))


def _told_of_no_search(parts: Parts) -> Parts:
    """Return the parts with the summarizer's other instructions: for a message that nothing was searched for."""
    templates = parts.prompts.templates
    return replace(parts, prompts=Prompts({**templates, "summarizer": templates["talk"]}))


async def _write(question: Question, gathered: Gathered, sink: Sink, parts: Parts, budget: Budget) -> tuple[str, bool]:
    """Return the answer with passage ids, and whether it is extractive."""
    query, passages = gathered.query, gathered.passages
    if parts.model is None:
        with budget.timed("write"):
            return await summarizer.quote(query, passages, parts, budget), True
    text, next_update = "", 0.0
    told = parts if gathered.searched else _told_of_no_search(parts)
    with budget.timed("write"):
        try:
            async with aclosing(summarizer.stream(question, passages, parts.model, told, budget)) as pieces:
                async for piece in pieces:
                    if not text:
                        budget.mark("first_token")
                    text += piece
                    # The whole text is read anew each time: for every token of a long answer that would add up.
                    if time.monotonic() >= next_update:
                        await sink.update(resolve(settled(text), passages).text)
                        next_update = time.monotonic() + UPDATE_S
        except ModelError as fault:
            budget.cut_off("write")
            logger(__name__).warning("write.failed", error=str(fault), characters=len(text))
            if text.strip():
                return f"{text.rstrip()} …\n\n{summarizer.CUT_NOTE}", False
        if text.strip():
            return text, False
        budget.cut_off("write")
        if not gathered.searched:
            return NO_REPLY, False
        note = summarizer.FALLBACK_NOTE
        return await summarizer.quote(query, passages, parts, budget, note), True


async def _cite(text: str, passages: Sequence[Passage], extractive: bool, parts: Parts, budget: Budget) -> Cited:
    cited = resolve(text, passages)
    if cited.citations or extractive or not passages or parts.model is None:
        return cited
    looked = await look_back(cited.text, passages, parts.model, parts, budget)
    again = resolve(looked, passages)
    return Cited(again.text, again.citations, cited.dropped)


def _trace(gathered: Gathered, cited: Cited, budget: Budget) -> Trace:
    budget.mark("total")
    return Trace(
        gathered.query,
        gathered.strategy,
        gathered.agents,
        budget.timings_ms,
        tuple(budget.cut),
        cited.dropped,
        dict(budget.tokens),
        dict(budget.cost),
    )
