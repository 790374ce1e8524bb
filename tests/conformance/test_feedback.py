"""Thumbs below answers: natively pressed, one per person, changed, taken back, and good after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text as sql

from core.errors import UsageError
from core.messaging.feedback.rating_buttons import make_buttons
from core.text.catalogue import ENGLISH
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


def offered(bot: Bot, room: Channel, at: int = -1) -> dict[str, str]:
    """Return the buttons below one of the bot's messages: what stands behind them, by label."""
    driver, place = bot.driver, room.place
    if isinstance(driver, Played):
        return driver.offered(driver.messages(room)[at])
    if isinstance(driver, Telegram):
        rows = driver.peer.messages(int(place))[at].buttons
        return {message["text"]: message["callback_data"] for row in rows for message in row}
    if isinstance(driver, Discord):
        return of_rows(driver.peer.messages(place)[at].components)
    assert isinstance(driver, Slack)
    return {button["text"]["text"]: button["value"] for button in driver.peer.messages(place)[at].buttons()}


def of_rows(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {component["label"]: component["custom_id"] for row in rows for component in row["components"]}


async def press(
    bot: Bot, room: Channel, data: str, person: Person = ANN, *, at: int = -1, below: Any = None, idle: bool = True
) -> ButtonResponse:
    """Press a button below one of the bot's messages, or `below` a note; return what is seen then.

    Without `idle` other work goes on meanwhile.
    """
    driver, place = bot.driver, room.place
    if isinstance(driver, Played):
        printed = driver.printed()
        await bot.settled(room, await driver.say(room, data, person=person))
        output = driver.read_feedback_reply(person, printed)
        return ButtonResponse(output.text, output.choices, None)
    if isinstance(driver, Telegram):
        message = driver.peer.messages(int(place))[at]
        number = driver.peer.press(int(place), message.id, data, author=driver._author(person))
        await until(lambda: number in driver.peer.notices, "a notice")
        await (bot.idle() if idle else asyncio.sleep(0))
        following = {entry["text"]: entry["callback_data"] for row in message.buttons[1:] for entry in row}
        return ButtonResponse(driver.peer.notices[number], following, None)
    if isinstance(driver, Discord):
        command = await driver.peer.press(below or driver.peer.messages(place)[at], data, driver._author(person))
        await until(lambda: command.response_message is not None, "a note")
        assert command.response_message is not None
        assert command.response_message.flags & 64, "only who pressed sees it"
        await (bot.idle() if idle else asyncio.sleep(0))
        return ButtonResponse(
            command.response_message.content, of_rows(command.response_message.components), command.response_message
        )
    assert isinstance(driver, Slack)
    envelope = driver.peer.press(place, data, user=f"U{1000 + person.number}", ephemeral=below is not None)
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


async def stored_feedback(bot: Bot) -> list[tuple[str, str]]:
    """Return what the journal's database holds of what people say, in the order they said it first."""
    async with bot.journal.database.connect() as connection:
        rows = (await connection.execute(sql("SELECT verdict, reason FROM feedback ORDER BY number"))).all()
    return [(row.verdict, row.reason) for row in rows]


@pytest.mark.parametrize("private", [True, False])
async def test_an_answer_has_thumbs_that_count(bot: Bot, private: bool) -> None:
    room = bot.private() if private else bot.group()
    await bot.ask(room, QUESTION)
    buttons = offered(bot, room)
    assert list(buttons) == ["👍", "👎"]
    noted = await press(bot, room, buttons["👍"])
    assert noted.text == ENGLISH.rated_up.format(up=1, down=0)
    assert noted.buttons == {}
    assert await stored_feedback(bot) == [("up", "")]
    assert len(bot.texts(room)) == (2 if bot.platform == "slack" else 1), "nobody else is told"


async def test_each_person_has_one_thumb_to_change_and_to_take_back(bot: Bot) -> None:
    room = bot.group()
    await bot.ask(room, QUESTION)
    buttons = offered(bot, room)
    await press(bot, room, buttons["👍"])
    assert "👍 2" in (await press(bot, room, buttons["👍"], BEN)).text
    assert "👍 1 · 👎 1" in (await press(bot, room, buttons["👎"])).text
    assert (await press(bot, room, buttons["👎"])).text == ENGLISH.rating_removed.format(up=1, down=0)
    assert await stored_feedback(bot) == [("", ""), ("up", "")]


async def test_who_is_not_content_may_say_why(bot: Bot) -> None:
    room = bot.group()
    await bot.ask(room, QUESTION)
    noted = await press(bot, room, offered(bot, room)["👎"])
    assert ENGLISH.ask_reason in noted.text
    assert list(noted.buttons) == list(ENGLISH.buttons.values())
    if bot.platform == "console":
        typed = ["/bad wrong", "/bad outdated", "/bad other", "/bad unclear", "/again"]
    else:
        question = noted.buttons["Wrong"].split(":", 2)[2]
        typed = [button.data for button in make_buttons(question, list(ENGLISH.buttons.items()))]
    assert list(noted.buttons.values()) == typed
    noted = await press(bot, room, noted.buttons["Outdated"], below=noted.below)
    assert noted.text == ENGLISH.reason_noted
    assert await stored_feedback(bot) == [("down", "outdated")]


async def test_the_asker_gets_another_try_in_the_same_place(bot: Bot) -> None:
    room = await bot.driver.thread(bot.group())
    entry = await bot.ask(room, QUESTION)
    bot.script.says = lambda _: "Better this time"
    noted = await press(bot, room, offered(bot, room)["👎"])
    again = noted.buttons[ENGLISH.buttons["again"]]
    assert (await press(bot, room, again, BEN)).text == ENGLISH.only_asker
    assert (await press(bot, room, again)).text == ENGLISH.retrying
    await bot.settled(room, f"{entry.id}~2")
    messages = [message for message in bot.messages(room) if message.text == "Better this time"]
    first = next(message for message in bot.messages(room) if message.text == f"Answer to: {QUESTION}")
    assert [(message.thread, message.reply_to) for message in messages] == [(first.thread, first.reply_to)]
    assert (await press(bot, room, again)).text == ENGLISH.already_retried
    assert len(bot.script.questions) == 2
    assert list(offered(bot, room)) == ["👍", "👎"], "the second answer is rated as well"


@cannot(console="nothing that is printed rings: tests/bots/test_group.py shows a call")
async def test_a_call_mentions_who_is_configured_and_nobody_else(bot: Bot) -> None:
    people = {"telegram": "telegram:@helper", "discord": "discord:4242", "slack": "slack:U4242"}
    await bot.stop()
    bot.changes = {"handoff": {"people": list(people.values())}}
    await bot.start()
    room = bot.group()
    bot.script.says = lambda _: "Ask @somebody, <@1>, <@U1> or @everyone"
    entry = await bot.ask(room, "Does @somebody or @everyone know?")
    assert bot.driver.rung(room) == []
    question_id = entry.id if bot.platform != "slack" else ""
    message = await bot.settled(room, await called_for(bot, room, question_id))
    assert message.state == "answered", message
    await bot.settled(room, f"{entry.id}~h")
    [call] = [item for item in bot.messages(room) if "could use your help" in item.raw]
    rung = bot.driver.rung(room)
    assert len(rung) == 1
    assert people[bot.platform].partition(":")[2] in (call.raw if bot.platform == "telegram" else rung[0])
    assert offered(bot, room) == {}, "a call is no answer"


async def called_for(bot: Bot, room: Channel, question_text: str) -> str:
    """Give the command `/escalate`; in reply to the question where the platform has that."""
    if isinstance(bot.driver, Telegram):
        return await bot.driver.say(room, "/escalate@kimas_bot", reply_to=question_text)
    if isinstance(bot.driver, Slack):
        return str(bot.driver.peer.command("escalate", channel=room.place, user="U1001").payload["trigger_id"])  # type: ignore[index]
    return await bot.driver.command(room, "escalate")


@cannot(console="after a restart nothing stands above yet that a line could be about")
async def test_thumbs_work_after_a_restart(bot: Bot) -> None:
    room = bot.group()
    await bot.ask(room, QUESTION)
    buttons = offered(bot, room)
    await press(bot, room, buttons["👍"])
    await bot.stop()
    await bot.start()
    assert "👍 0 · 👎 1" in (await press(bot, room, buttons["👎"])).text
    await bot.kill()
    await bot.start()
    await press(bot, room, buttons["👎"])
    assert await stored_feedback(bot) == [("", "")]


@cannot(console="what is typed names no answer: it is about the one above")
async def test_a_forged_press_says_so_and_changes_nothing(bot: Bot) -> None:
    room = bot.group()
    await bot.ask(room, QUESTION)
    # Telegram numbers the messages of each chat anew.
    await bot.ask(bot.private(BEN), "Something private?", person=BEN)
    other_entry = await bot.ask(bot.private(BEN), "Something more?", person=BEN)
    for number in (other_entry.id, "99999999"):
        [forged] = make_buttons(number, [(UP, "👍")])
        assert (await press(bot, room, forged.data)).text == ENGLISH.unknown_answer
    assert await stored_feedback(bot) == []


async def test_help_refusals_and_apologies_have_no_thumbs(bot: Bot) -> None:
    room = bot.private()
    bot.script.raises = UsageError("That is too long.")
    await bot.ask(room, QUESTION)
    bot.script.raises = RuntimeError("broken")
    await bot.ask(room, QUESTION)
    assert [offered(bot, room, at) for at in range(2)] == [{}, {}]
    if bot.platform in ("telegram", "console"):
        await bot.settled(room, await bot.driver.command(room, "help"))
        assert offered(bot, room) == {}


@cannot(console="a terminal takes an answer of any length")
async def test_thumbs_stand_below_the_last_part_of_a_long_answer(bot: Bot) -> None:
    room = bot.private()
    bot.script.says = lambda _: "\n\n".join(f"Paragraph {number} says a little more. " * 6 for number in range(40))
    bot.script.pieces = ["Paragraph 0", "Paragraph 0 says"]
    await bot.ask(room, QUESTION)
    below = [bool(offered(bot, room, at)) for at in range(len(bot.messages(room)))]
    assert len(below) > 1
    assert below == [*[False] * (len(below) - 1), True]


async def test_no_thumbs_where_they_are_switched_off(bot: Bot) -> None:
    await bot.stop()
    bot.changes = {"feedback": {"thumbs": False}}
    await bot.start()
    await bot.ask(bot.private(), QUESTION)
    assert offered(bot, bot.private()) == {}


async def test_a_press_is_safe_before_it_is_acknowledged(bot: Bot) -> None:
    room = bot.group()
    await bot.ask(room, QUESTION)
    with closing(sqlite3.connect(bot.file, isolation_level=None)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        pressing = asyncio.create_task(press(bot, room, offered(bot, room)["👍"]))
        await asyncio.sleep(0.3)
        assert not pressing.done(), "nothing can be written, so nothing is acknowledged"
        assert await stored_feedback(bot) == []
        somebody.execute("ROLLBACK")
        assert (await pressing).text == ENGLISH.rated_up.format(up=1, down=0)
    assert await stored_feedback(bot) == [("up", "")]
