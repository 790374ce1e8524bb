"""Which voice messages are heard: those that can be fetched, in chats whose models write them down."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from core.messaging.voices import add_transcript, as_written, hears
from core.types import Attachment, ConversationKey, Message
from tests.support.fixtures import settings

ENDPOINT = {"base_url": "http://localhost:8000/v1", "model": "whisper"}
CONFIGURATION = settings(
    models={"transcription": ENDPOINT, "sets": {"team": {"transcription": ENDPOINT}, "quotes": {}}},
    chats={"slack:C1": {"models": "team"}, "slack:C2": {"models": "quotes"}},
)
VOICE = Attachment("voice", "a.ogg", 9, {"file": "F1"})


def make_message(chat: str, *attachments: Attachment) -> Message:
    return Message("1", ConversationKey("slack", chat), "U1", "Ann", "", datetime.now(UTC), attachments=attachments)


@pytest.mark.parametrize(
    ("chat", "attachments", "is_heard"),
    [
        ("C1", (VOICE,), True),
        ("C3", (VOICE,), True),
        ("C2", (VOICE,), False),
        ("C3", (Attachment("voice", "a.ogg"),), False),
        ("C3", (Attachment("voice", transcript="How?"),), True),
        ("C3", (Attachment("video", "a.mp4", reference={"file": "F1"}),), False),
        ("C3", (), False),
    ],
)
def test_which_voice_messages_are_heard(chat: str, attachments: tuple[Attachment, ...], is_heard: bool) -> None:
    assert hears(make_message(chat, *attachments), CONFIGURATION) == is_heard
    assert not hears(make_message(chat, *attachments), settings())


def test_what_is_said_follows_the_words_that_are_written() -> None:
    spoken = replace(VOICE, transcript="bad port")
    assert add_transcript("bad port", spoken) == "bad port"
    assert add_transcript("What is this?", spoken).endswith("> bad port")
    assert add_transcript("What is this?", VOICE) == "What is this?"
    assert add_transcript("What is this?", None) == "What is this?"


def test_what_was_said_is_no_text_when_a_message_is_taken_up_again() -> None:
    spoken = replace(make_message("C1", replace(VOICE, transcript="post 3")), text="post 3")
    assert as_written(spoken).text == ""
    for written in (replace(spoken, text="drop 3"), replace(spoken, attachments=(VOICE,)), make_message("C1")):
        assert as_written(written) is written
