"""The summarizer: streams the answer that the model writes from the evidence (KIMAs 3.4), or quotes the evidence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from core.answering.agents.conversation import fence_turn
from core.answering.agents.history_selection import ContextualQuestion, get_speaker_labels, to_asked_by_attribute
from core.answering.agents.outgoing import OutgoingText
from core.answering.agents.quoting import WrittenAnswer, is_unread, quote_passages
from core.answering.context import AnswerDependencies, AnswerInputs, RetrievalResult
from core.catalogue import Messages, messages_for
from core.citations.markers import find_markers, resolve_markers, trim_partial_marker
from core.errors import AnswerStopped, KimasError, ModelError, ReplyCut
from core.evidence.rendering import escape_delimiters, render_passages
from core.formatting import with_description
from core.language.languages import language_name, to_language_code
from core.language.tokens import count_cjk, estimate_tokens
from core.llm.prompts import Prompts
from core.llm.reasoning import append_visible
from core.llm.repetition import RepeatingReply, RepetitionDetector
from core.observability.logs import get_logger
from core.ports import ChatModel, Sink
from core.runtime.budget import Budget
from core.runtime.tasks import ends_when
from core.types import Question, Turn

_log = get_logger(__name__)

MAX_HISTORY_TOKENS = 1500
UPDATE_INTERVAL_S = 0.05
# It stands beside the judgement, so that prompts without one are shorter.
JUDGEMENT_RULE = "Give what it does say, and tell the asker plainly which part of the question it leaves open."
NO_WORDS = "the model's reply has no words; one that thinks first may need more max_tokens"
TOO_FEW_WORDS = "the model's answer is a word or two, and names no passage"
NO_OWN_WORDS = "the model wrote no answer, but a turn of somebody else, or marks of its template"
# The pause is at least so many times as long as the last update took: the event loop serves others meanwhile.
UPDATE_PAUSE_FACTOR = 10
CODE_END = "\n```"
OPEN_TIMEOUT_S = 2.0
OPEN_TIMEOUT_SHARE = 0.2
# With no source, so short an answer tells nothing that the passages would not: a small model ends in the middle, and
# one that stays with the prompt cites even a "yes".
MAX_STRAY_WORDS = 2
# By the language of the template, English where it has no name here.
QUESTION_LANGUAGE = "the language of the question"
QUESTION_LANGUAGES = {"zh": "提问者的语言"}


async def wait_for_open(opening: asyncio.Task[None], budget: Budget) -> None:
    """Wait until the sink has opened. One that hangs is cancelled, because the answer itself matters more."""
    await asyncio.wait((opening,), timeout=min(OPEN_TIMEOUT_S, OPEN_TIMEOUT_SHARE * budget.remaining()))
    if not opening.done():
        budget.degrade("open", "late")
        _log.warning("sink.open_timed_out")
        opening.cancel()


async def write_answer(inputs: AnswerInputs, sink: Sink, deps: AnswerDependencies, budget: Budget) -> WrittenAnswer:
    """Write the answer into the sink, and return it.

    When the model fails before it has cited anything, or only repeats itself, the passages are quoted; when it fails
    later, or somebody stops it, the answer says that it ends too soon. A question that is empty, as when nobody could
    look at its picture, gets an empty answer.
    """
    question = inputs.question
    retrieval = inputs.retrieval
    if retrieval.question_back or not question.text.strip():
        return WrittenAnswer(retrieval.question_back, is_extractive=not retrieval.question_back)
    if deps.model is None or is_unread(inputs, deps):
        with budget.timed("write"):
            return await quote_passages(inputs, deps, budget)
    messages = messages_for(deps.prompts.language)
    with budget.timed("write"):
        chunks = inputs.chunks or stream_answer(question, retrieval, deps.model, deps, budget)
        try:
            outgoing = OutgoingText(lambda: _read_text(inputs, deps))
            text, error = await _stream_into_sink(chunks, inputs, outgoing, sink, budget)
        finally:
            tokens = budget.tokens
            deps.head_starts.record_answer(tokens["summarizer.prompt"], tokens["summarizer.completion"])
        if isinstance(error, AnswerStopped):
            return WrittenAnswer(_mark_unfinished(trim_partial_marker(text), messages.answer_stopped))
        if text.strip() and not _is_worse_than_quotes(text, error, retrieval):
            return WrittenAnswer(_mark_unfinished(text, _describe_end(error, budget, messages)) if error else text)
        budget.degrade("write", "unreadable")
        failure = str(error or (TOO_FEW_WORDS if text.strip() else NO_WORDS))
        if not retrieval.was_searched:
            return WrittenAnswer(messages.llm_failed, failure=failure)
        return await quote_passages(inputs, deps, budget, failure)


def _is_worse_than_quotes(text: str, error: KimasError | None, retrieval: RetrievalResult) -> bool:
    """Return whether a text helps less than quotes: it cites nothing, and came to no end or is but a word or two."""
    if isinstance(error, RepeatingReply):
        return True
    if not retrieval.passages or isinstance(error, ReplyCut) or any(find_markers(text)):
        return False
    return error is not None or max(len(text.split()), count_cjk(text)) <= MAX_STRAY_WORDS


def _read_text(inputs: AnswerInputs, deps: AnswerDependencies) -> str:
    system, turns = build_prompt(inputs.question, inputs.retrieval, deps)
    urls = (passage.url for passage in inputs.retrieval.passages)
    return "\n".join([system, *(turn.text for turn in turns), *urls])


def _describe_end(error: KimasError, budget: Budget, messages: Messages) -> str:
    """Return what ended an answer too soon, for people."""
    if isinstance(error, ReplyCut):
        return messages.answer_filtered if error.is_filtered else messages.answer_too_long
    return messages.answer_interrupted if budget.remaining() else messages.answer_too_late


def _mark_unfinished(text: str, note: str) -> str:
    r"""Return what there is of an answer, with a note that it ends too soon.

    >>> _mark_unfinished("Run:\n```sh\npip in", "*Stopped.*")
    'Run:\n```sh\npip in …\n```\n\n*Stopped.*'
    """
    if not text.strip():
        return note
    # The note would be a line of the code.
    is_code_open = sum(line.lstrip().startswith("```") for line in text.splitlines()) % 2
    return f"{text.rstrip()} …{CODE_END if is_code_open else ''}\n\n{note}"


async def _stream_into_sink(
    chunks: AsyncGenerator[str], inputs: AnswerInputs, outgoing: OutgoingText, sink: Sink, budget: Budget
) -> tuple[str, KimasError | None]:
    """Return what may be shown of the text that the model wrote, and what ended it before its end, if anything did."""
    passages = inputs.retrieval.passages
    text = ""
    next_update = 0.0
    try:
        async with ends_when(inputs.question.stop), aclosing(chunks):
            async for chunk in chunks:
                if not text:
                    budget.record_time("first_token")
                text = append_visible(text, chunk)
                # Each update resolves the markers of the whole text: too much work for every token of a long answer.
                if (started_at := time.monotonic()) >= next_update:
                    shown = resolve_markers(trim_partial_marker(outgoing.clean(text, is_partial=True)), passages)
                    pause_s = max(UPDATE_INTERVAL_S, UPDATE_PAUSE_FACTOR * (time.monotonic() - started_at))
                    # An answer that found nothing is a sentence, and one that nobody asked for is not shown at all.
                    if not shown.finds_nothing:
                        await sink.update(shown.text)
                    next_update = time.monotonic() + pause_s
                    if outgoing.has_ended(text):
                        break
    except ModelError as error:
        # What fails after the model's own turn costs nothing of the answer.
        if not outgoing.has_ended(text):
            budget.degrade("write", "failed" if budget.remaining() else "late")
            _log.warning("write.failed", error=str(error), characters=len(text))
            return outgoing.clean(text), error
    except AnswerStopped as error:
        budget.degrade("write", "stopped")
        _log.info("write.stopped", characters=len(text))
        return outgoing.clean(text), error
    if shown_text := outgoing.clean(text).strip():
        return shown_text, None
    failure = ModelError(NO_OWN_WORDS if text.strip() else NO_WORDS)
    _log.warning("write.failed", error=str(failure), characters=len(text))
    return "", failure


async def stream_answer(
    question: Question, retrieval: RetrievalResult, model: ChatModel, deps: AnswerDependencies, budget: Budget
) -> AsyncGenerator[str]:
    """Yield the answer piece by piece, with passage ids as markers. Raises `ModelError`."""
    await deps.turnstile.yield_turn()
    system, turns = build_prompt(question, retrieval, deps)
    # What the bot says of itself stands in the prompt for small talk.
    detector = RepetitionDetector((system, question.text) if retrieval.was_searched else ())
    async with aclosing(model.stream(system, turns, role="main", budget=budget, agent="summarizer")) as chunks:
        async for chunk in chunks:
            detector.feed(chunk)
            yield chunk
    detector.finish()


def describe_answer_language(question: Question, prompts: Prompts) -> str:
    """Return in which language to answer, in the words of a template."""
    if question.language:
        return language_name(to_language_code(question.language)) or question.language
    return QUESTION_LANGUAGES.get(prompts.language, QUESTION_LANGUAGE)


def build_prompt(question: Question, retrieval: RetrievalResult, deps: AnswerDependencies) -> tuple[str, list[Turn]]:
    """Return the system prompt, and the conversation with the evidence, the analysis and the question last.

    The conversation is the question's history: what the context manager has selected (KIMAs 3.2), or all of it. A
    message that needed no search gets the prompt for small talk.
    """
    settings = deps.settings
    persona = question.persona or settings.answer.get_persona(deps.prompts.language)
    language = describe_answer_language(question, deps.prompts)
    if retrieval.was_searched:
        evidence_text = render_passages(retrieval.passages, settings.evidence_tokens())
        evidence = f"<evidence>\n{evidence_text or '(no passages were found)'}\n</evidence>\n"
        system = deps.prompts.fill("summarizer", name=settings.name, persona=persona, language=language)
    else:
        evidence = ""
        system = deps.prompts.fill(
            "talk", name=settings.name, persona=persona, language=language, descriptions=deps.describe_knowledge()
        )
    low_quality_reason = retrieval.low_quality_reason()
    analysis = question.analysis if isinstance(question, ContextualQuestion) else ""
    # We put no markup into an analysis: whatever looks like a tag came from the conversation.
    guidance = f"<analysis>\n{_escape_angle_brackets(analysis)}\n</analysis>\n" if analysis else ""
    if low_quality_reason:
        judgement = f"The evidence is poor: {_escape_angle_brackets(low_quality_reason)}\n{JUDGEMENT_RULE}"
        guidance = f"<judgement>\n{judgement}\n</judgement>\n{guidance}"
    asked = with_description(question.text, question.attached)
    question_block = f"<question{to_asked_by_attribute(question)}>\n{escape_delimiters(asked)}\n</question>"
    return system, [
        *_get_recent_turns(question),
        Turn("user", f"{evidence}{guidance}{question_block}"),
    ]


def _escape_angle_brackets(text: str) -> str:
    return text.replace("<", "‹").replace(">", "›")


def _get_recent_turns(question: Question) -> list[Turn]:
    """Return the latest turns that fit; each message of a person is fenced and names its author."""
    recent_turns: list[Turn] = []
    remaining_tokens = MAX_HISTORY_TOKENS
    labels = get_speaker_labels(question)
    for turn in reversed(question.history):
        remaining_tokens -= estimate_tokens(turn.text)
        if remaining_tokens < 0:
            break
        recent_turns.append(
            Turn(turn.role, fence_turn(turn, question, labels) if turn.role == "user" else escape_delimiters(turn.text))
        )
    # Some chat templates reject a conversation that begins with the assistant.
    if recent_turns and recent_turns[-1].role == "assistant":
        recent_turns[-1] = Turn("user", f"(Your earlier answer:)\n<said>\n{recent_turns[-1].text}\n</said>")
    return list(reversed(recent_turns))
