"""Answers as rich messages, on servers that take them, refuse them, or know of none: no answer is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bots.telegram.adapter import TelegramAdapter
from bots.telegram.sink import TelegramSink
from core.settings import Secret, TelegramSettings
from core.types import Citation, Message, Reply, ReplyOptions
from tests.support.peers.telegram import TelegramPeer
from tests.support.sink_helpers import DeliveryLog
from tests.support.telegram_helpers import GROUP, PERSON, SINK_PACE, Offsets, convert

TABLE = "## Sizes\n\n| name | size |\n|---|--:|\n| small | 1 [1] |\n\n\\[ x_1^2 \\]"
CITED = (Citation(1, "p1", "docs", "Install", "docs/install.md", "https://example.org/install"),)
PLAIN_TEXT = "Sizes\n\nname  | size\nsmall | 1 [1]\n\nx_1^2\n\nSources\n[1] Install"
PLAIN = "Sizes\n\nname  | size\n------+------\nsmall | 1 [1]\n\nx_1^2\n\nSources\n[1] Install"
Ask = Callable[..., TelegramSink]


@pytest.fixture
def ask(peer: TelegramPeer, adapter: TelegramAdapter) -> Ask:
    """Have somebody ask and return the sink for the answer."""

    def open_sink(chat: int = GROUP, *, previous: str = "", delivery_log: DeliveryLog | None = None) -> TelegramSink:
        number = peer.say(chat, "@kimas_bot what is it?")
        peer_chat = peer.chat(chat)
        message = convert(peer._message(peer_chat, peer_chat.messages[number]))
        assert isinstance(message, Message)
        question = replace(message, reply_options=ReplyOptions(has_rating_buttons=True))
        sink = adapter.sink(question, delivery_log or DeliveryLog(), previous)
        assert isinstance(sink, TelegramSink)
        return sink

    return open_sink


async def test_an_answer_with_a_table_is_one_rich_message_with_thumbs(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    await sink.update("Some words")
    await peer.wait_for_reply(GROUP, 30, containing="words")
    await sink.finish(Reply(TABLE, CITED))
    (message,) = peer.messages(GROUP)
    kinds = ["heading", "table", "mathematical_expression", "footer"]
    assert ([block["type"] for block in message.blocks], message.text, message.reply_to) == (kinds, PLAIN_TEXT, 1)
    assert message.links() == ["https://example.org/install"] * 2
    assert [button["text"] for row in message.buttons for button in row] == ["👍", "👎"]
    await ask().finish(Reply("No table."))
    assert (peer.messages(GROUP)[1].text, peer.messages(GROUP)[1].blocks) == ("No table.", [])
    assert all(call.status == 200 for call in peer.calls)


async def test_a_private_chat_sees_it_grow_as_rich_drafts(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask(PERSON)
    await sink.open()
    await sink.update("Look:")
    await peer.wait_until(lambda: len(peer.drafts) == 1, 30)
    await sink.update("Look:\n\n# Sizes")
    await peer.wait_until(lambda: len(peer.drafts) == 2, 30)
    assert [(draft.text, draft.is_rich) for draft in peer.drafts] == [("Look:", False), ("Look:\n\nSizes", True)]
    await sink.finish(Reply(TABLE, CITED))
    (message,) = peer.messages(PERSON)
    assert message.text == PLAIN_TEXT
    assert message.blocks


@pytest.mark.parametrize("chat", [GROUP, PERSON])
async def test_a_server_that_knows_of_none_costs_one_call(peer: TelegramPeer, ask: Ask, chat: int) -> None:
    peer.has_rich = False
    sink = ask(chat)
    await sink.open()
    await sink.update("# Sizes")
    await peer.wait_until(lambda: any(call.status in (400, 404) for call in peer.calls), 30)
    for number in range(3):
        await (sink if not number else ask(chat)).finish(Reply(TABLE, CITED))
    assert [message.text for message in peer.messages(chat)] == [PLAIN] * 3
    assert [call.status for call in peer.calls if call.status != 200] == [404 if chat == PERSON else 400]
    assert all(len(message.buttons) == 1 for message in peer.messages(chat))


async def test_a_rich_message_that_is_refused_is_shown_in_text(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("editMessageText", 400, description="Bad Request: RICH_MESSAGE_SOMETHING_INVALID")
    await ask().finish(Reply(TABLE, CITED))
    await ask().finish(Reply(TABLE, CITED))
    assert [message.text for message in peer.messages(GROUP)] == [PLAIN, PLAIN_TEXT], "the next one may be taken"


@pytest.mark.parametrize(
    "description",
    ["Bad Request: message can't be edited", "Bad Request: not enough rights to send rich messages to the chat"],
)
async def test_a_placeholder_that_takes_no_rich_message_takes_text(
    peer: TelegramPeer, ask: Ask, description: str
) -> None:
    peer.fail("editMessageText", 400, description=description)
    await ask().finish(Reply(TABLE, CITED))
    assert [message.text for message in peer.messages(GROUP)] == [PLAIN]


async def test_a_server_that_breaks_over_it_gets_text(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("editMessageText", 502, times=3, body="<html>Bad Gateway</html>")
    await ask().finish(Reply(TABLE, CITED))
    peer.fail("editMessageText", 502, times=2, body="<html>Bad Gateway</html>")
    await ask().finish(Reply(TABLE, CITED))
    assert [message.text for message in peer.messages(GROUP)] == [PLAIN, PLAIN_TEXT]


async def test_a_post_that_is_refused_first_still_brings_the_whole_answer(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("sendMessage", 400, times=2, description="Bad Request: SOMETHING_NEW_INVALID")
    await ask().finish(Reply(TABLE, CITED))
    (message,) = peer.messages(GROUP)
    assert "small | 1 [1]" in message.text
    assert "Install" in message.text


async def test_a_lost_confirmation_doubles_nothing(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("editMessageText", drop="after")
    await ask().finish(Reply(TABLE, CITED))
    assert [message.text for message in peer.messages(GROUP)] == [PLAIN_TEXT]


async def test_after_a_crash_it_is_finished_in_the_form_that_was_begun(peer: TelegramPeer, ask: Ask) -> None:
    long_text = f"{TABLE}\n\n" + "words and more " * 400
    peer.has_rich = False
    delivery_log = DeliveryLog()
    await ask(delivery_log=delivery_log).finish(Reply(long_text, CITED))
    parts = [message.text for message in peer.messages(GROUP)]
    assert len(parts) == 2
    first = str(peer.messages(GROUP)[0].id)
    peer.has_rich = True
    await ask(previous=first, delivery_log=delivery_log).finish(Reply(long_text, CITED))
    assert [message.text for message in peer.messages(GROUP)] == parts, "no part stands below the whole"
    await ask(previous=first).finish(Reply(TABLE, CITED))
    assert peer.messages(GROUP)[0].text in (PLAIN_TEXT, PLAIN)


async def test_a_long_answer_is_one_message_where_the_limits_allow(peer: TelegramPeer, ask: Ask) -> None:
    await ask().finish(Reply("# T\n\n" + "words and more\n\n" * 400))
    (message,) = peer.messages(GROUP)
    assert message.text.count("more") == 400
    await ask().finish(Reply("# T\n\n" + "words and more\n\n" * 600))
    _, *parts = peer.messages(GROUP)
    assert len(parts) > 1, "too many blocks for one"
    assert sum(part.text.count("more") for part in parts) == 600


async def test_who_replies_to_a_rich_message_quotes_its_text(
    peer: TelegramPeer, ask: Ask, adapter: TelegramAdapter
) -> None:
    await ask().finish(Reply(f"{TABLE}\n\n- a\n- b\n\n> q", CITED))
    (message,) = peer.messages(GROUP)
    peer_chat = peer.chat(GROUP)
    follow_up = peer.say(GROUP, "and why?", reply_to=message.id)
    converted = convert(peer._message(peer_chat, peer_chat.messages[follow_up]))
    assert isinstance(converted, Message)
    assert converted.quoted.splitlines()[:4] == [
        "Sizes",
        "name | size",
        "small | 1 [1] (https://example.org/install)",
        "x_1^2",
    ]
    assert converted.addressed


async def test_it_can_be_switched_off(peer: TelegramPeer, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(peer.token)
    settings = TelegramSettings(token=Secret(file=tmp_path / "t"), api_url=peer.api_url, rich_messages=False)
    adapter = TelegramAdapter(settings, Offsets(), SINK_PACE)
    await adapter.open()
    number = peer.say(GROUP, "@kimas_bot what?")
    message = convert(peer._message(peer.chat(GROUP), peer.chat(GROUP).messages[number]))
    assert isinstance(message, Message)
    await adapter.sink(message, DeliveryLog()).finish(Reply(TABLE, CITED))
    await adapter.close()
    assert [plain_message.text for plain_message in peer.messages(GROUP)] == [PLAIN]
