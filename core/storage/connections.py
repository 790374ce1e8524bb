"""Connections of aiosqlite that send each statement to their thread once.

SQLAlchemy asks for a cursor, a statement, its rows and the end of the cursor one after the other, and for a rollback
after every reading. Each of these would be a way to the thread and back, which takes longer than most statements.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, cast

import aiosqlite

# So many rows come with their statement. The cursor of what has more stays open for the rest: a long table that is
# copied is never whole in memory.
FIRST_ROWS = 1000


def connect(path: Path, mode: str) -> aiosqlite.Connection:
    """Return a connection to a file, to be awaited; `mode` is that of SQLite, which may make a missing file."""
    return _Connection(partial(sqlite3.connect, f"{path.as_uri()}?mode={mode}", uri=True), FIRST_ROWS)


class _Connection(aiosqlite.Connection):
    def __init__(self, connector: Callable[[], sqlite3.Connection], iter_chunk_size: int) -> None:
        super().__init__(connector, iter_chunk_size)
        # The loop counts what it sends, the thread what it has done.
        self._sent = 0
        self._done = 0

    def cursor(self) -> _Cursor:  # type: ignore[override]
        return _Cursor(self)

    async def rollback(self) -> None:
        """Roll back, if anything has begun. A statement whose caller was cancelled may still be on its way."""
        if self._sent != self._done or self.in_transaction:
            await super().rollback()

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._sent += 1
        return await super()._execute(self._run, partial(fn, *args, **kwargs))  # type: ignore[no-untyped-call]

    def _run(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        finally:
            self._done += 1


class _Cursor(aiosqlite.Cursor):
    """What SQLAlchemy uses of a cursor. It has the first rows of its statement, and all in most cases."""

    def __init__(self, connection: _Connection) -> None:
        # The thread makes it with the first statement.
        super().__init__(connection, cast("sqlite3.Cursor", None))
        self._conn: _Connection = connection
        self._is_made = False
        self._first_rows: list[Any] = []
        self._is_open = False

    async def execute(self, sql: str, parameters: Iterable[Any] | None = None) -> _Cursor:
        await self._conn._execute(self._run, "execute", sql, parameters or ())
        return self

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> _Cursor:
        await self._conn._execute(self._run, "executemany", sql, parameters)
        return self

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        """Return the next rows, at most `size`; by default all that came with the statement."""
        rows, self._first_rows = self._first_rows[:size], self._first_rows[size or len(self._first_rows) :]
        return rows or (list(await super().fetchmany(size)) if self._is_open else [])

    async def fetchone(self) -> Any:
        rows = await self.fetchmany(1)
        return rows[0] if rows else None

    async def fetchall(self) -> list[Any]:
        rows, self._first_rows = self._first_rows, []
        return rows + list(await super().fetchall()) if self._is_open else rows

    async def close(self) -> None:
        self._first_rows = []
        if self._is_open:
            self._is_open = False
            await super().close()

    def _run(self, method: str, sql: str, parameters: Any) -> None:
        """Run a statement in the thread. Setting up a connection uses one cursor for several."""
        if not self._is_made:
            self._cursor = self._conn._conn.cursor()
            self._is_made = True
        getattr(self._cursor, method)(sql, parameters)
        self._first_rows = self._cursor.fetchmany(FIRST_ROWS)
        self._is_open = len(self._first_rows) == FIRST_ROWS
