"""The buttons below an answer, and their presses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.conformance.bot import Bot
from tests.conformance.platforms import ANN, Bluesky, Channel, Discord, Github, Mastodon, Person, Slack, Telegram, until
from tests.conformance.played import Played


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
    if isinstance(driver, Mastodon | Bluesky | Github):
        return {}
    assert isinstance(driver, Slack)
    return {button["text"]["text"]: button["value"] for button in driver.peer.messages(channel_id)[at].buttons()}


def of_rows(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {component["label"]: component["custom_id"] for row in rows for component in row["components"]}


async def press(
    bot: Bot,
    channel: Channel,
    data: str,
    person: Person = ANN,
    *,
    at: int = -1,
    below: Any = None,
    is_hidden: bool = False,
    idle: bool = True,
) -> ButtonResponse:
    """Press a button below one of the bot's messages, or `below` a note; return what is seen then.

    If `is_hidden`, only that person sees the message. Without `idle` other work goes on meanwhile.
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
    is_ephemeral = is_hidden or below is not None
    envelope = driver.peer.press(channel_id, data, user=f"U{1000 + person.number}", ephemeral=is_ephemeral)
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
