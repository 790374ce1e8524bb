from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import insert, update

from core.errors import StoreError
from core.settings import CacheSettings
from core.storage import journal_file
from core.storage.answer_cache import AnswerCache, CacheKey, to_scope
from core.storage.engine import Database
from core.storage.messages import ERASE_BATCH_SIZE, Journal
from core.storage.retention import CLOCK_CURSOR, erase_expired
from core.storage.tables import cursors, messages
from core.storage.usage import UsageRepository
from core.types import Citation, Message, Question, Reply, SkipReason, Turn, skip
from tests.support import forked
from tests.support.fixtures import settings
from tests.support.journal import CHAT, MESSAGE, read_history


async def test_who_writes_at_the_same_time_takes_turns(journal: Journal) -> None:
    row_counts: list[int] = []

    async def write(number: int) -> None:
        async with journal.database.transaction() as connection:
            values = {"name": str(number), "position": number}
            await connection.execute(insert(cursors).values(values))
            row_counts.append(number)
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as tasks:
        for number in range(14):
            tasks.create_task(write(number))
    assert row_counts == list(range(14))


async def test_a_message_is_received_once(journal: Journal) -> None:
    assert await journal.record_message(MESSAGE)
    assert not await journal.record_message(MESSAGE)
    assert await journal.record_message(replace(MESSAGE, key=replace(CHAT, chat="-200"))), (
        "ids are unique within a chat only"
    )


