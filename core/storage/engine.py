"""The one database of a deployment: the journal, usage, cached answers and all other records.

A file of SQLite in WAL mode by default, or a database on a PostgreSQL server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Executable,
    MetaData,
    QueuePool,
    Row,
    Select,
    String,
    Table,
    event,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from core.errors import JournalError, StoreError
from core.runtime.tasks import uncancellable
from core.settings.messaging import JournalSettings
from core.storage import postgresql
from core.storage.journal_file import DAMAGED_HINT, JournalFile
from core.storage.tables import metadata

Result = TypeVar("Result")
Parameters = Mapping[str, Any]

NO_PARAMETERS: Parameters = {}
# The newest revision in `migrations/versions/`.
HEAD = "0017"
# That of version 0.2.0: what an older version wrote is refused.
BASELINE = "0008"
OLDER_HINT = "Open it once with KIMAs 0.2.0 (`kimas usage` is enough), which upgrades it"
NEWER_HINT = "It was written by another version: install that one again, or restore a backup of before the upgrade"
# How often, and after how many seconds each time, `close` looks whether all transactions have ended: for twice as long
# as one waits for the lock of another process.
CLOSE_POLLS = 2000
CLOSE_POLL_S = 0.005
# As Alembic creates it.
alembic_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


class Database:
    """An open database with all tables. Every transaction raises `JournalError` when the database fails.

    `owner` is the id of this process among the daemons that share the database; "" where it is alone.
    """

    def __init__(self, engine: AsyncEngine, location: str, file: JournalFile | None = None) -> None:
        self._engine = engine
        self._file = file
        self._location = location
        self.owner = ""
        self._is_closed = False
        self.is_on_server = engine.dialect.name == "postgresql"
        # SQLite lets waiting writers retry at random, until one of them times out.
        self._write_lock: AbstractAsyncContextManager[None] = nullcontext() if self.is_on_server else asyncio.Lock()

    @classmethod
    async def open(cls, path: Path) -> Database:
        """Open a database file: create a missing one, upgrade one of an older version in place.

        Raises `StoreError` for a newer or unknown version or one before 0.2.0, and when the path is a folder.
        """
        if await asyncio.to_thread(path.is_dir):
            raise StoreError(
                f"the journal {path} cannot be opened: it is a folder; move it away, or name another place"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        file = JournalFile(path)
        return await cls._open(cls(_make_engine(file, path), str(path), file))

    @classmethod
    async def open_server(cls, settings: JournalSettings) -> Database:
        """Open the database at `settings.url`: create its tables, or upgrade those of an older version.

        Raises `StoreError`, which says what to do, for a server that cannot be used, and as `open` does.
        """
        location = settings.url or ""
        engine = postgresql.make_engine(settings)
        try:
            await postgresql.check_server(engine, location)
        except BaseException:
            await engine.dispose()
            raise
        return await cls._open(cls(engine, location))

    @classmethod
    async def _open(cls, database: Database) -> Database:
        try:
            await database._upgrade()
        except BaseException:
            await database.close()
            raise
        return database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction, which commits at the end of the block or rolls back.

        Where the database is a file, writers of this process take turns, first come, first served.
        """
        try:
            async with self._write_lock, self._get_engine().begin() as connection:
                yield connection
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise JournalError(f"the journal {self._location} refuses to be written: {self._explain(error)}") from error

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for reading."""
        try:
            async with self._get_engine().connect() as connection:
                yield connection
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise JournalError(f"the journal {self._location} cannot be read: {self._explain(error)}") from error

    async def fetch_all(
        self, query: Select[*tuple[Any, ...]], values: Parameters = NO_PARAMETERS
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """Return all rows of a query with these values of its parameters."""
        return await self.read(lambda connection: connection.execute(query, values).all())

    async def fetch_first(
        self, query: Select[*tuple[Any, ...]], values: Parameters = NO_PARAMETERS
    ) -> Row[*tuple[Any, ...]] | None:
        """Return the first row of a query, or None."""
        return await self.read(lambda connection: connection.execute(query, values).first())

    async def fetch_value(self, query: Select[*tuple[Any, ...]], values: Parameters = NO_PARAMETERS) -> Any:
        """Return the first column of a query's first row, or None where there is no row."""
        return await self.read(lambda connection: connection.scalar(query, values))

    async def read(self, read: Callable[[Connection], Result]) -> Result:
        """Run a function that reads with a connection of its own; return its result."""
        try:
            # Less than half of the work of an `AsyncConnection`, whose every step is a coroutine of its own.
            return await greenlet_spawn(self._read, read)
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise JournalError(f"the journal {self._location} cannot be read: {self._explain(error)}") from error
        except (ValueError, TypeError) as error:
            # The file is damaged: a column holds what no version of ours writes, such as half a date.
            raise JournalError(f"the journal {self._location} cannot be read: {error}. {DAMAGED_HINT}") from error

    def _read(self, read: Callable[[Connection], Result]) -> Result:
        with self._get_engine().sync_engine.connect() as connection:
            return read(connection)

    async def write(self, statement: Executable, values: Parameters = NO_PARAMETERS) -> int:
        """Run one statement in its own transaction; return how many rows it changed."""
        return await self.change(lambda connection: connection.execute(statement, values).rowcount)

    @uncancellable
    async def change(self, work: Callable[[Connection], Result]) -> Result:
        """Run a function in a transaction of its own, which commits at its end or rolls back; return its result.

        It costs less than `transaction`, and is for what waits for nothing but the database.
        """
        try:
            async with self._write_lock:
                return await greenlet_spawn(self._work, work)
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise JournalError(f"the journal {self._location} refuses to be written: {self._explain(error)}") from error

    def _work(self, work: Callable[[Connection], Result]) -> Result:
        with self._get_engine().sync_engine.begin() as connection:
            return work(connection)

    async def wipe(self) -> None:
        """Leave no bytes of what was erased in the file: the log of changes has them until it is written anew.

        While somebody reads, it is left to the next time. A server keeps its own log.
        """
        if self._file:
            async with self.connect() as connection:
                await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    async def get_version(self) -> str:
        """Return the kind and version of the database, `PostgreSQL 18.1` say."""
        async with self.connect() as connection:
            version = connection.dialect.server_version_info or ()
        return f"{'PostgreSQL' if self.is_on_server else 'SQLite'} {'.'.join(map(str, version))}"

    async def close(self) -> None:
        """Close the database once its transactions have ended, or after ten seconds. Idempotent.

        What begins later fails. A page may still be read, and a cancelled task may still open a connection: what comes
        back to the pool after it was disposed of, nobody closes.
        """
        self._is_closed = True
        pool = cast("QueuePool", self._engine.pool)
        for _ in range(CLOSE_POLLS):
            # What is being opened counts as well.
            if not pool.checkedout():
                break
            await asyncio.sleep(CLOSE_POLL_S)
        await self._engine.dispose()
        if self._file:
            await self._file.close()

    def _explain(self, error: Exception) -> str:
        return self._file.explain(_cause(error)) if self._file else _cause(error)

    def _get_engine(self) -> AsyncEngine:
        if self._is_closed:
            raise JournalError(f"the journal {self._location} is closed")
        return self._engine

    async def _upgrade(self) -> None:
        if await self._get_revision() == HEAD:
            return
        try:
            async with self.transaction() as connection:
                await connection.run_sync(_upgrade)
        except _UnknownSchema as error:
            raise StoreError(
                f"the journal {self._location} cannot be read: {error}. If nobody needs what it holds, move it away, "
                "and a new one is made at the next start"
            ) from error

    async def _get_revision(self) -> str | None:
        try:
            async with self.connect() as connection:
                return await connection.run_sync(_get_revision)
        except StoreError:
            # The upgrade reports what is wrong with the file.
            return None


