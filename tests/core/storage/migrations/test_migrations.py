"""The schema of the journal's database: new files, older ones upgraded in place, and those that are refused."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from core.errors import StoreError
from core.settings import CacheSettings
from core.storage.answer_cache import AnswerCache, CacheKey
from core.storage.auto_comments import FeedStateRepository
from core.storage.engine import HEAD, Database
from core.storage.feedback import FeedbackRepository
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.overrides import RuntimeOverrides
from core.storage.refresh_state import RefreshStateRepository
from core.storage.tables import metadata
from core.storage.usage import TokenUsage, UsageRepository
from core.types import Attachment, ConversationKey, FeedEntry, Message, Origin, ThreadState, Turn
from tests.support import forked
from tests.support.data import OLD_JOURNAL
from tests.support.journal import read_history

CHAT = ConversationKey("telegram", "-100", "7")
PRESS = Message("p3", CHAT, "43", "Ben", "", datetime(2026, 1, 2, tzinfo=UTC), bot="9", reply_to="2")


def execute(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def contents(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608


@pytest.fixture
def old_journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    execute(path, OLD_JOURNAL.read_text("utf-8"))
    return path


def schema_differences(connection: Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


async def test_a_journal_of_0_2_0_is_upgraded_and_keeps_every_row(old_journal: Path) -> None:
    contents_before = contents(old_journal)
    assert contents_before["alembic_version"] == [("0008",)]
    assert len(contents_before["messages"]) == 8
    await (await Database.open(old_journal)).close()
    upgraded_contents = contents(old_journal)
    assert upgraded_contents.pop("alembic_version") == [(HEAD,)]
    for table in ("chats", "moved_chats"):
        assert upgraded_contents.pop(table) == [], "there was no such table"
    for table, rows in upgraded_contents.items():
        rows_before = contents_before[table]
        # Columns that came since are the last ones.
        assert [row[: len(before)] for row, before in zip(rows, rows_before, strict=True)] == rows_before


async def test_taught_answers_belong_to_the_thread_of_their_message(old_journal: Path) -> None:
    database = await Database.open(old_journal)
    repository = TaughtAnswerRepository(database)

    async def list_questions(platform: str, thread: str, *, is_restricted: bool = False) -> list[str]:
        state = ThreadState(is_restricted=is_restricted)
        reader = replace(PRESS, key=ConversationKey(platform, "C", thread), thread_state=state)
        return [answer.question for answer in await repository.list_answers(reader=reader)]

    # Another bot in the chat did not know that the thread is closed.
    assert await list_questions("discord", "p", is_restricted=True) == ["From closed?", "From open?"]
    assert await list_questions("discord", "p") == ["From open?"]
    # Nobody knows whether the others were taught in a closed thread.
    for thread in ("", "t", "command:U1"):
        assert await list_questions("discord", thread) == ["From open?"]
        assert await list_questions("slack", thread) == []
        assert await list_questions("telegram", thread) == ["From gone telegram?"]
        assert await list_questions("http", thread) == ["From gone http?"]
    assert len(await repository.list_answers(reader=None)) == 8, "an owner in private sees all"
    await database.close()


async def test_a_chat_of_the_unnamed_network_becomes_none_of_a_named_one(old_journal: Path) -> None:
    """Earlier, it could have an id that stands for a chat of a network that is added later."""
    execute(
        old_journal,
        """
        UPDATE messages SET platform = 'http', bot = '', chat = 'lobby@shop' WHERE number = 1;
        UPDATE messages SET platform = 'http', bot = '', chat = 'lobby@shop.' WHERE number = 2;
        UPDATE messages SET platform = 'http', bot = 'shop', chat = 'hall@shop' WHERE number = 3;
        UPDATE messages SET platform = 'http', bot = '', chat = 'ann@example.org' WHERE number = 4;
        UPDATE answers SET platform = 'http', chat = 'lobby@shop' WHERE number = 1;
        UPDATE audit SET platform = 'http', chat = 'lobby@shop' WHERE number = 1;
        UPDATE taught_answers SET platform = 'http', chat = 'lobby@shop' WHERE number = 1;
        INSERT INTO overrides VALUES ('http:lobby@shop', 'mode', 'off');
        """,
    )
    await (await Database.open(old_journal)).close()
    with closing(sqlite3.connect(old_journal)) as connection:
        chats = connection.execute("SELECT chat FROM messages WHERE platform = 'http' ORDER BY number").fetchall()
        assert chats == [("lobby@shop..",), ("lobby@shop.",), ("hall@shop",), ("ann@example.org",)]
        others = """
            SELECT chat FROM answers UNION ALL SELECT chat FROM audit UNION ALL SELECT chat FROM taught_answers
            UNION ALL SELECT substr(scope, 6) FROM overrides
        """
        names = [name for (name,) in connection.execute(others) if "lobby" in name]
        assert names == ["lobby@shop.."] * 4


async def test_a_chat_whose_messages_are_gone_becomes_none_of_a_named_network(old_journal: Path) -> None:
    """Where the network has messages, it is taken for one of its chats."""
    execute(
        old_journal,
        """
        UPDATE messages SET platform = 'http', bot = 'mall', chat = 'hall@mall' WHERE number = 1;
        UPDATE answers SET platform = 'http', chat = 'a@shop' WHERE number = 1;
        UPDATE audit SET platform = 'http', chat = 'b@shop' WHERE number = 1;
        UPDATE taught_answers SET platform = 'http', chat = 'c@shop' WHERE number = 1;
        INSERT INTO overrides VALUES ('http:d@shop', 'mode', 'off'), ('http:a@mall', 'mode', 'off');
        """,
    )
    await (await Database.open(old_journal)).close()
    with closing(sqlite3.connect(old_journal)) as connection:
        others = """
            SELECT chat FROM messages UNION ALL SELECT chat FROM answers UNION ALL SELECT chat FROM audit
            UNION ALL SELECT chat FROM taught_answers UNION ALL SELECT substr(scope, 6) FROM overrides
        """
        names = {name for (name,) in connection.execute(others) if "@" in name}
    assert names == {"hall@mall", "a@shop.", "b@shop.", "c@shop.", "d@shop.", "a@mall"}


async def test_a_message_with_all_its_fields_comes_back_from_the_journal(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.db")
    message = replace(
        PRESS,
        is_by_bot=True,
        is_post=False,
        thread_state=ThreadState(is_restricted=True, in_main_chat=True, is_shared=False, started_at=17.5),
        parent_id="6",
        language="de",
        feed_entry=FeedEntry("games"),
        origin=Origin(
            purpose="escalation", root_id="7", retry_reason="wrong", mentioned_users=("U2",), is_question_hidden=True
        ),
    )
    await journal.record_message(message)
    assert [pending for pending, _ in await journal.get_pending("telegram")] == [message]
    await journal.close()


async def test_every_repository_reads_what_0_2_0_wrote(old_journal: Path) -> None:
    journal = await Journal.open(old_journal)
    database = journal.database
    turns = await read_history(journal, CHAT, 9)
    assert turns == [
        Turn("user", "How do I install it?", "Ann", "42"),
        Turn("assistant", "Run `pip install kimas` [1]."),
    ]
    ((pending_message, reply_id),) = await journal.get_pending("telegram")
    assert (pending_message.id, pending_message.sent_at, reply_id) == ("4", datetime(2026, 1, 2, 8, 30, tzinfo=UTC), "")
    assert pending_message.attachments == (Attachment("picture", "error.png", 1200, {"file_id": "file-1"}),)
    assert await journal.get_cursor("telegram:9") == 77
    (usage,) = await UsageRepository(database).get_daily_usage(date(2026, 1, 1))
    assert (usage.day, usage.answers, usage.usage) == ("2026-01-02", 1, TokenUsage(900, 40, 0.002))
    rating = await FeedbackRepository(database).get_rating(PRESS, "1")
    assert (rating.verdict, rating.up, rating.down) == ("up", 1, 1)
    taught_answers = await TaughtAnswerRepository(database).list_answers(reader=None)
    assert [(answer.number, answer.answer, answer.state) for answer in taught_answers[:2]] == [
        (1, "Nothing.", "approved"),
        (2, "We did.", "pending"),
    ]
    overrides = RuntimeOverrides(database)
    await overrides.load()
    assert (overrides.mode("telegram:-100"), overrides.is_off("docs")) == ("mention", True)
    states = await RefreshStateRepository(database).get_states()
    assert (states["docs"].passages, states["docs"].counts, states["notes"].paused) == (12, {"added": 3}, True)
    feed = await FeedStateRepository(database).load("news")
    assert feed is not None
    assert (feed.known_ids, feed.etag) == (("a", "b"), '"etag"')
    key = CacheKey('["telegram", "-100"]', "How do I install it?", "how do i install it", "install", None)
    (entry,) = await AnswerCache(database, CacheSettings(hours=1e6), "made by").find_replies(key)
    assert (entry.question, entry.versions) == (key.text, {"docs": "v1"})
    await journal.close()


async def test_a_new_file_and_an_upgraded_one_have_the_same_schema(old_journal: Path, tmp_path: Path) -> None:
    for path in (old_journal, tmp_path / "new.db"):
        database = await Database.open(path)
        async with database.connect() as connection:
            assert await connection.run_sync(schema_differences) == []
        await database.close()
        assert contents(path)["alembic_version"] == [(HEAD,)]


def test_the_newest_revision_is_named() -> None:
    config = Config()
    config.set_main_option("script_location", "core.storage:migrations")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_a_journal_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await (await Database.open(path)).close()
    execute(path, "UPDATE alembic_version SET version_num = '9999';")
    contents_before = contents(path)
    with pytest.raises(
        StoreError, match=r"journal\.db.* version 9999, .*up to 0017.*install that one again, or restore"
    ):
        await Database.open(path)
    assert contents(path) == contents_before


@pytest.mark.parametrize(
    ("statement", "version"),
    [
        ("UPDATE alembic_version SET version_num = '0007';", "version 0007"),
        ("DROP TABLE alembic_version;", "no version"),
    ],
)
async def test_a_journal_of_a_version_before_0_2_0_is_refused(old_journal: Path, statement: str, version: str) -> None:
    execute(old_journal, statement)
    contents_before = contents(old_journal)
    with pytest.raises(StoreError, match=rf"journal\.db.* {version}.*Open it once with KIMAs 0\.2\.0.*move it away"):
        await Database.open(old_journal)
    assert contents(old_journal) == contents_before


async def test_a_journal_that_cannot_be_upgraded_is_left_alone(old_journal: Path) -> None:
    execute(old_journal, "ALTER TABLE answers RENAME COLUMN question_id TO result;")
    contents_before = contents(old_journal)
    with pytest.raises(StoreError, match=r"no such column: answers\.question_id.*move it away"):
        await Database.open(old_journal)
    assert contents(old_journal) == contents_before


@pytest.mark.parametrize("existing", [True, False], ids=["old file", "new file"])
async def test_several_processes_open_one_file_at_once(old_journal: Path, tmp_path: Path, existing: bool) -> None:
    path = old_journal if existing else tmp_path / "new.db"
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from core.storage.engine import Database\n"
        "async def main():\n"
        "    sys.stdin.readline()\n"
        "    await (await Database.open(Path(sys.argv[1]))).close()\n"
        "asyncio.run(main())\n"
    )
    processes = [await forked.start_piped(script, str(path)) for _ in range(3)]
    outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert contents(path)["alembic_version"] == [(HEAD,)]


async def test_opening_again_does_not_load_the_migration_machinery(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from core.storage.engine import Database\n"
        "async def main():\n"
        "    for _ in range(2):\n"
        "        await (await Database.open(Path(sys.argv[1]))).close()\n"
        "asyncio.run(main())\n"
        "sys.exit('alembic' in sys.modules)\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(path))
    assert await process.wait() == 0
