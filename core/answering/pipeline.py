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
from core.answering.agents.history_selection import ContextualQuestion, HistorySelector
from core.answering.agents.look_back import look_back
from core.answering.agents.reranker import rerank
from core.answering.agents.vision import describe_images
from core.answering.context.dependencies import AnswerDependencies
from core.answering.context.retrieval_result import RetrievalResult
from core.answering.speculation import SpeculativeAnswer
from core.answering.strategies import router as strategy_router
from core.errors import ModelError, UsageError
from core.grounding.citation_check import verify_citations
from core.grounding.citations import ResolvedCitations, resolve_markers, trim_partial_marker
from core.grounding.selection import apply_source_weights, lost_in_the_middle_order, select
from core.observability.logs import get_logger
from core.ports import Sink
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.text.language import detect_language
from core.text.messages import messages_for
from core.types import Passage, Question, Reply, Trace

UPDATE_INTERVAL_S = 0.05
OPEN_TIMEOUT_S, OPEN_TIMEOUT_SHARE = 2.0, 0.2


async def answer(question: Question, sink: Sink, deps: AnswerDependencies, budget: Budget | None = None) -> Reply:
    """Answer one question into its sink and return the reply. `budget` is the one it has begun with, if any.

    Raises `UsageError` for an empty or overlong question, `PlatformError` when the sink cannot be written, and whatever
    a stage without a stand-in raises.
    """
    _validate_question(question, deps)
    deps = replace(
        deps, prompts=deps.prompts.for_language(detect_language(question.text or _last_asker_text(question)))
    )
    budget = budget or Budget(deps.settings.budget)
    async with task_group() as tasks:
        # The first sign of life must not hold up the search.
        open_task = tasks.create_task(sink.open())
        image_description = await describe_images(question, deps, budget)
        question = image_description.question
        if question.text.strip():
            contextual_question, retrieval, writing_deps = await _prepare(question, deps, budget, tasks)
            await _wait_for_open(open_task, budget)
            text, is_extractive = await _write(contextual_question, retrieval, sink, writing_deps, budget)
        else:
            await _wait_for_open(open_task, budget)
            retrieval, text, is_extractive = RetrievalResult("", (), (), "none"), "", True
    cited_answer = await _cite(text, retrieval.passages, is_extractive, deps, budget, question=question.text)
    reply_text, trace = image_description.with_note(cited_answer.text), _trace(retrieval, cited_answer, budget)
    reply = Reply(
        reply_text, cited_answer.citations, retrieval.passages, is_extractive, trace, image_description.description
    )
    await sink.finish(reply)
    return reply


def _last_asker_text(question: Question) -> str:
    """Return the asker's last words: a picture alone tells no language."""
    return next((turn.text for turn in reversed(question.history) if turn.author_id == question.author_id), "")


def _validate_question(question: Question, deps: AnswerDependencies) -> None:
    max_chars = deps.settings.answer.max_question_chars
    if not question.text.strip() and not question.image_loaders:
        raise UsageError("The question is empty. Ask with a few words, for example: How do I install it?")
    if len(question.text) > max_chars:
        raise UsageError(
            f"The question has {len(question.text)} characters; {max_chars} are allowed. "
            "Shorten it, and keep the error message and what you tried."
        )


async def _wait_for_open(open_task: asyncio.Task[None], budget: Budget) -> None:
    """Wait for the first sign of life; one that hangs is given up, for the answer itself matters more."""
    await asyncio.wait((open_task,), timeout=min(OPEN_TIMEOUT_S, OPEN_TIMEOUT_SHARE * budget.remaining()))
    if not open_task.done():
        budget.degrade("open", "late")
        get_logger(__name__).warning("sink.opening_hangs")
        open_task.cancel()


async def _prepare(
    question: Question, deps: AnswerDependencies, budget: Budget, tasks: asyncio.TaskGroup
) -> tuple[Question, RetrievalResult, AnswerDependencies]:
    """Return what the answer is written from: the question with what matters of its conversation, and the evidence.

    The parts that come with them hold the answer itself where it could be begun already.
    """
    if deps.model is None:
        return (
            question,
            await _select_evidence(await strategy_router.gather(question, deps, budget), deps, budget),
            deps,
        )
    skip_selection = strategy_router.rule_based_strategy(question, deps) in ("none", "simple")
    selector = HistorySelector.start(question, deps, budget, tasks, skip=skip_selection)
    speculation = SpeculativeAnswer(deps.model, deps, budget, tasks)

    def start_speculation(partial_result: RetrievalResult) -> None:
        speculation.start(lambda: _select_evidence(partial_result, deps, budget), selector.get_partial_question)

    on_partial_result = start_speculation if deps.settings.context.head_start else None
    retrieval = await _select_evidence(
        await strategy_router.gather(question, deps, budget, on_partial_result), deps, budget
    )
    contextual_question, retrieval = speculation.accept_if_valid(retrieval) or await _wait_for_selection(
        retrieval, selector, speculation, deps
    )
    selector.close(contextual_question)
    return contextual_question, retrieval, replace(deps, model=speculation)


