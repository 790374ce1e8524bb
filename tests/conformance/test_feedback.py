"""Thumbs below answers: natively pressed, one per person, changed, taken back, and good after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text as sql

from core.catalogue import ENGLISH
from core.errors import UsageError
from core.messaging.feedback.rating_buttons import make_buttons
from core.types import UP
from tests.conformance.bot import Bot
from tests.conformance.buttons import get_feedback_buttons, press
from tests.conformance.platforms import BEN, Channel, Slack, Telegram
from tests.conformance.scenarios import NO_BUTTONS, cannot

QUESTION = "How do I install it?"


async def get_stored_feedback(bot: Bot) -> list[tuple[str, str]]:
    """Return what the journal's database holds of what people say, in the order they said it first."""
    async with bot.journal.database.connect() as connection:
        rows = (await connection.execute(sql("SELECT verdict, reason FROM feedback ORDER BY number"))).all()
    return [(row.verdict, row.reason) for row in rows]


@pytest.mark.parametrize("private", [True, False])
@cannot(mastodon=NO_BUTTONS, github=NO_BUTTONS)
async def test_an_answer_has_thumbs_that_count(bot: Bot, private: bool) -> None:
    channel = bot.private() if private else bot.group()
    await bot.ask(channel, QUESTION)
    buttons = get_feedback_buttons(bot, channel)
    assert list(buttons) == ["👍", "👎"]
    feedback = await press(bot, channel, buttons["👍"])
    assert feedback.text == ENGLISH.rated_up.format(up=1, down=0)
    assert feedback.buttons == {}
    assert await get_stored_feedback(bot) == [("up", "")]
    assert len(bot.texts(channel)) == (2 if bot.platform == "slack" else 1), "nobody else is told"


@cannot(mastodon=NO_BUTTONS, github=NO_BUTTONS)
async def test_each_person_has_one_thumb_to_change_and_to_take_back(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, QUESTION)
    buttons = get_feedback_buttons(bot, channel)
    await press(bot, channel, buttons["👍"])
    assert "👍 2" in (await press(bot, channel, buttons["👍"], BEN)).text
    assert "👍 1 · 👎 1" in (await press(bot, channel, buttons["👎"])).text
    assert (await press(bot, channel, buttons["👎"])).text == ENGLISH.rating_removed.format(up=1, down=0)
    assert await get_stored_feedback(bot) == [("", ""), ("up", "")]


@cannot(mastodon=NO_BUTTONS, github=NO_BUTTONS)
async def test_who_is_not_content_may_say_why(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, QUESTION)
    feedback = await press(bot, channel, get_feedback_buttons(bot, channel)["👎"])
    assert ENGLISH.ask_reason in feedback.text
    assert list(feedback.buttons) == list(ENGLISH.buttons.values())
    if bot.platform == "console":
        typed = ["/bad wrong", "/bad outdated", "/bad other", "/bad unclear", "/again"]
    else:
        question = feedback.buttons["Wrong"].split(":", 2)[2]
        typed = [button.data for button in make_buttons(question, list(ENGLISH.buttons.items()))]
    assert list(feedback.buttons.values()) == typed
    feedback = await press(bot, channel, feedback.buttons["Outdated"], below=feedback.below)
    assert feedback.text == ENGLISH.reason_noted
    assert await get_stored_feedback(bot) == [("down", "outdated")]


@cannot(mastodon=NO_BUTTONS, github=NO_BUTTONS)
async def test_the_asker_gets_another_try_in_the_same_place(bot: Bot) -> None:
    channel = await bot.driver.thread(bot.group())
    entry = await bot.ask(channel, QUESTION)
    bot.script.says = lambda _: "Better this time"
    feedback = await press(bot, channel, get_feedback_buttons(bot, channel)["👎"])
    retry_data = feedback.buttons[ENGLISH.buttons["again"]]
    assert (await press(bot, channel, retry_data, BEN)).text == ENGLISH.only_asker
    assert (await press(bot, channel, retry_data)).text == ENGLISH.retrying
    await bot.wait_until_finished(channel, f"{entry.id}~2")
    messages = [message for message in bot.messages(channel) if message.text == "Better this time"]
    first = next(message for message in bot.messages(channel) if message.text == f"Answer to: {QUESTION}")
    assert [(message.thread, message.reply_to) for message in messages] == [(first.thread, first.reply_to)]
    assert (await press(bot, channel, retry_data)).text == ENGLISH.already_retried
    assert len(bot.script.questions) == 2
    assert list(get_feedback_buttons(bot, channel)) == ["👍", "👎"], "the second answer is rated as well"


