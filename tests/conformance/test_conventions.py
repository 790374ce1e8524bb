"""What members of a chat expect of any bot: a first word, menus, commands that can be pressed."""

from __future__ import annotations

import asyncio
import re

from core.text.catalogue import ENGLISH
from tests.conformance.bot import Bot
from tests.conformance.platforms import BEN, until
from tests.conformance.scenarios import cannot

NO_GROUPS = "nobody is added to a terminal"
NO_MENUS = {"console": "a terminal has no menus", "telegram": "messages of Telegram have no menus of bots"}


@cannot(console=NO_GROUPS)
async def test_who_is_added_to_a_group_says_what_it_can_do_once(bot: Bot) -> None:
    room = bot.group()
    await bot.driver.join(room)
    await until(lambda: bool(bot.messages(room)), "a first word")
    await bot.driver.join(room)
    await bot.idle()
    await bot.ask(bot.private(), "hello?")
    [text] = bot.texts(room)
    assert "docs" in text
    assert "mention me" in text
    assert ENGLISH.command_summaries["help"] in text
    hint = ENGLISH.welcome_privacy.partition(",")[0]
    assert (hint in text) == (bot.platform == "telegram"), "this bot does not see all messages"
    assert bot.driver.rung(room) == []


@cannot(**NO_MENUS)
async def test_a_message_is_asked_about_in_its_menu(bot: Bot) -> None:
    room = bot.group()
    message = await bot.driver.say(room, "the build fails with E12", person=BEN)
    entry = await bot.settled(room, await bot.driver.ask_about(room, message))
    assert entry.state == "answered"
    assert bot.script.question_texts == ["the build fails with E12"]
    [text] = bot.texts(room)
    assert text.endswith("Answer to: the build fails with E12")
    assert text.count("the build fails with E12") == 2, "people see what was asked about"


async def test_help_spells_commands_as_they_are_given_here(bot: Bot) -> None:
    room = bot.private()
    await bot.command(room, "help")
    [message] = bot.messages(room)
    spelled = {"telegram": r"^• /sources ", "discord": r"</sources:8\d+>", "slack": r"`/kimas sources "}
    text = message.text if bot.platform == "console" else message.raw
    assert re.search(spelled.get(bot.platform, "/sources"), text, re.MULTILINE)


@cannot(console="a terminal has no emoji below a message")
async def test_an_emoji_below_an_answer_is_feedback(bot: Bot) -> None:
    room = bot.group()
    await bot.ask(room, "How?")
    [message] = bot.messages(room)

    async def rated(count: int) -> list[str]:
        async with asyncio.timeout(30):
            while True:
                reasons = [entry.reason for entry in await bot.entries(room) if entry.thread == "thumbs"]
                if len(reasons) == count and all(reasons):
                    return reasons
                await asyncio.sleep(0.02)

    for number, (is_removed, outcome) in enumerate(((False, "up"), (False, "up"), (True, "taken back")), 1):
        await bot.driver.react(room, message.id, is_removed=is_removed)
        assert outcome in (await rated(number))[-1]
    assert len(bot.messages(room)) == 1, "nothing answers an emoji"
