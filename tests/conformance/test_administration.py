"""Commands that look after the bot, the same on every platform."""

from __future__ import annotations

import pytest

from core.messaging.policy.command_table import get_command
from tests.conformance.bot import Bot
from tests.conformance.platforms import ANN, BEN, ROBOT, Channel, until
from tests.conformance.scenarios import cannot

NO_REPLYING_COMMAND = "a slash command replies to no message"

# Ann gives the commands: every driver's `command` is hers.
OWNERS = ["telegram:1001", "discord:1001", "slack:U1ANN", "console:ann"]


async def owned(bot: Bot, **changes: object) -> None:
    """Start the bot anew with Ann as its owner."""
    await bot.stop()
    bot.changes = {"administration": {"owners": OWNERS}, **changes}
    await bot.start()


async def run_command(bot: Bot, room: Channel, name: str, arguments: str = "") -> str:
    """Let Ann give a command, and return what she sees."""
    count = len(bot.messages(room))
    if bot.platform == "discord":
        command = get_command(name)
        assert command is not None
        options = dict(zip([argument.name for argument in command.arguments], arguments.split(), strict=False))
        number = (await bot.driver.peer.command(room.place, name, bot.driver._author(ANN), **options)).id  # type: ignore[attr-defined]
    else:
        number = await bot.driver.command(room, name, arguments)
    await bot.settled(room, number)
    await until(lambda: len(bot.messages(room)) > count and bool(bot.texts(room)[-1]), f"an answer to /{name}")
    # A long answer, as that to /help, continues in further messages.
    return "\n".join(bot.texts(room)[count:])


async def test_a_stranger_changes_nothing_and_is_told_so(bot: Bot) -> None:
    room = bot.group()
    assert await run_command(bot, room, "pause") == "Only people who look after this bot here may do that."
    assert (await bot.ask(room, "How do I install it?")).state == "answered"


async def test_a_paused_bot_is_silent_for_everybody_and_says_why(bot: Bot) -> None:
    await owned(bot)
    room = bot.group()
    assert (await run_command(bot, room, "pause")).startswith("I am silent in this chat until /resume.")
    entry = await bot.ask(room, "How do I install it?", person=BEN)
    assert (entry.state, "(/pause)" in entry.reason) == ("silent", True)
    assert "I am KIMAs" in await run_command(bot, room, "help")
    assert await run_command(bot, room, "resume") == "I am speaking in this chat again."
    assert (await bot.ask(room, "How do I install it?", person=BEN)).state == "answered"


async def test_a_pause_outlives_a_kill(bot: Bot) -> None:
    await owned(bot)
    room = bot.group()
    await run_command(bot, room, "pause", "30")
    await bot.kill()
    await bot.start()
    assert (await bot.ask(room, "How do I install it?", person=BEN)).state == "silent"
    assert (await bot.ask(bot.other_chat(BEN), "How do I install it?", person=BEN)).state == "answered"


async def test_a_mode_is_one_chats_own(bot: Bot) -> None:
    await owned(bot)
    room = bot.group()
    assert await run_command(bot, room, "mode", "off") in (
        "The mode of this chat is now off; it was mention.",
        "The mode of this chat is now `off`; it was `mention`.",
    )
    assert (await bot.ask(room, "How do I install it?", person=BEN)).state == "silent"
    assert (await bot.ask(bot.other_chat(BEN), "How do I install it?", person=BEN)).state == "answered"
    await run_command(bot, room, "mode", "default")
    assert (await bot.ask(room, "How do I install it?", person=BEN)).state == "answered"


async def test_the_last_answer_is_explained(bot: Bot) -> None:
    room = bot.group()
    assert await run_command(bot, room, "why") == "I do not remember answering anything here."
    await bot.ask(room, "How do I install it?")
    # The scripted answer was made without a search.
    assert await run_command(bot, room, "why") == "That took no search: I know this about myself."


@pytest.mark.parametrize("words", ["/pause", "/mode off", "pause"])
async def test_words_in_a_question_are_no_command(bot: Bot, words: str) -> None:
    await owned(bot)
    room = bot.group()
    await bot.ask(room, f"What does the manual say about {words} ?", person=ANN)
    assert bot.script.question_texts == [f"What does the manual say about {words} ?"]
    assert (await bot.ask(room, "and now?", person=BEN)).state == "answered"


@cannot(discord="Discord offers commands to people alone", slack="a bot cannot use /kimas")
async def test_another_bots_command_is_not_heard(bot: Bot) -> None:
    await owned(bot, administration={"owners": ["telegram:1008", "console:robot"]})
    room = bot.group()
    await bot.driver.say(room, "/pause@kimas_bot", person=ROBOT)
    assert (await bot.ask(room, "How do I install it?", person=BEN)).state == "answered"


@cannot(discord=NO_REPLYING_COMMAND, slack=NO_REPLYING_COMMAND)
async def test_a_silence_is_explained_to_who_replies_to_it(bot: Bot) -> None:
    room = bot.group()
    chatter = await bot.hears(room, "nice weather today", person=BEN)
    question = await bot.driver.say(room, "/why@kimas_bot", person=ANN, reply_to=chatter.id)
    await bot.settled(room, question)
    assert bot.texts(room) == ["I was silent because: the bot was not addressed."]