@cannot(
    mastodon=NO_BUTTONS,
    github=NO_BUTTONS,
    console="nothing that is printed rings: tests/bots/cli/test_group.py shows a call",
)
async def test_a_call_mentions_who_is_configured_and_nobody_else(bot: Bot) -> None:
    people = {"telegram": "telegram:@helper", "discord": "discord:4242", "slack": "slack:U4242"}
    await bot.stop()
    bot.changes = {"handoff": {"people": list(people.values())}}
    await bot.start()
    channel = bot.group()
    bot.script.says = lambda _: "Ask @somebody, <@1>, <@U1> or @everyone"
    entry = await bot.ask(channel, "Does @somebody or @everyone know?")
    assert bot.driver.get_notified(channel) == []
    question_id = entry.id if bot.platform != "slack" else ""
    message = await bot.wait_until_finished(channel, await escalate(bot, channel, question_id))
    assert message.state == "answered", message
    await bot.wait_until_finished(channel, f"{entry.id}~h")
    [call] = [item for item in bot.messages(channel) if "could use your help" in item.raw]
    notified = bot.driver.get_notified(channel)
    assert len(notified) == 1
    assert people[bot.platform].partition(":")[2] in (call.raw if bot.platform == "telegram" else notified[0])
    assert get_feedback_buttons(bot, channel) == {}, "a call is no answer"


async def escalate(bot: Bot, channel: Channel, question_text: str) -> str:
    """Give the command `/escalate`; in reply to the question where the platform has that."""
    if isinstance(bot.driver, Telegram):
        return await bot.driver.say(channel, "/escalate@kimas_bot", reply_to=question_text)
    if isinstance(bot.driver, Slack):
        return str(bot.driver.peer.command("escalate", channel=channel.id, user="U1001").payload["trigger_id"])  # type: ignore[index]
    return await bot.driver.command(channel, "escalate")


@cannot(
    mastodon=NO_BUTTONS,
    github=NO_BUTTONS,
    console="after a restart nothing stands above yet that a line could be about",
)
async def test_thumbs_work_after_a_restart(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, QUESTION)
    buttons = get_feedback_buttons(bot, channel)
    await press(bot, channel, buttons["👍"])
    await bot.stop()
    await bot.start()
    assert "👍 0 · 👎 1" in (await press(bot, channel, buttons["👎"])).text
    await bot.kill()
    await bot.start()
    await press(bot, channel, buttons["👎"])
    assert await get_stored_feedback(bot) == [("", "")]


@cannot(mastodon=NO_BUTTONS, github=NO_BUTTONS, console="what is typed names no answer: it is about the one above")
async def test_a_forged_press_says_so_and_changes_nothing(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, QUESTION)
    # Telegram numbers the messages of each chat anew.
    await bot.ask(bot.private(BEN), "Something private?", person=BEN)
    other_entry = await bot.ask(bot.private(BEN), "Something more?", person=BEN)
    for number in (other_entry.id, "99999999"):
        [forged] = make_buttons(number, [(UP, "👍")])
        assert (await press(bot, channel, forged.data)).text == ENGLISH.unknown_answer
    assert await get_stored_feedback(bot) == []


async def test_help_refusals_and_apologies_have_no_thumbs(bot: Bot) -> None:
    channel = bot.private()
    bot.script.raises = UsageError("That is too long.")
    await bot.ask(channel, QUESTION)
    bot.script.raises = RuntimeError("broken")
    await bot.ask(channel, QUESTION)
    assert [get_feedback_buttons(bot, channel, at) for at in range(2)] == [{}, {}]
    if bot.platform in ("telegram", "console"):
        await bot.wait_until_finished(channel, await bot.driver.command(channel, "help"))
        assert get_feedback_buttons(bot, channel) == {}


@cannot(mastodon=NO_BUTTONS, github=NO_BUTTONS, console="a terminal takes an answer of any length")
async def test_thumbs_stand_below_the_last_part_of_a_long_answer(bot: Bot) -> None:
    channel = bot.private()
    bot.script.says = lambda _: "\n\n".join(f"Paragraph {number} says a little more. " * 6 for number in range(40))
    bot.script.pieces = ["Paragraph 0", "Paragraph 0 says"]
    await bot.ask(channel, QUESTION)
    below = [bool(get_feedback_buttons(bot, channel, at)) for at in range(len(bot.messages(channel)))]
    assert len(below) > 1
    assert below == [*[False] * (len(below) - 1), True]


async def test_no_thumbs_where_they_are_switched_off(bot: Bot) -> None:
    await bot.stop()
    bot.changes = {"feedback": {"thumbs": False}}
    await bot.start()
    await bot.ask(bot.private(), QUESTION)
    assert get_feedback_buttons(bot, bot.private()) == {}


@cannot(mastodon=NO_BUTTONS, github=NO_BUTTONS)
async def test_a_press_is_safe_before_it_is_acknowledged(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, QUESTION)
    with closing(sqlite3.connect(bot.file, isolation_level=None)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        pressing = asyncio.create_task(press(bot, channel, get_feedback_buttons(bot, channel)["👍"]))
        await asyncio.sleep(0.3)
        assert not pressing.done(), "nothing can be written, so nothing is acknowledged"
        assert await get_stored_feedback(bot) == []
        somebody.execute("ROLLBACK")
        assert (await pressing).text == ENGLISH.rated_up.format(up=1, down=0)
    assert await get_stored_feedback(bot) == [("up", "")]
