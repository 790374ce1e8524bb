"""What comes with messages, in the journal: kept, remembered, forgotten, and added to one of an earlier version."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select

from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Attachment, ConversationKey, Message, Reply, Turn
from tests.support.journal import read_history

PHOTO = Attachment("picture", "shot.png", 70, {"file_id": "f"})
MESSAGE = Message(
    "1",
    ConversationKey("test", "room"),
    "42",
    "Ann",
    "Why?",
    datetime(2026, 1, 2, tzinfo=UTC),
    addressed=True,
    attachments=(PHOTO, Attachment("voice")),
)


async def test_attachments_survive_a_restart_and_are_told_in_the_conversation(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.db")
    await journal.record_message(MESSAGE)
    await journal.close()
    journal = await Journal.open(tmp_path / "journal.db")
    try:
        ((pending_message, _),) = await journal.get_pending("test")
        assert pending_message == MESSAGE
        await journal.mark_answered(MESSAGE, Reply("Install it.", image_description="No module\nnamed kimas"))
        turn = Turn("user", "Why?\n\nWhat is attached says:\n> No module\n> named kimas", "Ann", "42")
        assert list(await read_history(journal, MESSAGE.key, 2)) == [
            turn,
            Turn("assistant", "Install it."),
        ]
    finally:
        await journal.close()


async def test_what_was_seen_is_forgotten_with_the_question(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.db")
    try:
        for number in ("1", "2"):
            message = replace(MESSAGE, id=number)
            await journal.record_message(message)
            await journal.mark_answered(message, Reply("Install it.", image_description="a secret"))
        assert await journal.erase_author(replace(MESSAGE, id="3")) == 2
        await journal.record_message(replace(MESSAGE, id="4"))
        await journal.mark_answered(replace(MESSAGE, id="4"), Reply("Install it.", image_description="a secret"))
        assert await journal.erase_expired(datetime.now(UTC) + timedelta(days=1), None) == 1
        async with journal.database.connect() as connection:
            rows = (await connection.execute(select(messages.c.image_description, messages.c.attachments))).all()
        assert [tuple(row) for row in rows] == [(None, None)] * 3
    finally:
        await journal.close()
