"""The journal on a disk that is full for a while, after a power cut, and under a clock that was set back."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, update

from core.errors import JournalError
from core.ports import Sink
from core.storage.chat_history import ChatHistory
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import ConversationKey, Message, Question, Reply
from tests.support.fixtures import settings
from tests.support.processing import RecordingAdapter
from tests.support.waiting import until
from tests.support.wiring import make_processor

NOW = datetime.now(UTC)
MESSAGE = Message("1", ConversationKey("test", "room"), "42", "Ann", "How?", NOW, addressed=True)


@dataclass
class Disk:
    """Where the journal is: while it is full, the file takes no further page."""

    journal: Journal
    is_full: bool = False

    def limit(self, connection: Any, *_: object) -> None:
        cursor = connection.cursor()
        # SQLite takes the number of pages that there are for a smaller one.
        cursor.execute(f"PRAGMA max_page_count = {1 if self.is_full else 2**30}")
        cursor.close()


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    journal = Disk(await Journal.open(tmp_path / "journal.db"))
    event.listen(journal.journal.database._engine.sync_engine, "checkout", journal.limit)
    yield journal
    await journal.journal.close()


@pytest.mark.usefixtures("time_lapse")
async def test_what_a_full_disk_holds_up_goes_on_by_itself_once_there_is_room(disk: Disk) -> None:
    answers = []

    async def answer(question: Question, sink: Sink) -> Reply:
        answers.append(question.text)
        disk.is_full = len(answers) == 1
        reply = Reply(f"{question.text} " + "Long words. " * 4000)
        await sink.finish(reply)
        return reply

    processor = make_processor(settings(), disk.journal, answer)
    adapter = RecordingAdapter()
    receive = processor.handler_for(adapter)
    await receive(MESSAGE)
    await until(lambda: answers)
    await asyncio.sleep(60)
    # Not confirmed, so that the platform delivers it again.
    with pytest.raises(JournalError, match="full"):
        await receive(replace(MESSAGE, id="2", text="Why?" * 20_000))
    assert processor.in_flight == 1
    assert [sink.replies for sink in adapter.sinks.values()] == [[]]
    disk.is_full = False
    await processor.join()
    await receive(replace(MESSAGE, id="2", text="Why?"))
    await processor.join()
    assert answers == ["How?", "Why?"]
    assert [[reply.text[:4] for reply in sink.replies] for sink in adapter.sinks.values()] == [["How?"], ["Why?"]]
    assert await disk.journal.get_pending("test") == []


@pytest.mark.parametrize("cut_bytes", [0, 1, 24, 4096, 5000, 40_000, 10**9])
async def test_a_log_that_a_power_cut_shortened_costs_the_last_writes_alone(tmp_path: Path, cut_bytes: int) -> None:
    journal = await Journal.open(tmp_path / "journal.db")
    for number in range(20):
        await journal.record_message(replace(MESSAGE, id=f"{number:02}"))
    # As after a kill: the log is not yet in the file.
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / f"journal.db{suffix}", tmp_path / f"cut.db{suffix}")
    await journal.close()
    log = tmp_path / "cut.db-wal"
    with log.open("r+b") as file:
        file.truncate(max(0, log.stat().st_size - cut_bytes))
    second_journal = await Journal.open(tmp_path / "cut.db")
    ids = [message.id for message, _ in await second_journal.get_pending("test")]
    assert ids == [f"{number:02}" for number in range(len(ids))]
    assert len(ids) == 20 or cut_bytes
    assert await second_journal.record_message(replace(MESSAGE, id="new"))
    await second_journal.close()
    with closing(sqlite3.connect(tmp_path / "cut.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_answers_of_the_future_count_for_nothing(tmp_path: Path) -> None:
    """A clock that was set back must not keep the bot silent until it has caught up."""
    journal = await Journal.open(tmp_path / "journal.db")
    for number in range(3):
        await journal.record_message(replace(MESSAGE, id=str(number)))
        await journal.mark_answered(replace(MESSAGE, id=str(number)), Reply("So."))
    history = ChatHistory(journal.database)
    message = replace(MESSAGE, id="new")
    assert await history.count_answers_to(message, 600) == 3
    later_times = {"received_at": NOW + timedelta(days=1), "settled_at": NOW + timedelta(days=1)}
    await journal.database.write(update(messages).values(later_times))
    assert await history.count_answers_to(message, 600) == 0
    await journal.close()