async def test_what_was_not_finished_is_pending_again_as_it_was(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    await journal.record_message(replace(MESSAGE, id="2"))
    await journal.record_message(replace(MESSAGE, id="3"))
    await journal.mark_answered(replace(MESSAGE, id="2"), Reply("So."))
    await journal.mark_skipped(replace(MESSAGE, id="3"), skip(SkipReason.NOT_ADDRESSED))
    assert await journal.get_pending("telegram") == [(MESSAGE, "")]
    assert await journal.get_pending("discord") == []


async def test_a_posted_reply_is_remembered(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    await journal.mark_posting(MESSAGE)
    assert await journal.get_pending("telegram") == [(MESSAGE, "")]
    assert (await journal.get_delivery(MESSAGE, None))[0], "nobody knows yet whether it was posted"
    await journal.mark_posted(MESSAGE, "99")
    assert await journal.get_pending("telegram") == [(MESSAGE, "99")]
    assert await journal.get_delivery(MESSAGE, None) == (False, None, {}, (), None)


async def test_a_reply_in_doubt_is_closed_and_not_repeated(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    await journal.mark_posting(MESSAGE)
    assert await journal.fail_uncertain("telegram") == 1
    assert await journal.fail_uncertain("telegram") == 0
    assert await journal.get_pending("telegram") == []


async def test_each_bot_numbers_its_messages_for_itself(journal: Journal) -> None:
    other = replace(MESSAGE, bot="2", text="Another?")
    assert await journal.record_message(replace(MESSAGE, bot="1"))
    assert await journal.record_message(other)
    assert not await journal.record_message(other)
    await journal.mark_answered(replace(MESSAGE, bot="1"), Reply("So."))
    assert await journal.get_pending("telegram") == [(other, "")]


async def test_a_refused_posting_leaves_no_doubt(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    await journal.begin_answer(MESSAGE, None)
    await journal.mark_posting(MESSAGE)
    await journal.mark_rejected(MESSAGE)
    assert await journal.fail_uncertain("telegram") == 0
    assert await journal.get_pending("telegram") == [(MESSAGE, "")]


async def test_edits_count_again_when_a_crash_made_the_answer_begin_anew(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    await journal.begin_answer(MESSAGE, None)
    assert not await journal.record_edit(replace(MESSAGE, text="Why?"))
    assert await journal.restart_begun("telegram") == 0
    assert await journal.record_edit(replace(MESSAGE, text="Why?"))
    assert await journal.begin_answer(MESSAGE, None) == "Why?"


async def test_a_journal_of_another_version_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages (number INTEGER PRIMARY KEY, platform TEXT, chat TEXT, id TEXT)")
    connection.close()
    with pytest.raises(StoreError, match=r"journal\.db.*move it away"):
        await Journal.open(path)


async def test_edits_count_until_the_answer_begins(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    edited_message = replace(MESSAGE, text="How exactly?")
    assert await journal.record_edit(edited_message)
    assert await journal.begin_answer(MESSAGE, None) == "How exactly?"
    assert not await journal.record_edit(replace(MESSAGE, text="Never mind"))
    await journal.mark_posted(MESSAGE, "99")
    assert not await journal.record_edit(replace(MESSAGE, text="Never mind"))
    assert not await journal.record_edit(replace(MESSAGE, id="unknown"))


async def test_a_conversation_is_the_answered_turns_of_one_thread(journal: Journal) -> None:
    for number, (text, key) in enumerate([("one", CHAT), ("two", CHAT), ("elsewhere", replace(CHAT, thread=""))]):
        message = replace(MESSAGE, id=str(number), text=text, key=key)
        await journal.record_message(message)
        await journal.mark_answered(message, Reply(f"answer {text}"))
    helped = replace(MESSAGE, id="8", text="", command="help")
    await journal.record_message(helped)
    await journal.mark_answered(helped, Reply("I am a bot"))
    await journal.record_message(replace(MESSAGE, id="9", text="pending"))
    assert await read_history(journal, CHAT, 10) == [
        Turn("user", "one", "Ann", "42"),
        Turn("assistant", "answer one"),
        Turn("user", "two", "Ann", "42"),
        Turn("assistant", "answer two"),
    ]
    assert await read_history(journal, CHAT, 2) == [
        Turn("user", "two", "Ann", "42"),
        Turn("assistant", "answer two"),
    ]
    assert await read_history(journal, CHAT, 0) == []


async def test_a_cursor_is_remembered(journal: Journal) -> None:
    assert await journal.get_cursor("telegram") is None
    await journal.set_cursor("telegram", 5)
    await journal.set_cursor("telegram", 2**40)
    assert await journal.get_cursor("telegram") == 2**40


async def test_many_writers_at_once(journal: Journal) -> None:
    messages = [replace(MESSAGE, id=str(number)) for number in range(100)]
    assert all(await asyncio.gather(*(journal.record_message(message) for message in messages)))
    assert len(await journal.get_pending("telegram")) == 100


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
        "from pathlib import Path\n"
        "from core.storage.messages import Journal\n"
        "from tests.support.journal import MESSAGE\n"
        "async def main():\n"
        "    journal = await Journal.open(Path(sys.argv[1]))\n"
        "    await journal.record_message(MESSAGE)\n"
        "    print('received', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "journal.db"
    process = await forked.start_piped(script, str(path))
    assert process.stdout is not None
    assert await process.stdout.readline() == b"received\n"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    journal = await Journal.open(path)
    assert [message for message, _ in await journal.get_pending("telegram")] == [MESSAGE]
    await journal.close()


class TestForgetting:
    """Words and names leave the journal in time; that there was a message stays."""

    LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

    @staticmethod
    def in_a_minute() -> datetime:
        return datetime.now(UTC) + timedelta(minutes=1)

    @staticmethod
    async def record_all_states(journal: Journal) -> dict[str, Message]:
        """Journal one message in each state, named after it."""
        states = ("received", "answering", "sending", "answered", "silent", "failed")
        messages = {state: replace(MESSAGE, id=state, text=f"secret {state}", quoted="secret") for state in states}
        for message in messages.values():
            await journal.record_message(message)
        await journal.begin_answer(messages["answering"], None)
        await journal.mark_posting(messages["sending"])
        await journal.mark_posted(messages["answered"], "99")
        citation = Citation(1, "p", "docs", "Title", "a.md", "")
        await journal.mark_answered(messages["answered"], Reply("secret answer", (citation,)))
        await journal.mark_skipped(messages["silent"], skip(SkipReason.NOT_ADDRESSED))
        await journal.mark_failed(messages["failed"], "the model is down")
        return messages

    @staticmethod
    def texts(path: Path) -> dict[str, str]:
        with sqlite3.connect(path) as connection:
            rows = dict(connection.execute("SELECT id, text FROM messages").fetchall())
        connection.close()
        return rows

    async def test_finished_messages_are_erased_and_others_wait(self, journal: Journal, tmp_path: Path) -> None:
        messages = await self.record_all_states(journal)
        assert await journal.erase_expired(self.LONG_AGO, self.LONG_AGO) == 0
        assert await journal.erase_expired(None, None) == 0
        assert await journal.erase_expired(self.in_a_minute(), None) == 3
        assert await journal.erase_expired(self.in_a_minute(), None) == 0
        erased_names = {name for name, text in self.texts(tmp_path / "journal.db").items() if not text}
        assert erased_names == {"answered", "silent", "failed"}
        pending_messages = [message for message, _ in await journal.get_pending("telegram")]
        assert pending_messages == [messages[state] for state in ("received", "answering", "sending")]
        assert await read_history(journal, CHAT, 9) == []
        assert await journal.get_answer_by_reply(replace(MESSAGE, id="new", reply_to="99"), None) is None
        for message in messages.values():
            assert not await journal.record_message(message), "a message that comes again is not new"

    async def test_what_got_no_answer_goes_sooner(self, journal: Journal, tmp_path: Path) -> None:
        await self.record_all_states(journal)
        assert await journal.erase_expired(self.LONG_AGO, self.in_a_minute()) == 1
        assert {name for name, text in self.texts(tmp_path / "journal.db").items() if not text} == {"silent"}

    async def test_why_there_was_no_answer_stays(self, journal: Journal, tmp_path: Path) -> None:
        await self.record_all_states(journal)
        await journal.erase_expired(self.in_a_minute(), None)
        with sqlite3.connect(tmp_path / "journal.db") as connection:
            rows = connection.execute(
                "SELECT reason, author, author_id, quoted, reply, reference, citations, trace FROM messages"
                " WHERE state IN ('silent', 'failed', 'answered') ORDER BY number"
            ).fetchall()
        connection.close()
        empty_values = ("", "", "", "", "{}", None, None)
        assert rows == [
            ("", *empty_values),
            ("the bot was not addressed", *empty_values),
            # What a service says of a failure may be any part of what it was told.
            ("", *empty_values),
        ]

    async def test_nothing_is_left_in_the_file(self, tmp_path: Path) -> None:
        journal = await Journal.open(tmp_path / "journal.db")
        await journal.record_message(replace(MESSAGE, text="tell-tale " * 2000))
        await journal.mark_skipped(MESSAGE, skip(SkipReason.NOT_ADDRESSED))
        await journal.erase_expired(self.in_a_minute(), None)
        await journal.close()
        assert [file.name for file in tmp_path.iterdir()] == ["journal.db"]
        assert b"tell-tale" not in (tmp_path / "journal.db").read_bytes()

    async def test_many_are_emptied_in_small_steps(self, journal: Journal, tmp_path: Path) -> None:
        row_count = ERASE_BATCH_SIZE * 2 + 1
        await journal.record_message(MESSAGE)
        await journal.mark_skipped(MESSAGE, skip(SkipReason.NOT_ADDRESSED))
        copy = "INSERT INTO messages SELECT NULL, platform, bot, chat, thread, id || '-' || ?"
        with sqlite3.connect(tmp_path / "journal.db") as connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(messages)")]
            rest = ", ".join(columns[columns.index("author_id") :])
            connection.executemany(
                f"{copy}, {rest} FROM messages WHERE number = 1", [(n,) for n in range(row_count - 1)]
            )
        connection.close()
        assert await journal.erase_expired(self.in_a_minute(), None) == row_count
        assert set(self.texts(tmp_path / "journal.db").values()) == {""}

    async def test_the_daemon_forgets_all_that_is_due(
        self, journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await self.record_all_states(journal)
        usage_repository = UsageRepository(journal.database)
        today = datetime.now().astimezone().date()
        await usage_repository.record(Question("Why?", author_id="42"), "answered", {}, today - timedelta(days=3))
        cache = AnswerCache(journal.database, CacheSettings(), "x")
        await cache.store(CacheKey("here", "Why?", "why", "", None), Reply("So."), {})
        short_days = 0.2 / 86400
        brief = settings(
            journal={"keep_days": 1, "keep_unanswered_days": short_days},
            cache={"enabled": True, "hours": 24 * short_days},
        )
        await erase_expired(settings(journal={"keep_days": None, "keep_unanswered_days": None}), journal)
        assert "" not in self.texts(tmp_path / "journal.db").values()
        await asyncio.sleep(0.3)
        with caplog.at_level(logging.INFO):
            await erase_expired(brief, journal)
        message = next(text for text in caplog.messages if "journal.pruned" in text)
        assert "'messages': 1, 'replies': 1, 'answers': 1" in message

    @pytest.mark.parametrize("has_looked", [False, True], ids=["no look yet", "a look"])
    async def test_a_clock_that_is_far_ahead_must_prove_right(
        self,
        journal: Journal,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        has_looked: bool,
    ) -> None:
        monkeypatch.setattr("core.storage.retention.CONFIRMATION_S", 1.0)
        await self.record_all_states(journal)
        long_ago = datetime.now(UTC) - timedelta(days=100)
        await journal.database.write(update(messages).values(received_at=long_ago, settled_at=long_ago))
        if has_looked:
            await journal.set_cursor(CLOCK_CURSOR, int(long_ago.timestamp()))
        erase_task = asyncio.create_task(erase_expired(settings(), journal))
        with caplog.at_level(logging.WARNING):
            done_tasks, _ = await asyncio.wait({erase_task}, timeout=0.5)
        assert not done_tasks
        assert "" not in self.texts(tmp_path / "journal.db").values()
        assert any("journal.prune_postponed" in message for message in caplog.messages)
        await erase_task
        assert "" in self.texts(tmp_path / "journal.db").values(), "the bot was off for so long"
        await asyncio.wait_for(erase_expired(settings(), journal), 0.5)

    async def test_a_number_of_days_beyond_any_calendar_keeps_all(self, journal: Journal, tmp_path: Path) -> None:
        await self.record_all_states(journal)
        texts_before = self.texts(tmp_path / "journal.db")
        await erase_expired(settings(journal={"keep_days": 1e12, "keep_unanswered_days": 1e6}), journal)
        assert self.texts(tmp_path / "journal.db") == texts_before

    async def test_a_database_that_refuses_is_told(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        database = await Database.open(tmp_path / "journal.db")
        with sqlite3.connect(tmp_path / "journal.db") as connection:
            connection.execute("DROP TABLE messages")
        connection.close()
        await erase_expired(settings(), Journal(database))
        assert any("journal.prune_failed" in message for message in caplog.messages)
        await database.close()


async def test_a_write_that_is_cancelled_leaves_the_database_free(journal: Journal) -> None:
    """A stop while a message is being journalled must not lock out what has to be written on the way out."""
    await journal.record_message(MESSAGE)
    random = Random(1)
    for number in range(40):
        message = MESSAGE if number % 2 else replace(MESSAGE, id=f"n{number}")
        writing = asyncio.create_task(journal.record_message(message))
        await asyncio.sleep(random.uniform(0, 0.008))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        async with asyncio.timeout(4):  # a locked database is waited for five seconds
            await journal.mark_posting(MESSAGE)
    assert await journal.fail_uncertain(MESSAGE.key.platform) == 1


async def test_forgetting_takes_the_kept_answers_along(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    await journal.mark_answered(MESSAGE, Reply("So."))
    cache = AnswerCache(journal.database, CacheSettings(), "x")
    other_chat = replace(CHAT, chat=f"{CHAT.chat}0")
    scopes = [to_scope(CHAT), to_scope(replace(CHAT, thread="5"), is_restricted_thread=True), to_scope(other_chat)]
    for scope in scopes:
        await cache.store(CacheKey(scope, MESSAGE.text, "how", "", None), Reply("So."), {})
    await journal.erase_author(MESSAGE)
    assert [len(await cache.find_replies(CacheKey(scope, "How?", "how", "", None))) for scope in scopes] == [0, 0, 1]


@pytest.fixture(scope="module")
def full_journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a journal with sixty messages."""
    path = tmp_path_factory.mktemp("journal") / "journal.db"

    async def make() -> None:
        journal = await Journal.open(path)
        for number in range(60):
            await journal.record_message(replace(MESSAGE, id=str(number), text="x" * 300))
        await journal.close()

    asyncio.run(make())
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(30))
async def test_a_damaged_file_is_an_error_that_names_the_way_out(
    full_journal: bytes, tmp_path: Path, seed: int
) -> None:
    damaged = bytearray(full_journal)
    dice = Random(seed)
    for _ in range(dice.choice([5, 50, 500])):
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    (tmp_path / "damaged.db").write_bytes(damaged)
    errors = []
    try:
        async with asyncio.timeout(60):
            damaged_journal = await Journal.open(tmp_path / "damaged.db")
            try:
                await damaged_journal.get_pending(MESSAGE.key.platform)
                await damaged_journal.record_message(replace(MESSAGE, id="new"))
            finally:
                await damaged_journal.close()
    except StoreError as error:
        errors.append(str(error))
    assert [error for error in errors if not ("damaged.db" in error and "move it away" in error)] == []


async def test_what_was_erased_while_somebody_read_is_wiped_by_the_daily_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "BUSY_TIMEOUT_MS", 10)
    journal = await Journal.open(tmp_path / "journal.db")
    question = replace(MESSAGE, text="My key is potoroo.")
    await journal.record_message(question)
    await journal.mark_answered(question, Reply("Yes."))

    def is_left() -> bool:
        return any(b"potoroo" in path.read_bytes() for path in tmp_path.glob("journal.db*"))

    with sqlite3.connect(tmp_path / "journal.db") as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        await journal.erase_author(replace(MESSAGE, id="2", command="forget"))
        assert is_left()
    reader.close()
    await erase_expired(settings(journal={"keep_days": None, "keep_unanswered_days": None}), journal)
    assert not is_left()
    await journal.close()
