"""The one database of a deployment: the journal, the ledger of what answers cost, and answers given again share it.

SQLite in WAL mode by default; SQLAlchemy keeps PostgreSQL possible for several machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from core.errors import StoreError
from core.storage.tables import metadata


class Database:
    """An open database with all tables. Every transaction raises `StoreError` when the database refuses."""

    def __init__(self, engine: AsyncEngine, location: str) -> None:
        self._engine = engine
        self._location = location
        # SQLite lets writers that wait try again at random, until one of them has waited too long.
        self._write_lock = asyncio.Lock()

    @classmethod
    async def open(cls, path: Path) -> Database:
        """Open the file, making it and the tables and columns that it lacks.

        Raises `StoreError` for one of another version, and where a folder stands in its place.
        """
        if await asyncio.to_thread(path.is_dir):
            raise StoreError(
                f"the journal {path} cannot be opened: it is a folder; move it away, or name another place"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        engine = create_async_engine(URL.create("sqlite+aiosqlite", database=str(path)))
        event.listen(engine.sync_engine, "connect", _set_pragmas)
        database = cls(engine, str(path))
        try:
            await database._make_tables()
        except BaseException:
            await database.close()
            raise
        return database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Give a connection whose changes are kept together at the end of the block, or not at all.

        Writers of this process take turns in the order in which they came.
        """
        try:
            async with self._write_lock, self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"the journal {self._location} refuses to be written: {_cause(error)}") from error

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[AsyncConnection]:
        """Give a connection to read with."""
        try:
            async with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"the journal {self._location} cannot be read: {_cause(error)}") from error

    async def close(self) -> None:
        """Close the database. Idempotent."""
        await self._engine.dispose()

    async def _make_tables(self) -> None:
        async with self.transaction() as connection:
            await connection.run_sync(metadata.create_all)
            await connection.run_sync(_add_columns)
        try:
            async with self.connect() as connection:
                for table in metadata.sorted_tables:
                    await connection.execute(select(table).limit(1))
        except StoreError as error:
            raise StoreError(
                f"{error}. It was written by another version; move it away, and a new one is made at the next start"
            ) from error


def _add_columns(connection: Connection) -> None:
    """Add the columns that came after a table was made. Only such as may be empty can be: older rows have nothing."""
    inspector = inspect(connection)
    for table in metadata.sorted_tables:
        existing_columns = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing_columns and column.nullable:
                column_type = column.type.compile(connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {column_type}"))


def _set_pragmas(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    # FULL: an update is confirmed to the platform once it is in here, so it must survive a power cut as well.
    # What retention removes must not stay readable in the file's free space.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _cause(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or error)
