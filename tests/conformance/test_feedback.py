"""Thumbs below answers: natively pressed, one per person, changed, taken back, and good after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text as sql

from core.catalogue import ENGLISH
from core.errors import UsageError
from core.messaging.feedback.rating_buttons import make_buttons
from core.types import UP
from tests.conformance.bot import Bot
from tests.conformance.platforms import ANN, BEN, Channel, Discord, Person, Slack, Telegram, until
from tests.conformance.played import Played
from tests.conformance.scenarios import cannot

QUESTION = "How do I install it?"


@dataclass
class ButtonResponse:
    """What somebody sees who has pressed a button: a text, and the buttons that follow by their label.

    In the terminal what stands behind a button is what is typed.
    """

    text: str
    buttons: dict[str, str]
    below: Any


def get_feedback_buttons(bot: Bot, channel: Channel, at: int = -1) -> dict[str, str]:
    """Return the buttons below one of the bot's messages: what stands behind them, by label."""
    driver = bot.driver
    channel_id = channel.id
    if isinstance(driver, Played):
        return driver.get_choices(driver.messages(channel)[at])
    if isinstance(driver, Telegram):
        rows = driver.peer.messages(int(channel_id))[at].buttons
        return {message["text"]: message["callback_data"] for row in rows for message in row}
    if isinstance(driver, Discord):
        return of_rows(driver.peer.messages(channel_id)[at].components)
    assert isinstance(driver, Slack)
    return {button["text"]["text"]: button["value"] for button in driver.peer.messages(channel_id)[at].buttons()}


def of_rows(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {component["label"]: component["custom_id"] for row in rows for component in row["components"]}


async def press(
    bot: Bot, channel: Channel, data: str, person: Person = ANN, *, at: int = -1, below: Any = None, idle: bool = True
) -> ButtonResponse:
    """Press a button below one of the bot's messages, or `below` a note; return what is seen then.

    Without `idle` other work goes on meanwhile.
    """
    driver = bot.driver
    channel_id = channel.id
    if isinstance(driver, Played):
        printed = driver.printed()
        await bot.wait_until_finished(channel, await driver.say(channel, data, person=person))
        output = driver.read_feedback_reply(person, printed)
        return ButtonResponse(output.text, output.choices, None)
    if isinstance(driver, Telegram):
        message = driver.peer.messages(int(channel_id))[at]
        number = driver.peer.press(int(channel_id), message.id, data, author=driver._author(person))
        await until(lambda: number in driver.peer.notices, "a notice")
        await (bot.idle() if idle else asyncio.sleep(0))
        details_buttons = {entry["text"]: entry["callback_data"] for row in message.buttons[1:] for entry in row}
        return ButtonResponse(driver.peer.notices[number], details_buttons, None)
    if isinstance(driver, Discord):
        command = await driver.peer.press(below or driver.peer.messages(channel_id)[at], data, driver._author(person))
        await until(lambda: command.response_message is not None, "a note")
        assert command.response_message is not None
        assert command.response_message.flags & 64, "only who pressed sees it"
        await (bot.idle() if idle else asyncio.sleep(0))
        return ButtonResponse(
            command.response_message.content, of_rows(command.response_message.components), command.response_message
        )
    assert isinstance(driver, Slack)
    envelope = driver.peer.press(channel_id, data, user=f"U{1000 + person.number}", ephemeral=below is not None)
    assert isinstance(envelope.payload, dict)
    trigger = envelope.payload["trigger_id"]
    await until(lambda: any(response["trigger"] == trigger for response in driver.peer.responses), "a note")
    [output] = [response for response in driver.peer.responses if response["trigger"] == trigger]
    assert (output["response_type"], output["replace_original"]) == ("ephemeral", below is not None)
    await (bot.idle() if idle else asyncio.sleep(0))
    results = [
        element for block in output.get("blocks") or () if block["type"] == "actions" for element in block["elements"]
    ]
    return ButtonResponse(output["text"], {result["text"]["text"]: result["value"] for result in results}, output)


async def get_stored_feedback(bot: Bot) -> list[tuple[str, str]]:
    """Return what the journal's database holds of what people say, in the order they said it first."""
    async with bot.journal.database.connect() as connection:
        rows = (await connection.execute(sql("SELECT verdict, reason FROM feedback ORDER BY number"))).all()
    return [(row.verdict, row.reason) for row in rows]


@pytest.mark.parametrize("private", [True, False])
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


async def test_each_person_has_one_thumb_to_change_and_to_take_back(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, QUESTION)
    buttons = get_feedback_buttons(bot, channel)
    await press(bot, channel, buttons["👍"])
    assert "👍 2" in (await press(bot, channel, buttons["👍"], BEN)).text
    assert "👍 1 · 👎 1" in (await press(bot, channel, buttons["👎"])).text
    assert (await press(bot, channel, buttons["👎"])).text == ENGLISH.rating_removed.format(up=1, down=0)
    assert await get_stored_feedback(bot) == [("", ""), ("up", "")]


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


@cannot(console="nothing that is printed rings: tests/bots/test_group.py shows a call")
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


@cannot(console="after a restart nothing stands above yet that a line could be about")
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


@cannot(console="what is typed names no answer: it is about the one above")
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


@cannot(console="a terminal takes an answer of any length")
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
