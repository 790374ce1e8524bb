"""Presses of buttons on Discord: acknowledged in time and once, whatever the connection does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bots.common.connection import Unreachable
from bots.common.events import IgnoredEvent
from bots.discord.connection import DiscordIntervals
from bots.discord.convert import Identity
from bots.discord.feedback import acknowledge, from_button_click, from_reaction
from bots.discord.history import ChannelState
from core.types import Message
from tests.conformance.bot import Bot
from tests.conformance.platforms import Discord, until
from tests.support.feedback_helpers import answered, votes
from tests.support.peers.discord import DiscordPeer

CALLBACK = "POST /interactions/{}/{}/callback"
# Discord takes it for three seconds; here for longer, for a machine that has much to do.
QUICKLY_S = 30.0


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    async with answered(Discord(), tmp_path) as bot:
        yield bot


def get_peer(bot: Bot) -> DiscordPeer:
    assert isinstance(bot.driver, Discord)
    return bot.driver.peer


@pytest.mark.parametrize("drop", ["before", "after"])
async def test_a_lost_acknowledgement_is_sent_again_in_time(bot: Bot, drop: str) -> None:
    peer = get_peer(bot)
    peer.acknowledge_s = QUICKLY_S
    [message] = peer.messages(bot.group().id)
    peer.fail(CALLBACK, drop="before" if drop == "before" else "after")
    command = await peer.press(message, message.components[0]["components"][0]["custom_id"])
    await until(lambda: len(peer.get_calls(CALLBACK)) == 2, "a second try")
    await bot.idle()
    assert command.response_message is not None
    assert peer.get_calls(CALLBACK)[-1].at - command.at < QUICKLY_S
    assert peer.get_calls(CALLBACK)[-1].status == (204 if drop == "before" else 400)
    assert await votes(bot) == ["up"]


async def test_a_press_that_came_too_late_counts_all_the_same(bot: Bot) -> None:
    peer = get_peer(bot)
    peer.acknowledge_s = -1
    [message] = peer.messages(bot.group().id)
    await peer.press(message, message.components[0]["components"][1]["custom_id"])
    await until(lambda: bool(peer.get_calls(CALLBACK)), "a try")
    await bot.idle()
    assert peer.get_calls(CALLBACK)[0].status == 404
    assert await votes(bot) == ["down"]


async def test_a_foreign_or_malformed_press_is_left_alone(bot: Bot) -> None:
    peer = get_peer(bot)
    [message] = peer.messages(bot.group().id)
    await peer.press(message, "somebody-elses")
    for event in ({"type": 3}, {"type": 3, "data": {"custom_id": "thumb:up:1"}, "channel": 7}):
        await peer.gateway.emit("INTERACTION_CREATE", event)
    await peer.press(message, message.components[0]["components"][0]["custom_id"])
    await until(lambda: bool(peer.get_calls(CALLBACK)), "the answer to the one that is ours")
    await bot.idle()
    assert len(peer.get_calls(CALLBACK)) == 1
    assert await votes(bot) == ["up"]


def test_a_press_in_a_thread_belongs_to_its_channel_and_knows_managers() -> None:
    thread = {"id": "20", "type": 11, "parent_id": "10"}
    member = {"user": {"id": "1001", "username": "ann"}, "nick": "Ann", "permissions": "8"}
    event = {
        "id": "175928847299117063",
        "token": "t",
        "guild_id": "7",
        "channel": thread,
        "member": member,
        "message": {"id": "30", "flags": 64},
        "data": {"custom_id": "thumb:again:42"},
    }
    results = from_button_click(event, Identity("5001", "kimas", "5002"))
    assert isinstance(results, Message)
    assert (results.key.chat, results.reply_to, results.text, results.author) == ("10", "42", "again", "Ann")
    assert (results.reference["hidden"], results.reference["administrator"]) == (True, True)


async def test_the_answer_to_a_slash_command_is_rated_and_tried_again_below_it(bot: Bot) -> None:
    peer = get_peer(bot)
    channel = bot.group(2)
    number = await bot.driver.command(channel, "ask", "Why?")
    await bot.wait_until_finished(channel, number)
    [message] = peer.messages(channel.id)
    down = message.components[0]["components"][1]["custom_id"]
    feedback_reply = await peer.press(message, down)
    await until(lambda: feedback_reply.response_message is not None, "a note")
    await peer.press(feedback_reply.response_message, f"thumb:again:{number}")  # type: ignore[arg-type]
    await bot.wait_until_finished(channel, f"{number}~2")
    first, second = peer.messages(channel.id)
    assert first.content == "> Ann: /ask Why?\nAnswer to: Why?", "the first answer stays"
    assert second.content.endswith("Answer to: Why?")
    assert "/ask Why?" in second.content, "what is answered, where no message of theirs can be replied to"
    assert second.components != []


@pytest.mark.usefixtures("time_lapse")
@pytest.mark.parametrize("is_refused", [True, False])
async def test_what_was_wrong_is_said_when_time_is_over(is_refused: bool) -> None:
    async def call() -> None:
        if is_refused:
            raise Unreachable("500: Internal Server Error")
        await asyncio.sleep(60)

    with pytest.raises(Unreachable if is_refused else TimeoutError, match="500" if is_refused else None):
        await acknowledge(call, DiscordIntervals())


def test_an_emoji_of_a_bot_is_no_rating() -> None:
    event = {"user_id": "1001", "channel_id": "5", "message_id": "9", "guild_id": "7", "emoji": {"name": "👎"}}
    me = Identity("42", "kimas", "42")
    for member in ({}, {"user": {"id": "1001"}}, {"user": {"id": "1001", "bot": False}}):
        assert isinstance(from_reaction("MESSAGE_REACTION_ADD", {**event, "member": member}, me, None), Message)
    by_bot = {**event, "member": {"user": {"id": "1001", "bot": True}}}
    assert isinstance(from_reaction("MESSAGE_REACTION_ADD", by_bot, me, None), IgnoredEvent)


class _NoPositions:
    async def load(self, name: str) -> int | None:
        return None

    async def save(self, name: str, position: int) -> None:
        pass


async def test_names_of_hidden_channels_and_of_other_servers_are_not_told() -> None:
    """Discord lists all channels to a bot, and anybody may write a reference to one by its id."""
    channels = ChannelState(_NoPositions(), Identity("1", "kimas", "1"), 1.0)

    def hide(number: str, **rights: str) -> dict[str, Any]:
        overwrites = [{"id": "7", "type": 0, "allow": "0", "deny": "0", **rights}]
        return {"id": number, "type": 0, "name": f"room-{number}", "permission_overwrites": overwrites}

    thread = {"type": 11, "parent_id": "20", "name": "open"}
    threads = [{"id": "30", **thread}, {"id": "31", **thread, "type": 12}, {"id": "32", **thread, "parent_id": "21"}]
    rooms = [hide("20"), hide("21", deny="1024"), hide("22", allow="1024")]
    role = {"id": "7", "name": "@everyone", "permissions": "1024"}
    channels.add_guild({"id": "7", "roles": [role], "channels": rooms, "threads": threads})
    channels.add_guild({"id": "8", "roles": [{**role, "id": "8", "permissions": "0"}], "channels": [hide("40")]})
    seen = {place: channels.get_location(place, {}) for place in ("20", "21", "40")}
    names = {place: set(channels.get_names(location)) for place, location in seen.items() if location}
    assert names == {"20": {"7", "20", "22", "30"}, "21": {"7", "20", "21", "22", "30"}, "40": {"8", "40"}}
    channels.update_channel({**hide("20", deny="1024"), "guild_id": "7"})
    assert seen["21"]
    assert "20" not in channels.get_names(seen["21"])


async def test_a_group_conversation_is_not_private_whatever_comes_from_it() -> None:
    me = Identity("1", "kimas", "1")
    channels = ChannelState(_NoPositions(), me, 1.0)
    first = channels.get_location("502", {"channel_type": 3})
    later = channels.get_location("502", {})
    alone = channels.get_location("500", {"channel_type": 1})
    assert first
    assert later
    assert alone
    assert (first.is_alone, later.is_alone, alone.is_alone) == (False, False, True)
    event = {
        "user_id": "42",
        "channel_id": "502",
        "message_id": "9",
        "message_author_id": me.id,
        "emoji": {"name": "👍"},
    }
    reaction = from_reaction("MESSAGE_REACTION_ADD", event, me, later)
    assert isinstance(reaction, Message)
    assert not reaction.private
