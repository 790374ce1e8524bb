from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import StoreError
from core.journal import Journal
from core.types import ConversationKey, Message, Reply, Turn

CHAT = ConversationKey("telegram", "-100", "7")
ASKED = Message("1", CHAT, "42", "Ann", "How?", datetime(2026, 1, 2, tzinfo=UTC), reference={"chat_id": -100})


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await Journal.open(tmp_path / "journal.db")
    yield opened
    await opened.close()


async def test_a_message_is_received_once(journal: Journal) -> None:
    assert await journal.received(ASKED)
    assert not await journal.received(ASKED)
    assert await journal.received(replace(ASKED, key=replace(CHAT, chat="-200"))), "ids are unique within a chat only"


async def test_what_was_not_settled_is_pending_again_as_it_was(journal: Journal) -> None:
    await journal.received(ASKED)
    await journal.received(replace(ASKED, id="2"))
    await journal.received(replace(ASKED, id="3"))
    await journal.answered(replace(ASKED, id="2"), Reply("So."))
    await journal.silent(replace(ASKED, id="3"), "not addressed")
    assert await journal.pending("telegram") == [(ASKED, "")]
    assert await journal.pending("discord") == []


async def test_a_posted_reply_is_remembered(journal: Journal) -> None:
    await journal.received(ASKED)
    await journal.posting(ASKED)
    assert await journal.pending("telegram") == [], "nobody knows yet whether it was posted"
    await journal.posted(ASKED, "99")
    assert await journal.pending("telegram") == [(ASKED, "99")]


async def test_a_reply_in_doubt_is_closed_and_not_repeated(journal: Journal) -> None:
    await journal.received(ASKED)
    await journal.posting(ASKED)
    assert await journal.uncertain("telegram") == 1
    assert await journal.uncertain("telegram") == 0
    assert await journal.pending("telegram") == []


async def test_each_bot_numbers_its_messages_for_itself(journal: Journal) -> None:
    other = replace(ASKED, bot="2", text="Another?")
    assert await journal.received(replace(ASKED, bot="1"))
    assert await journal.received(other)
    assert not await journal.received(other)
    await journal.answered(replace(ASKED, bot="1"), Reply("So."))
    assert await journal.pending("telegram") == [(other, "")]


async def test_a_refused_posting_leaves_no_doubt(journal: Journal) -> None:
    await journal.received(ASKED)
    await journal.begin(ASKED)
    await journal.posting(ASKED)
    await journal.refused(ASKED)
    assert await journal.uncertain("telegram") == 0
    assert await journal.pending("telegram") == [(ASKED, "")]


async def test_edits_count_again_when_a_crash_made_the_answer_begin_anew(journal: Journal) -> None:
    await journal.received(ASKED)
    await journal.begin(ASKED)
    assert not await journal.edited(replace(ASKED, text="Why?"))
    await journal.uncertain("telegram")
    assert await journal.edited(replace(ASKED, text="Why?"))
    assert await journal.begin(ASKED) == "Why?"


async def test_a_journal_of_another_version_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages (number INTEGER PRIMARY KEY, platform TEXT, chat TEXT, id TEXT)")
    connection.close()
    with pytest.raises(StoreError, match=r"journal\.db.*move it away"):
        await Journal.open(path)


async def test_edits_count_until_the_answer_begins(journal: Journal) -> None:
    await journal.received(ASKED)
    edited = replace(ASKED, text="How exactly?")
    assert await journal.edited(edited)
    assert await journal.begin(ASKED) == "How exactly?"
    assert not await journal.edited(replace(ASKED, text="Never mind"))
    await journal.posted(ASKED, "99")
    assert not await journal.edited(replace(ASKED, text="Never mind"))
    assert not await journal.edited(replace(ASKED, id="unknown"))


async def test_a_conversation_is_the_answered_turns_of_one_thread(journal: Journal) -> None:
    for number, (text, key) in enumerate([("one", CHAT), ("two", CHAT), ("elsewhere", replace(CHAT, thread=""))]):
        message = replace(ASKED, id=str(number), text=text, key=key)
        await journal.received(message)
        await journal.answered(message, Reply(f"answer {text}"))
    helped = replace(ASKED, id="8", text="", command="help")
    await journal.received(helped)
    await journal.answered(helped, Reply("I am a bot"))
    await journal.received(replace(ASKED, id="9", text="pending"))
    assert await journal.conversation(CHAT, 10) == [
        Turn("user", "one", "Ann", "42"),
        Turn("assistant", "answer one"),
        Turn("user", "two", "Ann", "42"),
        Turn("assistant", "answer two"),
    ]
    assert await journal.conversation(CHAT, 2) == [Turn("user", "two", "Ann", "42"), Turn("assistant", "answer two")]
    assert await journal.conversation(CHAT, 0) == []


async def test_a_cursor_is_remembered(journal: Journal) -> None:
    assert await journal.position("telegram") is None
    await journal.advance("telegram", 5)
    await journal.advance("telegram", 2**40)
    assert await journal.position("telegram") == 2**40


async def test_many_writers_at_once(journal: Journal) -> None:
    messages = [replace(ASKED, id=str(number)) for number in range(100)]
    assert all(await asyncio.gather(*(journal.received(message) for message in messages)))
    assert len(await journal.pending("telegram")) == 100


async def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"journal\.db"):
        await Journal.open(path)


async def test_it_is_in_wal_mode(journal: Journal, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_what_was_received_survives_a_kill(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from tests.core.test_journal import ASKED, Journal, Path\n"
        "async def main():\n"
        "    journal = await Journal.open(Path(sys.argv[1]))\n"
        "    await journal.received(ASKED)\n"
        "    print('received', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "journal.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"received\n"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    journal = await Journal.open(path)
    assert [message for message, _ in await journal.pending("telegram")] == [ASKED]
    await journal.close()
