"""What somebody alone was told is no part of what others read, also once answers are for everybody again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bots.common.asker_only import for_asker
from core.settings.messaging import JournalSettings
from core.storage.message_lookup import MessageLookup
from core.types import ConversationKey, Message
from core.types.messages import PERSONAL_THREAD
from tests.support.forgetting import ANN, ANN_ID, SAID, WORD, opened
from tests.support.recording_bot import Bot

pytestmark = pytest.mark.usefixtures("time_lapse")

KEY = ConversationKey("telegram", ANN.chat, PERSONAL_THREAD + ANN_ID)


async def give(bot: Bot, text: str, command: str = "ask", *, is_alone: bool = False) -> str:
    """Let Ann give a command, for her eyes alone or not; return what was shown, and what models were told."""
    bot.output()
    bot.get_requests()
    message = Message("1", KEY, ANN_ID, "Ann", text, datetime.now(UTC))
    message = for_asker(message) if is_alone else message
    changes = {"key": message.key, "reference": message.reference, "thread_state": message.thread_state}
    await bot.deliver(ANN, text, command, **changes)
    return f"{bot.output()}{bot.get_requests()}"


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_conversation_of_somebody_alone_does_not_go_on_before_others(tmp_path: Path, *, is_alone: bool) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        assert WORD in await give(bot, f"{SAID} is it?", is_alone=True)
        assert (WORD in await give(bot, "And how does it start?", is_alone=is_alone)) is is_alone


async def test_what_somebody_alone_asked_is_found_by_them_alone(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await give(bot, f"{SAID} is it?", is_alone=True)
        lookup = MessageLookup(bot.journal.database)
        before_others = Message("looks", KEY, ANN_ID, "Ann", "", datetime.now(UTC), command="ask")
        assert await lookup.find_question(before_others) is None
        assert await lookup.find_question(replace(before_others, command="escalate"))
        assert await lookup.find_question(for_asker(before_others))


async def test_what_somebody_alone_was_told_is_explained_to_them(tmp_path: Path) -> None:
    """The reply to a command is theirs alone, as the answer was."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await give(bot, f"{SAID} is it?", is_alone=True)
        assert WORD in await give(bot, "", "why")
