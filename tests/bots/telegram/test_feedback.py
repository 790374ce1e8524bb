"""Presses of inline buttons against a strict server: delivered again, too late, under old messages, too fast."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.catalogue import ENGLISH
from tests.conformance.bot import Bot
from tests.conformance.platforms import Telegram, until
from tests.support.feedback_helpers import answered, votes
from tests.support.peers.telegram import Author, TelegramPeer

GROUP = -101


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    async with answered(Telegram(), tmp_path) as bot:
        yield bot


def get_peer(bot: Bot) -> TelegramPeer:
    assert isinstance(bot.driver, Telegram)
    return bot.driver.peer


async def test_presses_are_asked_for_and_their_data_is_short_and_plain(bot: Bot) -> None:
    peer = get_peer(bot)
    assert "callback_query" in (peer.allowed_updates or ())
    [message] = peer.messages(GROUP)
    assert [entry["callback_data"] for row in message.buttons for entry in row] == ["thumb:up:1", "thumb:down:1"]


async def test_a_press_delivered_again_is_no_second_press(bot: Bot) -> None:
    peer = get_peer(bot)
    [message] = peer.messages(GROUP)
    number = peer.press(GROUP, message.id, "thumb:up:1")
    second_query = {
        "id": number,
        "from": {"id": 1001, "is_bot": False, "first_name": "Ann"},
        "chat_instance": "1",
        "data": "thumb:up:1",
    }
    peer.inject({"callback_query": {**second_query, "message": peer._message(peer.chat(GROUP), message)}})
    other = peer.press(GROUP, message.id, "thumb:up:1", author=replace(Author(), id=1002))
    await until(lambda: other in peer.notices, "a notice")
    assert await votes(bot) == ["up", "up"]


async def test_an_old_answer_is_rated_though_the_bot_cannot_see_it_any_more(bot: Bot) -> None:
    peer = get_peer(bot)
    [message] = peer.messages(GROUP)
    number = peer.press(GROUP, message.id, "thumb:down:1", old=True)
    await until(lambda: number in peer.notices, "a notice")
    await bot.idle()
    assert await votes(bot) == ["down"]
    assert len(message.buttons) > 1, "the reasons are offered below it all the same"


async def test_a_press_that_comes_too_late_to_be_answered_counts(bot: Bot) -> None:
    peer = get_peer(bot)
    peer.press_s = -1
    [message] = peer.messages(GROUP)
    peer.press(GROUP, message.id, "thumb:up:1")
    await until(lambda: any(call.status == 400 for call in peer.get_calls("answerCallbackQuery")), "a refusal")
    await bot.idle()
    assert await votes(bot) == ["up"]


async def test_reasons_are_added_once_and_a_limit_costs_only_them(bot: Bot) -> None:
    peer = get_peer(bot)
    [message] = peer.messages(GROUP)
    peer.fail("editMessageReplyMarkup", 429, description="Too Many Requests: retry after 9", retry_after=9)
    first = peer.press(GROUP, message.id, "thumb:down:1")
    await until(lambda: first in peer.notices, "a notice")
    await bot.idle()
    assert len(message.buttons) == 1
    assert await votes(bot) == ["down"]
    for data in ("thumb:wrong:1", "thumb:unclear:1"):
        number = peer.press(GROUP, message.id, data)
        await until(lambda number=number: number in peer.notices, "a notice")  # type: ignore[misc]
        await bot.idle()
    assert len(peer.get_calls("editMessageReplyMarkup")) == 2
    assert [entry["text"] for row in message.buttons[1:] for entry in row] == list(ENGLISH.buttons.values())


async def test_a_foreign_button_is_left_alone(bot: Bot) -> None:
    peer = get_peer(bot)
    [message] = peer.messages(GROUP)
    peer.press(GROUP, message.id, "game:start")
    await bot.skipped("not ours")
    assert peer.get_calls("answerCallbackQuery") == []
