"""Messages and slash commands as Discord's API shows them, and what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bots.common.events import IgnoredEvent
from bots.discord.adapter import load_client
from bots.discord.convert import Identity, Location, snowflake_time, time_snowflake, to_command, to_message
from core.types import Message

ME = Identity("5001", "kimas", "5002")
CHANNEL = Location("30", "30", "", "7")
ANN = {"id": "1001", "username": "ann", "global_name": "Ann"}


def convert(content: str = "", location: Location = CHANNEL, **extra_fields: Any) -> Message | IgnoredEvent:
    event = {"id": "1573575587795042305", "type": 0, "author": ANN, "content": content, "mentions": [], **extra_fields}
    return to_message(event, ME, location, roles=("7002",), names={"55": "general", "7004": "Support"})


@pytest.mark.parametrize(
    ("text", "expected_text", "is_addressed"),
    [
        ("<@5001> what?", "what?", True),
        ("<@!5001>, what?", "what?", True),
        ("what, <@5001>?", "what, ?", True),
        ("say <@5001> what", "say what", True),
        ("what? <@5001>", "what?", True),
        ("<@&7002> what?", "what?", True),
        ("<@&7003> what?", "@role what?", False),
        ("<@1002> what?", "@Bea what?", False),
        ("<@9> what?", "@somebody what?", False),
        ("@kimas what?", "@kimas what?", False),
        ("@everyone what?", "@everyone what?", False),
        ("nice <:smile:123> <a:wave:9>", "nice :smile: :wave:", False),
        ("in <#55> or <#56> `<@77x>`", "in #general or #unknown `<@77x>`", False),
        ("ask <@&7004> with </search docs:12>", "ask @Support with /search docs", False),
        (
            "<t:1785615300> <t:1785615300:R> <t:1785615300:d>",
            "2026-08-01 20:15 UTC 2026-08-01 20:15 UTC 2026-08-01",
            False,
        ),
        ("<t:9999999999999:F> <t:x>", "<t:9999999999999:F> <t:x>", False),
    ],
)
def test_mentions(text: str, expected_text: str, is_addressed: bool) -> None:
    result = convert(text, mentions=[{"id": "1002", "username": "bea", "global_name": "Bea"}])
    assert isinstance(result, Message)
    assert (result.text, result.addressed) == (expected_text, is_addressed)


def test_names_are_those_of_the_server() -> None:
    result = convert("x", member={"nick": "Annie"}, location=Location("55", "55", "", "7"))
    assert isinstance(result, Message)
    assert (result.author, result.chat_title) == ("Annie", "#general")
    message = convert("x", author={"id": "1", "username": "bob", "global_name": None})
    assert isinstance(message, Message)
    assert message.author == "bob"


def test_a_forwarded_message_is_quoted() -> None:
    result = convert("<@5001>", message_snapshots=[{"message": {"content": "the <@1> error", "mentions": []}}])
    assert isinstance(result, Message)
    assert (result.text, result.quoted, result.addressed) == ("", "the @somebody error", True)


def test_a_reply_to_a_deleted_message_quotes_nothing() -> None:
    result = convert("why?", type=19, referenced_message=None)
    assert isinstance(result, Message)
    assert (result.reply_to, result.quoted, result.addressed) == ("", "", False)


def test_a_thread_may_go_on_with_us_unless_somebody_else_is_meant() -> None:
    thread = Location("40", "30", "40", "7")
    to_her = {"id": "1", "content": "x", "author": {"id": "9", "username": "c"}}
    message = [
        convert("and then?", thread),
        convert("<@9>?", thread, mentions=[{"id": "9", "username": "c"}]),
        convert("thanks", thread, type=19, referenced_message=to_her),
        convert("in the channel"),
    ]
    assert [isinstance(item, Message) and item.addressed for item in message] == [False] * 4
    assert [isinstance(item, Message) and item.thread_state.is_shared for item in message] == [True, False, False, None]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"author": {**ANN, "bot": True}}, "written by a bot"),
        ({"author": {**ANN, "system": True}}, "written by a bot"),
        ({"webhook_id": "4"}, "written by a webhook"),
        ({"type": 18}, "a service message"),
        ({"author": None}, "without an author"),
        ({"content": ""}, "without text"),
    ],
)
def test_what_is_not_for_us(changes: dict[str, Any], reason: str) -> None:
    result = convert(**{"content": "<@5001> hello", **changes})
    assert isinstance(result, IgnoredEvent)
    assert result.reason.startswith(reason)


def test_ids_hold_their_time() -> None:
    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert snowflake_time(str(time_snowflake(moment))) == moment
    assert time_snowflake(datetime(2001, 1, 1, tzinfo=UTC)) == 0


def test_a_command_in_a_thread_and_in_private() -> None:
    data = {"name": "ask", "type": 1, "options": [{"name": "question", "value": " how? "}]}
    thread = {"id": "40", "type": 11, "parent_id": "30"}
    event = {"id": "1", "type": 2, "token": "t", "data": data, "channel": thread, "guild_id": "7"}
    message = to_command({**event, "member": {"nick": "A", "user": ANN}}, ME)
    assert isinstance(message, Message)
    assert (message.command, message.text, message.addressed, message.private) == ("ask", "how?", True, False)
    assert (message.key.chat, message.key.thread, message.author) == ("30", "40", "A")
    private_event = {key: value for key, value in event.items() if key != "guild_id"}
    private = to_command({**private_event, "channel": {"id": "50", "type": 1}, "user": ANN}, ME)
    assert isinstance(private, Message)
    assert (private.private, private.author, private.key.chat) == (True, "Ann", "50")
    group = to_command({**private_event, "channel": {"id": "50", "type": 3}, "user": ANN}, ME)
    assert isinstance(group, Message)
    assert not group.private, "other people read along"
    assert isinstance(to_command({**event, "type": 3}, ME), IgnoredEvent)


@pytest.mark.parametrize(
    ("fields", "is_private"),
    [
        ({"channel": {"id": "5", "type": 1}}, True),
        ({"channel": {"id": "5", "type": 1}, "context": 1}, True),
        ({"channel": {"id": "5", "type": 1}, "context": 2}, False),
        ({"channel": {"id": "5", "type": 3}, "context": 2}, False),
        ({"channel_id": "5"}, False),
        ({"channel": {"id": "5"}}, False),
        ({"channel": {"id": "5", "type": 1}, "guild_id": "3"}, False),
    ],
)
def test_private_is_only_what_is_known_to_hold_one_person(fields: dict[str, Any], is_private: bool) -> None:
    """Two people may use the bot in their direct messages, or several in a group conversation."""
    data = {"name": "help", "type": 1}
    message = to_command({"id": "1", "token": "t", "type": 2, "user": ANN, "data": data, **fields}, ME)
    assert isinstance(message, Message)
    assert message.private == is_private


def test_a_command_without_its_channel_is_answered_where_its_id_says() -> None:
    user = {"id": "7", "username": "ann"}
    event = {"id": "175928847299117063", "token": "t", "type": 2, "channel_id": "5", "guild_id": "3"}
    message = to_command({**event, "member": {"user": user}, "data": {"name": "help", "type": 1}}, ME)
    assert isinstance(message, Message)
    assert (message.key.chat, message.reference["channel"], message.private) == ("5", "5", False)


def test_a_token_may_have_long_parts() -> None:
    load_client()
    from bots.discord.client import TOKEN_PATTERN

    assert TOKEN_PATTERN.fullmatch(".".join(["x" * 180] * 3))
    assert not TOKEN_PATTERN.fullmatch("Bot x.y.z")