class _UnknownSchema(StoreError):
    """The tables have a version that cannot be upgraded; the text ends with a way out."""


def _get_revision(connection: Connection) -> str | None:
    """Return the revision of the schema, or None if none is recorded."""
    try:
        # A failed statement would end a whole transaction of PostgreSQL.
        with connection.begin_nested():
            return connection.scalar(select(alembic_version.c.version_num))
    except DBAPIError:
        return None


def _upgrade(connection: Connection) -> None:
    """Create the tables or upgrade those of an older version, in the caller's transaction.

    Raises `_UnknownSchema` for tables of a newer or unknown version, and of one before 0.2.0.
    """
    if connection.dialect.name == "sqlite":
        # Schema changes start no transaction themselves. When two processes open a file, one waits here.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        postgresql.lock_schema(connection)
    if not (table_names := inspect(connection).get_table_names()):
        metadata.create_all(connection)
        alembic_version.create(connection)
        connection.execute(insert(alembic_version).values(version_num=HEAD))
        return
    revision = _get_revision(connection) if alembic_version.name in table_names else None
    if revision is None or revision < BASELINE:
        version = f"version {revision}" if revision else "no version"
        raise _UnknownSchema(f"its tables have {version}, those of KIMAs 0.2.0 have {BASELINE}. {OLDER_HINT}")
    if revision != HEAD:
        _run_revisions(connection, revision)


def _run_revisions(connection: Connection, revision: str) -> None:
    # Importing Alembic is slow, and only a journal of an older version needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", f"{__package__}:migrations")
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        # Alembic says that it cannot locate a revision.
        reason = f"its tables have version {revision}, and this KIMAs knows those up to {HEAD}"
        raise _UnknownSchema(f"{reason}. {NEWER_HINT}") from error
    try:
        for table in metadata.sorted_tables:
            connection.execute(select(table).limit(1))
    except DBAPIError as error:
        raise _UnknownSchema(f"{error.orig}. {NEWER_HINT}") from error


def _make_engine(file: JournalFile, path: Path) -> AsyncEngine:
    url = URL.create("sqlite+aiosqlite", database=str(path))
    engine = create_async_engine(url, async_creator=file.connect)
    event.listen(engine.sync_engine, "connect", file.prepare)
    event.listen(engine.sync_engine, "checkout", file.check)
    return engine


def _cause(error: Exception) -> str:
    # SQLite quotes the text that it cannot decode, PostgreSQL a row: a member's words do not belong in an error.
    return str(getattr(error, "orig", None) or error).partition(" with text ")[0].partition("\nDETAIL")[0]


class Repository:
    """The base of all repositories. Every method raises `JournalError` when the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
