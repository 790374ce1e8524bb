"""Answers that only the asker sees: nobody else ever does, they stay, and a kill neither loses nor shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from core.catalogue import ENGLISH
from core.messaging.feedback.rating_buttons import make_rating_buttons
from core.types import Message
from tests.conformance.bot import Bot, Gate
from tests.conformance.buttons import press
from tests.conformance.platforms import Channel, Discord, Slack
from tests.conformance.scenarios import cannot
from tests.support.peers.discord import EPHEMERAL

NOTHING_HIDDEN = "it shows a group nothing that only one of them sees"
ONLY_COMMANDS = "only what answers a command can be hidden there"
QUESTION = "How do I install it?"
ANSWER = f"Answer to: {QUESTION}"

on_platforms_that_hide = cannot(
    telegram=NOTHING_HIDDEN, mastodon=NOTHING_HIDDEN, github=NOTHING_HIDDEN, console=NOTHING_HIDDEN
)
WAYS = pytest.mark.parametrize("way", ["command", "mention"])


async def restrict(bot: Bot, way: str) -> Channel:
    """Restart the bot with a group in which answers are for the asker alone, and return that."""
    if way == "mention" and isinstance(bot.driver, Discord):
        pytest.skip(ONLY_COMMANDS)
    channel = bot.group()
    await bot.stop()
    bot.driver.asker_chats.add(channel.chat)
    bot.changes = {"chats": {f"{bot.platform}:{channel.chat}": {"answers": "asker"}}}
    await bot.start()
    return channel


async def begin(bot: Bot, channel: Channel, way: str) -> str:
    """Ask in one of the two ways, and return the id of the question."""
    if way == "command":
        return await bot.driver.command(channel, "ask", QUESTION)
    return await bot.driver.say(channel, bot.to_bot(channel, QUESTION))


def get_texts(bot: Bot, channel: Channel) -> tuple[list[str], list[str]]:
    """Return what only one person was shown of answers, and what everybody was."""
    driver = bot.driver
    if isinstance(driver, Discord):
        posted = driver.peer.messages(channel.id)
        hidden = [message.content for message in posted if message.flags & EPHEMERAL]
        return hidden, [message.content for message in posted if not message.flags & EPHEMERAL]
    assert isinstance(driver, Slack)
    responses = driver.peer.responses
    hidden = [text for _, text in driver.peer.hidden]
    hidden += [response["text"] for response in responses if response["response_type"] == "ephemeral"]
    public = [message.text for message in driver.peer.messages(channel.id)]
    return hidden, public + [response["text"] for response in responses if response["response_type"] != "ephemeral"]


@WAYS
@on_platforms_that_hide
async def test_nobody_else_sees_the_answer_and_a_thumb_leaves_it_there(bot: Bot, way: str) -> None:
    channel = await restrict(bot, way)
    question = await begin(bot, channel, way)
    assert (await bot.wait_until_finished(channel, question)).state == "answered"
    assert get_texts(bot, channel) == ([ANSWER], [])
    up, _ = make_rating_buttons(question)
    note = await press(bot, channel, up.data, is_hidden=True)
    assert note.text == ENGLISH.rated_up.format(up=1, down=0)
    hidden, public = get_texts(bot, channel)
    assert (hidden[0], public) == (ANSWER, [])


@WAYS
@on_platforms_that_hide
async def test_killed_before_the_confirmation_it_is_shown_to_the_asker_alone(bot: Bot, way: str) -> None:
    channel = await restrict(bot, way)
    bot.script.before = Gate()
    question = await begin(bot, channel, way)
    await asyncio.wait_for(bot.script.before.reached.wait(), 60)
    await bot.kill(while_posting=True)
    bot.script.before = None
    await bot.start()
    assert (await bot.wait_until_finished(channel, question)).state == "answered"
    # Slack cannot say whether it arrived; on Discord it has one place.
    again = f"_{ENGLISH.posted_again}_\n" if bot.platform == "slack" else ""
    assert get_texts(bot, channel) == ([again + ANSWER], [])


@WAYS
@on_platforms_that_hide
async def test_killed_between_its_parts_it_shows_the_rest_once(
    bot: Bot, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    channel = await restrict(bot, way)
    bot.script.says = lambda _: "\n\n".join(f"paragraph {number} {'of words ' * 30}" for number in range(40))
    assert (await bot.wait_until_finished(channel, await begin(bot, channel, way))).state == "answered"
    whole, _ = get_texts(bot, channel)
    assert len(whole) > 2
    gate = Gate()
    mark_parts = bot.journal.mark_parts

    async def mark_slowly(message: Message, parts: Mapping[int, str]) -> None:
        await mark_parts(message, parts)
        # The second part is there; nothing is known of the third.
        if parts.get(1):
            await gate.passed()

    monkeypatch.setattr(bot.journal, "mark_parts", mark_slowly)
    question = await begin(bot, channel, way)
    await asyncio.wait_for(gate.reached.wait(), 60)
    await bot.kill()
    await bot.start()
    assert (await bot.wait_until_finished(channel, question)).state == "answered"
    assert len(bot.script.questions) == 2, "the answer is not made again"
    assert get_texts(bot, channel) == (whole * 2, [])
