"""Voice messages: what is said in one becomes the question, and the answer begins with what was understood.

The words of a transcript are a question, whatever they say: commands, ratings and lessons are written. They are masked
like those of any question, and the bot's own words below them pass the filter of what may leave.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.answering.agents.conversation import validate_question
from core.answering.agents.summarizer import wait_for_open
from core.answering.context import AnswerDependencies
from core.answering.masking import mask_question
from core.catalogue import ENGLISH, messages_for
from core.errors import ServiceError, SpeechUnclear
from core.formatting import format_link, shorten, with_description
from core.language.languages import get_asker_language
from core.llm.recordings import MAX_RECORDING_BYTES, MAX_RECORDING_SECONDS, read_recording
from core.observability.logs import get_logger
from core.ports import Sink
from core.runtime.budget import Budget
from core.runtime.tasks import ends_when, task_group
from core.types import Question, Reply, Speech, SpeechProblem

if TYPE_CHECKING:
    from core.llm.transcription import Transcriber

_log = get_logger(__name__)

MAX_HEARD_CHARS = 160


async def hear(
    question: Question, speech: Speech, sink: Sink, deps: AnswerDependencies, budget: Budget
) -> tuple[Question, Sink]:
    """Return the question that is asked by a voice message, and the sink of its answer.

    Raises `SpeechUnclear` where there is none, `UsageError` for one that is too long, `AnswerStopped` when somebody
    stops the answer meanwhile.
    """
    transcript = speech.transcript
    if not transcript:
        async with task_group() as tasks:
            # The platform shows meanwhile that an answer is coming.
            opening = tasks.create_task(sink.open())
            async with ends_when(question.stop):
                transcript = await _transcribe(question, speech, deps, budget)
            await wait_for_open(opening, budget)
        text = with_description(question.text, transcript) if question.text.strip() else transcript
        question = replace(question, text=text)
        # An endpoint may send any text: one that is too long for a question is neither kept nor masked.
        validate_question(question)
        await speech.record(transcript)
    question = mask_question(replace(question, speech=None), deps.settings, deps.mask_key)
    masked = mask_question(replace(question, text=transcript), deps.settings, deps.mask_key)
    texts = messages_for(get_asker_language(question))
    line = texts.heard.format(words=format_link(shorten(masked.text, MAX_HEARD_CHARS), ""))
    return question, HeardSink(sink, line, is_open=not speech.transcript)


async def _transcribe(question: Question, speech: Speech, deps: AnswerDependencies, budget: Budget) -> str:
    try:
        with budget.timed("voice"):
            # Few recordings at a time are held in memory, as few pictures are.
            async with asyncio.timeout(budget.share("voice")), deps.image_quota.turns:
                problem, transcript = await _fetch_and_transcribe(speech, deps.transcriber, budget)
    except TimeoutError:
        problem, transcript = "late", ""
    if problem:
        texts = messages_for(question.language or get_asker_language(question) or speech.language[:2].lower())
        raise SpeechUnclear(
            texts.speech_unclear.format(problem=texts.speech_problems[problem]),
            f"a voice message: it {ENGLISH.speech_problems[problem]}",
        )
    return transcript


async def _fetch_and_transcribe(
    speech: Speech, transcriber: Transcriber | None, budget: Budget
) -> tuple[SpeechProblem, str]:
    """Return why nobody can make out what is said, or "", and what it is."""
    if speech.seconds > MAX_RECORDING_SECONDS:
        return "too_long", ""
    if speech.size > MAX_RECORDING_BYTES:
        return "too_large", ""
    try:
        recording = read_recording(await speech.fetch())
    except ServiceError as error:
        _log.warning("voice.not_fetched", error=str(error))
        return "not_fetched", ""
    if recording is None:
        return "not_audio", ""
    try:
        transcript = await transcriber.transcribe(recording, budget) if transcriber else ""
    except ServiceError as error:
        # Members may read the reason in the journal: the address stays in the log.
        _log.error("voice.not_transcribed", error=str(error))
        return "failed", ""
    return "" if transcript else "empty", transcript


@dataclass(slots=True)
class HeardSink:
    """Puts what was understood above every state of an answer, so that people see a mistake at once.

    The reply that is kept has the answer alone: what was understood is the text of its question.
    """

    sink: Sink
    line: str
    is_open: bool

    async def open(self) -> None:
        """Show that an answer is coming, unless that is shown already."""
        if not self.is_open:
            await self.sink.open()

    async def update(self, text: str) -> None:
        """Show the reply so far."""
        await self.sink.update(f"{self.line}\n\n{text}")

    async def finish(self, reply: Reply) -> None:
        """Show the final reply."""
        heard = f"{self.line}\n\n"
        await self.sink.finish(replace(reply, text=heard + reply.text, heard=heard))

    async def fail(self, text: str) -> None:
        """Show that the answer failed."""
        await self.sink.fail(text)
