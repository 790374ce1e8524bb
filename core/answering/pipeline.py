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

from core.answering.agents import summarizer
from core.answering.agents.history_selection import Selecting, Understood
from core.answering.agents.look_back import look_back
from core.answering.agents.reranker import rerank
from core.answering.agents.vision import look
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.answering.speculation import HeadStart
from core.answering.strategies import router as strategy_router
from core.errors import ModelError, UsageError
from core.grounding.citation_check import resolve_supported
from core.grounding.citations import Cited, resolve, settled
from core.grounding.selection import ends_first, select, weigh
from core.observability.logs import logger
from core.ports import Sink
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.text.language import language_of
from core.text.messages import notes_in
from core.types import Passage, Question, Reply, Trace

UPDATE_S = 0.05
OPEN_S, OPEN_SHARE = 2.0, 0.2


async def answer(question: Question, sink: Sink, parts: Parts, budget: Budget | None = None) -> Reply:
    """Answer one question into its sink and return the reply. `budget` is the one it has begun with, if any.

    Raises `UsageError` for an empty or overlong question, `PlatformError` when the sink cannot be written, and whatever
    a stage without a stand-in raises.
    """
    _refuse_unusable(question, parts)
    parts = replace(parts, prompts=parts.prompts.spoken(language_of(question.text or _said_before(question))))
    budget = budget or Budget(parts.settings.budget)
    async with task_group() as tasks:
        # The first sign of life must not hold up the search.
        opening = tasks.create_task(sink.open())
        looked = await look(question, parts, budget)
        question = looked.question
        if question.text.strip():
            told, gathered, ready = await _prepared(question, parts, budget, tasks)
            await _opened(opening, budget)
            text, extractive = await _write(told, gathered, sink, ready, budget)
        else:
            await _opened(opening, budget)
            gathered, text, extractive = Gathered("", (), (), "none"), "", True
    cited = await _cite(text, gathered.passages, extractive, parts, budget, asked=question.text)
    shown, trace = looked.noted(cited.text), _trace(gathered, cited, budget)
    reply = Reply(shown, cited.citations, gathered.passages, extractive, trace, looked.seen)
    await sink.finish(reply)
    return reply


def _said_before(question: Question) -> str:
    """Return the asker's last words: a picture alone tells no language."""
    return next((turn.text for turn in reversed(question.history) if turn.author_id == question.author_id), "")


def _refuse_unusable(question: Question, parts: Parts) -> None:
    limit = parts.settings.answer.max_question_chars
    if not question.text.strip() and not question.pictures:
        raise UsageError("The question is empty. Ask with a few words, for example: How do I install it?")
    if len(question.text) > limit:
        raise UsageError(
            f"The question has {len(question.text)} characters; {limit} are allowed. "
            "Shorten it, and keep the error message and what you tried."
        )


async def _opened(opening: asyncio.Task[None], budget: Budget) -> None:
    """Wait for the first sign of life; one that hangs is given up, for the answer itself matters more."""
    await asyncio.wait((opening,), timeout=min(OPEN_S, OPEN_SHARE * budget.remaining()))
    if not opening.done():
        budget.cut_off("open", "late")
        logger(__name__).warning("sink.opening_hangs")
        opening.cancel()


async def _prepared(
    question: Question, parts: Parts, budget: Budget, tasks: asyncio.TaskGroup
) -> tuple[Question, Gathered, Parts]:
    """Return what the answer is written from: the question with what matters of its conversation, and the evidence.

    The parts that come with them hold the answer itself where it could be begun already.
    """
    if parts.model is None:
        return question, await _filter(await strategy_router.gather(question, parts, budget), parts, budget), parts
    plain = strategy_router.by_rule(question, parts) in ("none", "simple")
    selecting = Selecting.begin(question, parts, budget, tasks, plain=plain)
    ahead = HeadStart(parts.model, parts, budget, tasks)

    def early(found: Gathered) -> None:
        ahead.begin(lambda: _filter(found, parts, budget), selecting.so_far)

    begin = early if parts.settings.context.head_start else None
    gathered = await _filter(await strategy_router.gather(question, parts, budget, begin), parts, budget)
    told, gathered = ahead.begun_on(gathered) or await _selected(gathered, selecting, ahead, parts)
    selecting.close(told)
    return told, gathered, replace(parts, model=ahead)