async def _wait_for_selection(
    retrieval: RetrievalResult, selector: HistorySelector, speculation: SpeculativeAnswer, deps: AnswerDependencies
) -> tuple[Question, RetrievalResult]:
    """Wait for the selection and return the question with it; the answer is begun on what the rules guess of it."""
    speculation.discard()
    if deps.settings.context.head_start and retrieval.passages and selector.is_pending():

        async def get_retrieval() -> RetrievalResult:
            return retrieval

        speculation.start(get_retrieval, selector.get_rule_based_question)
    contextual_question = await selector.wait_for_question()
    accepted_answer = speculation.accept_if_valid(retrieval)
    if (
        accepted_answer
        and isinstance(contextual_question, ContextualQuestion)
        and accepted_answer[0].history == contextual_question.history
    ):
        return accepted_answer
    speculation.discard()
    return contextual_question, retrieval


async def _select_evidence(retrieval: RetrievalResult, deps: AnswerDependencies, budget: Budget) -> RetrievalResult:
    ranked: Sequence[Passage] = retrieval.passages
    if not retrieval.is_ranked:
        ranked = await rerank(retrieval.query, retrieval.passages, deps, budget)
    settings = deps.settings
    await deps.turnstile.yield_turn()
    selected_passages = select(
        apply_source_weights(ranked, settings.evidence.weights, is_ranked=retrieval.is_ranked),
        limit=settings.answer.passages,
        max_tokens=settings.evidence_tokens(),
        duplicate_threshold=settings.evidence.duplicates,
        layout=settings.evidence.layout,
    )
    # What is quoted without a model goes by rank.
    if deps.model and settings.evidence.order == "edges":
        selected_passages = lost_in_the_middle_order(selected_passages)
    return replace(retrieval, passages=tuple(selected_passages))


def _with_talk_prompt(deps: AnswerDependencies) -> AnswerDependencies:
    """Return the parts with the summarizer's other instructions: for a message that nothing was searched for."""
    templates = deps.prompts.templates
    return replace(deps, prompts=replace(deps.prompts, templates={**templates, "summarizer": templates["talk"]}))


async def _write(
    question: Question, retrieval: RetrievalResult, sink: Sink, deps: AnswerDependencies, budget: Budget
) -> tuple[str, bool]:
    """Return the answer with passage ids, and whether it is extractive."""
    query, passages = retrieval.query, retrieval.passages
    if deps.model is None:
        with budget.timed("write"):
            return await summarizer.quote_passages(query, passages, deps, budget), True
    text, next_update = "", 0.0
    messages = messages_for(deps.prompts.language)
    prompt_deps = deps if retrieval.was_searched else _with_talk_prompt(deps)
    with budget.timed("write"):
        try:
            chunks = summarizer.stream_answer(
                question, passages, deps.model, prompt_deps, budget, low_quality_reason=retrieval.low_quality_reason()
            )
            async with aclosing(chunks):
                async for chunk in chunks:
                    if not text:
                        budget.record_time("first_token")
                    text += chunk
                    # The whole text is read anew each time: for every token of a long answer that would add up.
                    if time.monotonic() >= next_update:
                        await sink.update(resolve_markers(trim_partial_marker(text), passages).text)
                        next_update = time.monotonic() + UPDATE_INTERVAL_S
        except ModelError as error:
            budget.degrade("write", "failed" if budget.remaining() else "late")
            get_logger(__name__).warning("write.failed", error=str(error), characters=len(text))
            if text.strip():
                return f"{text.rstrip()} …\n\n{messages.answer_interrupted}", False
        if text.strip():
            return text, False
        budget.degrade("write", "unreadable")
        if not retrieval.was_searched:
            return messages.llm_failed, False
        return await summarizer.quote_passages(query, passages, deps, budget, messages.fallback), True


async def _cite(
    text: str,
    passages: Sequence[Passage],
    is_extractive: bool,
    deps: AnswerDependencies,
    budget: Budget,
    *,
    question: str = "",
) -> ResolvedCitations:
    if is_extractive or not passages or deps.model is None:
        return resolve_markers(text, passages)
    cited_answer = await verify_citations(text, passages, deps, budget, question=question)
    if cited_answer.citations:
        return cited_answer
    marked_text = await look_back(cited_answer.text, passages, deps.model, deps, budget, question=question)
    marked_answer = await verify_citations(marked_text, passages, deps, budget, question=question, allow_bare=False)
    return ResolvedCitations(marked_answer.text, marked_answer.citations, cited_answer.dropped_count)


def _trace(retrieval: RetrievalResult, cited_answer: ResolvedCitations, budget: Budget) -> Trace:
    budget.record_time("total")
    return Trace(
        retrieval.query,
        retrieval.strategy,
        retrieval.agents,
        budget.timings_ms,
        tuple(budget.degraded),
        cited_answer.dropped_count,
        dict(budget.tokens),
        dict(budget.cost),
        why_cut=dict(budget.degrade_reasons),
        rounds=retrieval.rounds,
    )
