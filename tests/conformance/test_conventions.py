"""What members of a chat expect of any bot: a first word, menus, commands that can be pressed."""

from __future__ import annotations

import asyncio
import re

from core.catalogue import ENGLISH
from tests.conformance.bot import Bot
from tests.conformance.platforms import BEN, until
from tests.conformance.scenarios import NO_BUTTONS, NO_MEMBERS, cannot

NO_GROUPS = "nobody is added to a terminal"
ONE_REACTION = "nobody can react twice in the same way: tests/bots/forges has what is taken back"
NO_MENUS = {
    "console": "a terminal has no menus",
    "mastodon": "a status has no menus of bots",
    "github": "an issue has no menus of bots",
    "gitlab": "an issue has no menus of bots",
    "telegram": "messages of Telegram have no menus of bots",
}


@cannot(mastodon=NO_MEMBERS, github=NO_MEMBERS, console=NO_GROUPS)
async def test_who_is_added_to_a_group_says_what_it_can_do_once(bot: Bot) -> None:
    channel = bot.group()
    await bot.driver.join(channel)
    await until(lambda: bool(bot.messages(channel)), "a first word")
    await bot.driver.join(channel)
    await bot.idle()
    await bot.ask(bot.private(), "hello?")
    [text] = bot.texts(channel)
    assert "docs" in text
    assert "mention me" in text
    assert ENGLISH.command_summaries["help"] in text
    hint = ENGLISH.welcome_privacy.partition(",")[0]
    assert (hint in text) == (bot.platform == "telegram"), "this bot does not see all messages"
    assert bot.driver.get_notified(channel) == []


@cannot(**NO_MENUS)
async def test_a_message_is_asked_about_in_its_menu(bot: Bot) -> None:
    channel = bot.group()
    message = await bot.driver.say(channel, "the build fails with E12", person=BEN)
    entry = await bot.wait_until_finished(channel, await bot.driver.ask_about(channel, message))
    assert entry.state == "answered"
    assert bot.script.question_texts == ["the build fails with E12"]
    [text] = bot.texts(channel)
    assert text.endswith("Answer to: the build fails with E12")
    assert text.count("the build fails with E12") == 2, "people see what was asked about"


async def test_help_spells_commands_as_they_are_given_here(bot: Bot) -> None:
    channel = bot.private()
    await bot.command(channel, "help")
    spelled = {"telegram": r"^• /sources\b", "discord": r"</sources:8\d+>", "slack": r"`/kimas sources\b"}
    is_printed = bot.platform == "console"
    text = "\n".join(message.text if is_printed else message.raw for message in bot.messages(channel))
    assert re.search(spelled.get(bot.platform, "/sources"), text, re.MULTILINE)


@cannot(
    github=ONE_REACTION,
    mastodon=NO_BUTTONS,
    console="a terminal has no emoji below a message",
)
async def test_an_emoji_below_an_answer_is_feedback(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, "How?")
    [message] = bot.messages(channel)

    async def wait_for_reasons(count: int) -> list[str]:
        async with asyncio.timeout(30):
            while True:
                reasons = [entry.reason for entry in await bot.entries(channel) if entry.thread == "thumbs"]
                if len(reasons) == count and all(reasons):
                    return reasons
                await asyncio.sleep(0.02)

    for number, (is_removed, outcome) in enumerate(((False, "up"), (False, "up"), (True, "taken back")), 1):
        await bot.driver.react(channel, message.id, is_removed=is_removed)
        assert outcome in (await wait_for_reasons(number))[-1]
    assert len(bot.messages(channel)) == 1, "nothing answers an emoji"
