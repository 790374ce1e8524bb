"""The journal on a real PostgreSQL server: what is its own. The contract of the repositories is in tests/contracts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg import sql
from pydantic import ValidationError
from sqlalchemy import Connection, select, text

from bots.common.dry_run import open_journal_copy, remove_journal_copy
from core.errors import JournalError, StoreError, UsageError
from core.settings import Settings
from core.settings.messaging import JournalSettings
from core.storage import postgresql
from core.storage.copying import copy_database
from core.storage.engine import HEAD, Database, alembic_version
from core.storage.leases import open_leases
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.tables import messages, metadata
from core.storage.usage import TokenUsage, UsageRepository
from core.types import Citation, ConversationKey, Message, Question, Reply
from core.types.replies import Trace
from tests.support.deployment import Deployment
from tests.support.peers.postgresql import PASSWORD, USER, PostgresServer, run_server

# As version 0.2.0 wrote it, in the form of `pg_dump --inserts`.
OLD_JOURNAL = Path(__file__).parents[1] / "data" / "journal_0_2_0_postgresql.sql"
CHAT = ConversationKey("telegram", "-100", "7")
MESSAGE = Message("1", CHAT, "42", "Ann", "How?", datetime(2026, 1, 2, tzinfo=UTC), bot="9", addressed=True)


def schema_differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


@pytest.fixture
async def database(postgres_journal: JournalSettings) -> AsyncIterator[Database]:
    database = await Database.open_server(postgres_journal)
    yield database
    await database.close()


async def fill(database: Database) -> Journal:
    """Put rows into most tables."""
    journal = Journal(database)
    for number in range(1, 4):
        await journal.record_message(replace(MESSAGE, id=str(number)))
    citations = (Citation(1, "a#0", "docs", "A", "a.md", ""),)
    trace = Trace("how", "single", ("docs",), {"total": 1.5})
    await journal.mark_answered(MESSAGE, Reply("So [1].", citations, trace=trace))
    await journal.set_cursor("telegram:9", 77)
    usage = UsageRepository(database)
    await usage.record(
        Question("How?", key=CHAT), "answered", {"docs": TokenUsage(10, 4, 0.5)}, datetime.now(UTC).date()
    )
    assert await TaughtAnswerRepository(database).submit(MESSAGE, "43", "Who?", "We.", (), words_of=()) == 1
    return journal


async def rows(database: Database) -> dict[str, list[object]]:
    tables = metadata.sorted_tables
    return {table.name: [tuple(row) for row in await database.fetch_all(table.select())] for table in tables}


class TestSchema:
    async def test_several_processes_open_a_new_database_at_once(self, postgres_server: PostgresServer) -> None:
        settings = postgres_server.settings(postgres_server.create_database())
        databases = await asyncio.gather(*(Database.open_server(settings) for _ in range(4)))
        assert [await database.fetch_value(alembic_version.select()) for database in databases] == [HEAD] * 4
        for database in databases:
            await database.close()

    @pytest.fixture(autouse=True)
    def _password(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KIMAS_TEST_DB", PASSWORD)

    async def test_the_tables_are_those_of_the_model(self, database: Database) -> None:
        async with database.connect() as connection:
            assert await connection.run_sync(schema_differences) == []

    async def test_a_journal_of_0_2_0_is_upgraded_and_a_newer_one_refused(
        self, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = postgres_server.create_database()
        postgres_server.execute(sql.SQL(OLD_JOURNAL.read_text("utf-8")), name)
        of_a_network = "UPDATE messages SET platform = 'http', bot = '', chat = 'lobby@shop' WHERE number = 1"
        postgres_server.execute(sql.SQL(of_a_network), name)
        upgraded = await Database.open_server(postgres_server.settings(name))
        async with upgraded.connect() as connection:
            assert await connection.run_sync(schema_differences) == []
        tables = await rows(upgraded)
        assert (len(tables["messages"]), len(tables["taught_answers"])) == (8, 8)
        chats = await upgraded.fetch_all(select(messages.c.chat).where(messages.c.platform == "http"))
        assert [chat for (chat,) in chats] == ["lobby@shop."], "it is not of a network `shop`"
        reader = replace(MESSAGE, key=ConversationKey("discord", "C", "t"))
        taught_answers = await TaughtAnswerRepository(upgraded).list_answers(reader=reader)
        assert [answer.question for answer in taught_answers] == ["From open?"], "the others may be from closed threads"
        await upgraded.write(alembic_version.update().values(version_num="9999"))
        await upgraded.close()
        with pytest.raises(StoreError, match="written by another version"):
            await Database.open_server(postgres_server.settings(name))

    async def test_a_journal_of_a_version_before_0_2_0_is_refused(
        self, database: Database, postgres_journal: JournalSettings
    ) -> None:
        await database.write(alembic_version.update().values(version_num="0003"))
        with pytest.raises(StoreError, match=r"Open it once with KIMAs 0\.2\.0"):
            await Database.open_server(postgres_journal)

    async def test_the_tables_of_another_program_are_left_alone(self, postgres_server: PostgresServer) -> None:
        name = postgres_server.create_database()
        postgres_server.execute(sql.SQL("CREATE TABLE messages (words text)"), name)
        with pytest.raises(StoreError, match="cannot be read"):
            await Database.open_server(postgres_server.settings(name))
        tables = sql.SQL("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        assert postgres_server.execute(tables, name) == [("messages",)]


class TestErrors:
    """Each says what to do, and none has the password."""

    async def refusal(self, settings: JournalSettings) -> str:
        with pytest.raises(StoreError) as error_info:
            await Database.open_server(settings)
        message = str(error_info.value)
        assert PASSWORD not in message
        return message

    async def test_a_wrong_password(self, postgres_journal: JournalSettings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KIMAS_TEST_DB", f"{PASSWORD}!")
        message = await self.refusal(postgres_journal)
        assert "Check the user in journal.url, and journal.password" in message
        monkeypatch.delenv("KIMAS_TEST_DB")
        assert "environment variable KIMAS_TEST_DB is not set" in await self.refusal(postgres_journal)

    async def test_a_server_that_is_away(self, postgres_server: PostgresServer, unused_tcp_port: int) -> None:
        url = postgres_server.url("x").replace(str(postgres_server.port), str(unused_tcp_port))
        message = await self.refusal(JournalSettings.model_validate({"url": url}))
        assert "Check journal.url, and that the server runs" in message
        assert str(unused_tcp_port) in message

    async def test_a_database_that_does_not_exist(
        self, postgres_server: PostgresServer, postgres_journal: JournalSettings
    ) -> None:
        message = await self.refusal(postgres_journal.model_copy(update={"url": postgres_server.url("nowhere")}))
        assert "Create it on the server" in message

    async def test_an_old_server(self, postgres_journal: JournalSettings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgresql, "MIN_VERSION", (99,))
        message = await self.refusal(postgres_journal)
        assert message.startswith(f"the journal {postgres_journal.url} is on PostgreSQL 1")
        assert message.endswith("it needs 99 or newer")

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("postgresql://kimas:tell-tale@db/kimas", "name it in journal.password"),
            ("postgresql://kimas@db/kimas?password=tell-tale", "name it in journal.password"),
            ("mysql://tell-tale@db/kimas", "postgresql://HOST/DATABASE, with the user and @"),
            ("postgresql://tell-tale@db", "postgresql://HOST/DATABASE, with the user and @"),
        ],
    )
    def test_urls_that_are_refused(self, url: str, reason: str, tmp_path: Path) -> None:
        with pytest.raises(ValidationError, match=reason):
            JournalSettings.model_validate({"url": url})
        output = Deployment(tmp_path, {"journal": {"url": url}}).call("check", code=2).output
        assert reason in output
        assert "tell-tale" not in output

    async def test_a_row_is_not_quoted(self, database: Database) -> None:
        await database.write(text("ALTER TABLE cursors ADD CHECK (position < 9)"))
        with pytest.raises(JournalError, match="refuses to be written") as error_info:
            await Journal(database).set_cursor("tell-tale", 10)
        assert "tell-tale" not in str(error_info.value)


async def test_a_restart_of_the_server_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMAS_TEST_DB", PASSWORD)
    with run_server("fsync=off") as server:
        journal = await fill(await Database.open_server(server.settings(server.create_database())))
        server.stop()
        with pytest.raises(JournalError):
            await journal.get_cursor("telegram:9")
        server.start()
        assert await journal.get_cursor("telegram:9") == 77
        await journal.close()


async def test_what_only_other_databases_hold_is_replaced(database: Database) -> None:
    journal = Journal(database)
    long_text = "x" * 1000
    assert await journal.record_message(replace(MESSAGE, id=long_text, text="a\0b", reference={"raw": "a\0b"}))
    ((message, _),) = await journal.get_pending("telegram")
    assert (message.id, message.text, message.reference) == (long_text, "a\ufffdb", {"raw": "a\0b"})


class TestCopying:
    async def test_every_row_arrives_and_numbers_go_on(
        self, database: Database, postgres_journal: JournalSettings, tmp_path: Path
    ) -> None:
        file_journal = await fill(await Database.open(tmp_path / "journal.db"))
        async with open_leases(database, 60) as leases:
            assert leases is not None
            assert await leases.acquire("bot:1")
            counts = await copy_database(file_journal.database, database)
        assert (counts["messages"], counts["answers"], counts["replies"]) == (3, 1, 0)
        assert await rows(database) == await rows(file_journal.database)
        server_journal = Journal(database)
        assert not await server_journal.record_message(MESSAGE)
        assert await server_journal.record_message(replace(MESSAGE, id="4"))
        assert (
            await TaughtAnswerRepository(database).submit(replace(MESSAGE, id="4"), "", "Who?", "We.", (), words_of=())
            == 2
        )
        with pytest.raises(UsageError, match="not empty"):
            await copy_database(file_journal.database, database)
        await file_journal.close()

    async def test_the_command_copies_there_and_back(
        self, database: Database, postgres_journal: JournalSettings, tmp_path: Path
    ) -> None:
        data = tmp_path / "data"
        await (await fill(await Database.open(data / "journal.db"))).close()
        deployment = Deployment(tmp_path, {"journal": json.loads(postgres_journal.model_dump_json(exclude_none=True))})
        report = await asyncio.to_thread(deployment.json, "journal", "copy", "--to", "postgresql")
        assert (report["to"], report["rows"]["messages"]) == ("postgresql", 3)
        result = await asyncio.to_thread(deployment.call, "journal", "copy", "--to", "postgresql", code=2)
        assert "not empty" in result.output
        rows_before = await rows(database)
        (data / "journal.db").unlink()
        back = await asyncio.to_thread(deployment.call, "journal", "copy", "--to", "sqlite")
        assert "messages: 3 rows" in back.output
        file_database = await Database.open(data / "journal.db")
        assert await rows(file_database) == rows_before
        await file_database.close()

    def test_the_command_says_what_is_missing(self, postgres_journal: JournalSettings, tmp_path: Path) -> None:
        assert (
            "journal.url is not set"
            in Deployment(tmp_path, {}).call("journal", "copy", "--to", "sqlite", code=2).output
        )
        settings = {"journal": json.loads(postgres_journal.model_dump_json(exclude_none=True))}
        output = Deployment(tmp_path, settings).call("journal", "copy", "--to", "postgresql", code=2).output
        assert "there is nothing to copy" in output

    async def test_a_dry_run_works_on_a_copy(self, postgres_journal: JournalSettings, tmp_path: Path) -> None:
        journal = await fill(await Database.open_server(postgres_journal))
        settings = Settings(data_dir=tmp_path, journal=postgres_journal)
        copy = await open_journal_copy(settings)
        await copy.mark_failed(replace(MESSAGE, id="2"), "tried")
        assert len(await copy.get_pending("telegram")) == 1
        assert len(await journal.get_pending("telegram")) == 2
        await copy.close()
        await remove_journal_copy(tmp_path)
        assert list(tmp_path.iterdir()) == []
        await journal.close()


async def test_check_names_the_journal(postgres_journal: JournalSettings, tmp_path: Path) -> None:
    settings = {"journal": json.loads(postgres_journal.model_dump_json(exclude_none=True))}
    deployment = Deployment(tmp_path, settings)
    findings = (await asyncio.to_thread(deployment.json, "check", "--live"))["findings"]
    texts = [finding["text"] for finding in findings if finding["subject"] == "journal"]
    url = (postgres_journal.url or "").replace(f"{USER}@", "[redacted]@")
    assert texts[0] == f"PostgreSQL: {url}"
    assert texts[1].startswith("PostgreSQL 18")
    plain_findings = (await asyncio.to_thread(Deployment(tmp_path, {}).json, "check"))["findings"]
    assert [finding["text"] for finding in plain_findings if finding["subject"] == "journal"] == [
        f"SQLite: {tmp_path / 'data' / 'journal.db'}"
    ]
