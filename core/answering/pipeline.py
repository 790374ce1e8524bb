"""The seven steps from a question to a cited reply (docs/architecture.md).

They name no platform and catch no failure: exceptions reach the handler of messages, which tells the asker. The
reply's trace names each stage whose fallback was used.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from core.answering.agents.code_check import mark_unknown_names
from core.answering.agents.conversation import strip_old_marks, validate_question
from core.answering.agents.files import describe_attachments
from core.answering.agents.history_selection import HistorySelector
from core.answering.agents.look_back import get_known_text, look_back, verify_citations
from core.answering.agents.quoting import say_nothing_found
from core.answering.agents.reranker import select_evidence
from core.answering.agents.summarizer import wait_for_open, write_answer
from core.answering.context import AnswerDependencies, AnswerInputs, RetrievalResult
from core.answering.head_start import HeadStart
from core.answering.strategies import router
from core.catalogue import messages_for
from core.citations.markers import resolve_markers
from core.errors import AnswerStopped
from core.language.languages import get_asker_language
from core.ports import Sink
from core.runtime.budget import Budget
from core.runtime.tasks import ends_when, task_group
from core.types import Question, Reply


async def answer(question: Question, sink: Sink, deps: AnswerDependencies, budget: Budget | None = None) -> Reply:
    """Answer one question into its sink and return the reply.

    `budget` is the question's, if it has one already. Raises `UsageError` for an empty or overlong question,
    `PlatformError` when the sink cannot be written, and the failures of stages that have no fallback.
    """
    validate_question(question)
    question = strip_old_marks(question)
    prompts = deps.prompts.for_language(get_asker_language(question))
    deps = replace(deps, prompts=prompts, is_asked=not question.is_unprompted)
    budget = budget or Budget(deps.settings.budget)
    try:
        async with task_group() as tasks:
            # The search does not wait until the platform shows that an answer is coming.
            opening = tasks.create_task(sink.open())
            async with ends_when(question.stop):
                # 1 look
                attached = await describe_attachments(question, deps, budget)
                # 2 understand, 3 gather, 4 select
                inputs = await _prepare(attached.question, deps, budget, tasks)
                await wait_for_open(opening, budget)
            # 5 write
            draft = await write_answer(inputs, sink, deps, budget)
    except AnswerStopped:
        return await finish_unwritten(sink, deps, budget)
    retrieval = inputs.retrieval
    if draft.is_extractive:
        cited_answer = resolve_markers(draft.text, draft.passages or retrieval.passages)
    else:
        known = get_known_text(attached.question, deps.settings)
        was_stopped = budget.degrade_reasons.get("write") == "stopped"
        # 6 cite
        show = None if was_stopped else sink.update
        cited_answer = await verify_citations(draft.text, retrieval.passages, deps, budget, known=known, show=show)
        # 7 look back
        if not was_stopped:
            cited_answer = await look_back(cited_answer, retrieval.passages, deps, budget, known=known)
            marked_text = await mark_unknown_names(cited_answer.text, deps, budget)
            cited_answer = replace(cited_answer, text=marked_text)
    if cited_answer.finds_nothing and not cited_answer.text:
        cited_answer = replace(cited_answer, text=say_nothing_found(deps))
    trace = retrieval.to_trace(budget, cited_answer.dropped_count, cited_answer.moved_count)
    reply_text = attached.with_note(cited_answer.text)
    description = attached.description
    reply = Reply(
        reply_text,
        cited_answer.citations,
        retrieval.passages,
        draft.is_extractive,
        trace,
        description,
        failure=draft.failure,
        nearest_pages=draft.nearest_pages,
        found_nothing=cited_answer.finds_nothing,
    )
    await sink.finish(reply)
    return reply


async def finish_unwritten(sink: Sink, deps: AnswerDependencies, budget: Budget) -> Reply:
    """Finish an answer that was stopped before anything of it was written."""
    budget.degrade("write", "stopped")
    trace = RetrievalResult("", (), (), "none").to_trace(budget)
    reply = Reply(messages_for(deps.prompts.language).answer_stopped, trace=trace)
    await sink.finish(reply)
    return reply


async def _prepare(
    question: Question, deps: AnswerDependencies, budget: Budget, tasks: asyncio.TaskGroup
) -> AnswerInputs:
    """Return the evidence for the answer. The steps overlap, and a head start may begin meanwhile."""
    if not question.text.strip():
        return AnswerInputs(question, RetrievalResult("", (), (), "none"))
    # 2 understand
    selector = HistorySelector.start(question, deps, budget, tasks, skip=not router.may_use_history(question, deps))
    head_start = HeadStart(question, deps, budget, tasks)
    # One that begins before the selection would have the whole conversation, and no analysis.
    on_partial_result = None if selector.is_needed else head_start.start_from_partial_result
    try:
        # 3 gather
        retrieval = await router.gather(question, deps, budget, on_partial_result)
        # 4 select
        retrieval = await select_evidence(retrieval, deps, budget)
        inputs = head_start.accept_if_valid(retrieval) or AnswerInputs(await selector.wait_for_question(), retrieval)
    except BaseException:
        head_start.discard()
        raise
    selector.close(inputs.question)
    return inputs