async def _selected(
    gathered: Gathered, selecting: Selecting, ahead: HeadStart, parts: Parts
) -> tuple[Question, Gathered]:
    """Wait for the selection and return the question with it; the answer is begun on what the rules guess of it."""
    ahead.drop()
    if parts.settings.context.head_start and gathered.passages and selecting.waiting():

        async def same() -> Gathered:
            return gathered

        ahead.begin(same, selecting.guessed)
    told = await selecting.understood()
    begun = ahead.begun_on(gathered)
    if begun and isinstance(told, Understood) and begun[0].history == told.history:
        return begun
    ahead.drop()
    return told, gathered


async def _filter(gathered: Gathered, parts: Parts, budget: Budget) -> Gathered:
    ranked: Sequence[Passage] = gathered.passages
    if not gathered.ranked:
        ranked = await rerank(gathered.query, gathered.passages, parts, budget)
    settings = parts.settings
    await parts.turns.next()
    best = select(
        weigh(ranked, settings.evidence.weights, ordered=gathered.ranked),
        limit=settings.answer.passages,
        tokens=settings.evidence_tokens(),
        duplicates=settings.evidence.duplicates,
        layout=settings.evidence.layout,
    )
    # What is quoted without a model goes by rank.
    if parts.model and settings.evidence.order == "edges":
        best = ends_first(best)
    return replace(gathered, passages=tuple(best))


def _told_of_no_search(parts: Parts) -> Parts:
    """Return the parts with the summarizer's other instructions: for a message that nothing was searched for."""
    templates = parts.prompts.templates
    return replace(parts, prompts=replace(parts.prompts, templates={**templates, "summarizer": templates["talk"]}))


async def _write(question: Question, gathered: Gathered, sink: Sink, parts: Parts, budget: Budget) -> tuple[str, bool]:
    """Return the answer with passage ids, and whether it is extractive."""
    query, passages = gathered.query, gathered.passages
    if parts.model is None:
        with budget.timed("write"):
            return await summarizer.quote(query, passages, parts, budget), True
    text, next_update = "", 0.0
    notes = notes_in(parts.prompts.language)
    told = parts if gathered.searched else _told_of_no_search(parts)
    with budget.timed("write"):
        try:
            pieces = summarizer.stream(question, passages, parts.model, told, budget, doubt=gathered.doubt())
            async with aclosing(pieces):
                async for piece in pieces:
                    if not text:
                        budget.mark("first_token")
                    text += piece
                    # The whole text is read anew each time: for every token of a long answer that would add up.
                    if time.monotonic() >= next_update:
                        await sink.update(resolve(settled(text), passages).text)
                        next_update = time.monotonic() + UPDATE_S
        except ModelError as fault:
            budget.cut_off("write", "failed" if budget.remaining() else "late")
            logger(__name__).warning("write.failed", error=str(fault), characters=len(text))
            if text.strip():
                return f"{text.rstrip()} …\n\n{notes.cut}", False
        if text.strip():
            return text, False
        budget.cut_off("write", "unreadable")
        if not gathered.searched:
            return notes.no_reply, False
        return await summarizer.quote(query, passages, parts, budget, notes.fallback), True


async def _cite(
    text: str, passages: Sequence[Passage], extractive: bool, parts: Parts, budget: Budget, *, asked: str = ""
) -> Cited:
    if extractive or not passages or parts.model is None:
        return resolve(text, passages)
    cited = await resolve_supported(text, passages, parts, budget, asked=asked)
    if cited.citations:
        return cited
    looked = await look_back(cited.text, passages, parts.model, parts, budget, asked=asked)
    again = await resolve_supported(looked, passages, parts, budget, asked=asked, bare=False)
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
        why_cut=dict(budget.why_cut),
        rounds=gathered.rounds,
    )
