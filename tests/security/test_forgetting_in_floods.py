"""Who wants to be forgotten is so, however often they press and write; replies to it have a limit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.messaging.event_limit import MAX_EVENTS
from core.settings.messaging import JournalSettings
from core.storage.feedback import FeedbackRepository
from core.storage.forgettable import has_something_of
from core.storage.lessons import TaughtAnswerRepository
from core.types import UP, ConversationKey, Message
from tests.support.forgetting import ANN, ANN_ID, BOB, KEPT_IN_CHAT, SAID, WORD, find_columns, opened
from tests.support.recording_bot import Bot

pytestmark = pytest.mark.usefixtures("time_lapse")

COMMAND = Message("f", ConversationKey("telegram", ANN.chat), ANN_ID, "Ann", "", datetime.now(UTC), command="forget")


async def flood(bot: Bot) -> None:
    """Let Ann use up what she may send of events."""
    for _ in range(MAX_EVENTS):
        await bot.deliver(ANN, "", "help")


async def test_who_was_busy_is_forgotten_all_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, f"{SAID} is it?")
        await flood(bot)
        bot.output()
        await bot.deliver(ANN, "", "forget")
        assert "Forgotten" in bot.output()
        assert await find_columns(bot.journal.database, WORD) <= set(KEPT_IN_CHAT)
        await bot.deliver(ANN, "", "forget")
        assert bot.output() == "", "there is nothing: a flood reaches no journal"


@pytest.mark.parametrize("mode", ["mention", "off"])
async def test_a_flood_of_it_is_carried_out_and_not_answered_for_ever(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path, JournalSettings(), gate={"answers_in_10_min": 3, "mode": mode}) as bot:
        replies = []
        for number in range(6):
            await bot.deliver(ANN, f"{SAID} is it, for time {number}?")
            bot.output()
            await bot.deliver(ANN, "", "forget")
            replies.append("Forgotten" in bot.output())
            assert await find_columns(bot.journal.database, WORD) <= set(KEPT_IN_CHAT)
        assert replies == [True, True, True, False, False, False]
        await bot.deliver(BOB, "", "forget")
        assert bot.output() != "", "others have a limit of their own"


async def test_what_is_there_of_somebody_is_found_wherever_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        database = bot.journal.database
        assert not await has_something_of(database, COMMAND)
        assert not await has_something_of(database, replace(COMMAND, author_id=""))
        asked = await bot.deliver(BOB, "What is this?", quoted=SAID, quoted_authors=(ANN_ID,))
        assert await has_something_of(database, COMMAND), "what others quote"
        await bot.deliver(ANN, "", "forget")
        assert not await has_something_of(database, COMMAND)
        await FeedbackRepository(database).rate(replace(COMMAND, bot=asked.bot), asked.id, UP)
        assert await has_something_of(database, COMMAND), "a rating"
        await bot.deliver(ANN, "", "forget")
        assert not await has_something_of(database, COMMAND)
        lesson = replace(COMMAND, id="lesson", text="Use it.", command="")
        await TaughtAnswerRepository(database).submit(lesson, "", "How?", "Use it.", (), words_of=[])
        assert await has_something_of(database, COMMAND), "a lesson"
        assert not await has_something_of(database, replace(COMMAND, key=ConversationKey("telegram", "elsewhere")))


async def test_a_request_that_waits_covers_what_came_before_it(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        database = bot.journal.database
        await bot.deliver(ANN, f"{SAID} is it?")
        assert await bot.journal.record_message(COMMAND)
        assert not await has_something_of(database, replace(COMMAND, id="g"))
        await bot.deliver(ANN, f"{SAID} is it?")
        assert await has_something_of(database, replace(COMMAND, id="h"))
