"""Voice messages on their way to an answer: which one is heard, and what the journal keeps of it.

A message that was written down before a restart is not sent to the endpoint again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

from core.formatting import with_description
from core.llm.recordings import MAX_RECORDING_BYTES
from core.messaging.gate.replies import find_voice, has_content
from core.ports import Adapter
from core.settings import Settings
from core.storage.messages import Journal
from core.storage.overrides import get_chat_name
from core.types import Attachment, Message, Question, Speech


def as_written(message: Message) -> Message:
    """Return a message with what was written in it alone.

    The journal keeps what was said as its text. That decides about no draft, and is no answer that a person teaches:
    not at first, when nobody knows it yet, and not when the message is taken up after a restart.
    """
    text = message.written_text
    return message if text == message.text else replace(message, text=text)


def hears(message: Message, settings: Settings) -> bool:
    """Return whether a message has a voice message, and its chat a model that writes it down."""
    models = settings.with_models_of(get_chat_name(message)).models
    return models.transcription is not None and find_voice(message) is not None


def asks(message: Message, settings: Settings) -> bool:
    """Return whether there is anything to answer in a message, written or spoken."""
    return has_content(message) or hears(message, settings)


async def find_speech(message: Message, journal: Journal, settings: Settings) -> tuple[Message, Attachment | None]:
    """Return a message, and the voice message to hear of it; both with what it says if that is known already.

    Raises `JournalError`.
    """
    if not hears(message, settings):
        return message, None
    message = replace(message, attachments=await journal.get_attachments(message))
    return message, find_voice(message)


def add_transcript(text: str, voice: Attachment | None) -> str:
    """Return the text of a question with what its voice message says, as far as that is known and not the text."""
    return text if voice is None or text == voice.transcript else with_description(text, voice.transcript)


def with_speech(
    question: Question, message: Message, voice: Attachment | None, adapter: Adapter, journal: Journal
) -> Question:
    """Return the question with its voice message."""
    if voice is None:
        return question

    def record(transcript: str) -> Awaitable[None]:
        known = replace(voice, transcript=transcript)
        attachments = [known if attachment == voice else attachment for attachment in message.attachments]
        return journal.mark_transcribed(message, attachments, transcript)

    fetch = partial(adapter.fetch_attachment, voice, MAX_RECORDING_BYTES)
    speech = Speech(voice.size, voice.seconds, fetch, record, message.language, voice.transcript)
    return replace(question, speech=speech)
