"""The button that stops an answer, on Telegram and Discord: a server that does not take it costs nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bots.discord.adapter import DiscordAdapter
from bots.telegram.adapter import TelegramAdapter
from core.types import Button, Message, Reply, ReplyOptions
from tests.support import discord_helpers
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.sink_helpers import DeliveryLog
from tests.support.telegram_helpers import GROUP, PERSON, SINK_PACE, Offsets, convert, settings as telegram_settings

STOPPABLE = ReplyOptions(stop_button=Button("thumb:stop:1", "⏹ Stop"))
EDIT = "PATCH /channels/{}/messages/{}"
SEND = "POST /channels/{}/messages"


@pytest.fixture
async def peer() -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as peer:
        yield peer


@pytest.fixture
async def adapter(peer: TelegramPeer, tmp_path: Path) -> AsyncIterator[TelegramAdapter]:
    adapter = TelegramAdapter(telegram_settings(peer, tmp_path), Offsets(), SINK_PACE)
    await adapter.open()
    yield adapter
    await adapter.close()


def make_question(peer: TelegramPeer, chat: int) -> Message:
    number = peer.say(chat, "@kimas_bot what is it?")
    message = convert(peer._message(peer.chat(chat), peer.chat(chat).messages[number]))
    assert isinstance(message, Message)
    return replace(message, reply_options=STOPPABLE)


async def test_on_telegram_it_stands_below_the_growing_message_alone(
    peer: TelegramPeer, adapter: TelegramAdapter
) -> None:
    sink = adapter.sink(make_question(peer, GROUP), DeliveryLog())
    await sink.open()
    await sink.update("# Some\n\nwords")
    message = await peer.wait_for_reply(GROUP, 30, containing="words")
    assert [[button["callback_data"] for button in row] for row in message.buttons] == [["thumb:stop:1"]]
    assert message.blocks
    await sink.finish(Reply("# Some\n\nwords"))
    assert message.buttons == [], "also where the text stays as it is"


async def test_on_telegram_a_button_that_is_refused_is_left_out(peer: TelegramPeer, adapter: TelegramAdapter) -> None:
    sink = adapter.sink(make_question(peer, GROUP), DeliveryLog())
    await sink.open()
    peer.fail("editMessageText", 400, description="Bad Request: BUTTON_DATA_INVALID")
    await sink.update("some words")
    message = await peer.wait_for_reply(GROUP, 30, containing="words")
    assert message.buttons == []
    await sink.finish(Reply("some words and more"))
    assert [posted.text for posted in peer.messages(GROUP)] == ["some words and more"]


@pytest.mark.parametrize("text", ["some words", "# Some words"], ids=["text", "rich"])
async def test_drafts_have_telegrams_own_button_where_it_knows_that(
    peer: TelegramPeer, adapter: TelegramAdapter, text: str
) -> None:
    sink = adapter.sink(make_question(peer, PERSON), DeliveryLog())
    await sink.open()
    await sink.update(text)
    await peer.wait_until(lambda: len(peer.drafts) == 1, 30)
    assert peer.drafts[0].can_stop
    peer.fail("sendMessageDraft", 400, description="Bad Request: CAN_STOP_INVALID")
    peer.fail("sendRichMessageDraft", 400, description="Bad Request: CAN_STOP_INVALID")
    await sink.update(f"{text} and more")
    await peer.wait_until(lambda: len(peer.drafts) == 2, 30)
    assert (peer.drafts[1].can_stop, peer.drafts[1].is_rich) == (False, False)
    await sink.finish(Reply(f"{text} and more"))
    assert [message.text for message in peer.messages(PERSON)] == [f"{text} and more".lstrip("# ")]


def test_a_stopped_draft_is_the_press_of_the_question_it_answers(tmp_path: Path) -> None:
    adapter = TelegramAdapter(telegram_settings(TelegramPeer(), tmp_path), Offsets(), SINK_PACE)
    chat = {"id": PERSON, "type": "private", "first_name": "Ann"}
    for question in ("5", "5~2"):
        if question != "5":
            adapter._draft_questions[PERSON, 5] = question
        press = adapter._convert({"update_id": 1, "stopped_message_generation": {"chat": chat, "draft_id": 5}})
        assert isinstance(press, Message)
        assert (press.text, press.reply_to, press.author_id, press.private) == ("stop", question, str(PERSON), True)
    ignored_event = adapter._convert({"update_id": 2, "stopped_message_generation": {"chat": chat}})
    assert not isinstance(ignored_event, Message)


@pytest.fixture
async def discord_peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer:
        peer.gateway.beat_ms = 5000
        peer.acknowledge_s = 30
        yield peer


@pytest.mark.parametrize("is_command", [False, True], ids=["message", "command"])
async def test_on_discord_it_stands_below_the_growing_message_alone(
    discord_peer: DiscordPeer, tmp_path: Path, is_command: bool
) -> None:
    inbox = discord_helpers.Inbox()
    channel_id = discord_peer.channel()
    adapter = DiscordAdapter(
        discord_helpers.settings(discord_peer, tmp_path), discord_helpers.Positions(), discord_helpers.PACE
    )
    async with discord_helpers.listening(discord_peer, adapter, inbox.receive):
        if is_command:
            await discord_peer.command(channel_id, "ask", question="what is it?")
        else:
            await discord_peer.say(channel_id, f"{discord_peer.mention} what is it?")
        await inbox.until(1)
        sink = adapter.sink(replace(inbox.messages[0], reply_options=STOPPABLE), DeliveryLog())
        await sink.open()
        await sink.update("some words")
        message = await discord_peer.wait_for_reply(channel_id, 30, containing="some words")
        [row] = message.components
        assert [button["custom_id"] for button in row["components"]] == ["thumb:stop:1"]
        await sink.finish(Reply("some words"))
        assert message.components == [], "also where the text stays as it is"


async def test_on_discord_a_button_that_is_refused_is_left_out(discord_peer: DiscordPeer, tmp_path: Path) -> None:
    inbox = discord_helpers.Inbox()
    channel_id = discord_peer.channel()
    adapter = DiscordAdapter(
        discord_helpers.settings(discord_peer, tmp_path), discord_helpers.Positions(), discord_helpers.PACE
    )
    async with discord_helpers.listening(discord_peer, adapter, inbox.receive):
        await discord_peer.say(channel_id, f"{discord_peer.mention} what is it?")
        await inbox.until(1)
        sink = adapter.sink(replace(inbox.messages[0], reply_options=STOPPABLE), DeliveryLog())
        # Once as a reply, once without.
        error_body = {"code": 50035, "message": "Invalid Form Body"}
        discord_peer.fail(SEND, 400, times=2, body=error_body)
        await sink.open()
        await sink.update("some words")
        message = await discord_peer.wait_for_reply(channel_id, 30, containing="some words")
        assert message.components == []
        await sink.finish(Reply("some words and more"))
        assert [posted.content for posted in discord_peer.messages(channel_id)] == ["some words and more"]
