"""What the rows of others have of a person goes with them, whenever it was asked and whoever brought it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from core.settings.messaging import JournalSettings
from core.storage.tables import messages
from core.types import ConversationKey, Message, Reply
from core.types.replies import SearchRound, Trace
from tests.support.forgetting import ANN, KEPT_IN_CHAT, OWNER_ALONE, SAID, WORD, find_columns, opened

pytestmark = pytest.mark.usefixtures("time_lapse")

ASKED = Message("asked first", ConversationKey("telegram", "-100"), "43", "Bob", "And what?", datetime.now(UTC))


async def test_an_answer_that_was_asked_for_before_somebody_wrote_goes(tmp_path: Path) -> None:
    """It waited for people, and was told what they said meanwhile."""
    async with opened(tmp_path, JournalSettings()) as bot:
        completed = replace(ASKED, id="completed")
        alone = replace(ASKED, id="alone", key=ConversationKey("telegram", OWNER_ALONE.chat), private=True)
        for message in (ASKED, completed, alone):
            await bot.journal.record_message(message)
        await bot.deliver(ANN, SAID, addressed=False)
        await bot.deliver(OWNER_ALONE, "", "why")
        await bot.deliver(OWNER_ALONE, "What is this?", quoted=SAID)
        search_round = SearchRound((f"key {WORD}",), "good", "")
        trace = Trace("key", "react", (), {}, rounds=(search_round,))
        await bot.journal.mark_answered(ASKED, Reply(f"I see: {SAID}."))
        await bot.journal.mark_answered(completed, Reply("By a button.", trace=trace))
        await bot.journal.mark_answered(alone, Reply(f"I see: {SAID}."))
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        replies = select(messages.c.reply).filter_by(id=completed.id)
        assert await bot.journal.database.fetch_value(replies) == "By a button."
