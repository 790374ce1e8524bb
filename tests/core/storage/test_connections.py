"""A statement goes to the thread of its connection once, and nothing of its result or its transaction is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import func, insert, select, text

from core.errors import JournalError
from core.storage.connections import FIRST_ROWS
from core.storage.engine import Database
from core.storage.tables import cursors

NAMES = select(cursors.c.name).order_by(cursors.c.name)
COUNT = select(func.count()).select_from(cursors)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what was sent to the thread."""
    sent = list[str]()
    execute = aiosqlite.Connection._execute

    async def counted(connection: Any, function: Any, *arguments: Any, **keywords: Any) -> Any:
        sent.append(str(arguments))
        return await execute(connection, function, *arguments, **keywords)

    monkeypatch.setattr(aiosqlite.Connection, "_execute", counted)
    return sent


def rows(count: int) -> list[dict[str, Any]]:
    return [{"name": f"{number:05}", "position": 1} for number in range(count)]


async def test_each_statement_goes_to_the_thread_once(database: Database, ways: list[str]) -> None:
    assert await database.fetch_all(NAMES) == []
    assert len(ways) == 1
    assert await database.write(insert(cursors).values(name="a", position=1)) == 1
    # The other one ends the transaction.
    assert len(ways) == 3


@pytest.mark.parametrize("count", [0, 1, FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 1, 2 * FIRST_ROWS + 1])
async def test_no_row_is_lost(database: Database, count: int) -> None:
    names = [str(row["name"]) for row in rows(count)]
    async with database.transaction() as connection:
        if count:
            assert (await connection.execute(insert(cursors), rows(count))).rowcount == count
    assert [row.name for row in await database.fetch_all(NAMES)] == names
    assert await database.fetch_value(NAMES) == next(iter(names), None)
    async with database.connect() as connection:
        result = await connection.stream(NAMES)
        assert [row.name async for row in result] == names
    async with database.connect() as connection:
        result = await connection.stream(NAMES)
        assert [row.name for row in await result.fetchmany(3)] == names[:3]
        assert [row.name for row in await result.fetchall()] == names[3:]


async def test_a_block_that_fails_leaves_nothing_behind(database: Database) -> None:
    async def fail() -> None:
        async with database.transaction() as connection:
            await connection.execute(insert(cursors), rows(1))
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await fail()
    assert await database.fetch_value(COUNT) == 0


async def test_what_a_cancelled_caller_has_sent_is_undone(database: Database) -> None:
    """The statement may reach the thread after the transaction has been given up."""
    for turns in range(12):
        task = asyncio.create_task(insert_forever(database))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await database.fetch_value(COUNT) == 0
        # Nor is a lock kept.
        await database.write(insert(cursors).values(name="a", position=1))
        await database.write(cursors.delete())


async def insert_forever(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(insert(cursors), rows(500))
        await asyncio.Event().wait()


async def test_an_error_of_a_row_is_one_of_the_statement(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(text("INSERT INTO cursors (name, position) VALUES (CAST(x'ff' AS TEXT), 1)"))
    with pytest.raises(JournalError, match="cannot be read"):
        await database.fetch_all(NAMES)
