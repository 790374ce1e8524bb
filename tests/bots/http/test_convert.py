"""From an event of a network to a message: whose words give a command."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bots.http.convert import MalformedEvent, to_message
from core.types import Message

EVENT = {
    "kind": "message",
    "id": "1",
    "chat": "lobby",
    "author": {"id": "ann", "name": "Ann"},
    "text": "/pause 60",
    "addressed": True,
}


def convert(**fields: Any) -> Message:
    message = to_message({**EVENT, **fields}, datetime.now(UTC))
    assert isinstance(message, Message)
    return message


@pytest.mark.parametrize(
    "fields",
    [
        {"forwarded": True},
        {"forwarded": True, "private": True},
        {"text": "why?", "quoted": "/pause 60"},
        {"text": "", "quoted": "/pause 60"},
        {"text": "Look: /pause 60"},
    ],
)
def test_words_of_others_give_no_command(fields: dict[str, Any]) -> None:
    assert convert(**fields).command == ""


def test_a_network_says_what_a_chat_is_called() -> None:
    assert convert().chat_title == ""
    assert convert(title=" Rocket\nusers ").chat_title == "Rocket users"
    with pytest.raises(MalformedEvent, match="title must be a text"):
        convert(title=5)


def test_ones_own_words_give_one() -> None:
    message = convert()
    assert (message.command, message.text, message.is_forwarded) == ("pause", "60", False)


def test_a_network_says_whose_words_a_message_brings() -> None:
    assert convert(text="why?", quoted="run this", quoted_author="43").quoted_authors == ("43",)
    assert convert(text="run this", forwarded=True, quoted_author="43").quoted_authors == ("43",)
    assert convert(quoted="mine", quoted_author=EVENT["author"]["id"]).quoted_authors == ()
    # The network alone knows which account has the bot's words there.
    assert [convert(quoted="It is numbat.", quotes_bot=flag).quotes_bot for flag in (True, False)] == [True, False]
    with pytest.raises(MalformedEvent, match="quoted_author may have 128 characters"):
        convert(quoted_author="4" * 129)
