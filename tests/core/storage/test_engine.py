"""A database that is closed while others still read it: pages are being made, tasks are being cancelled."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import psutil
import pytest
from sqlalchemy import func, select

from core.errors import JournalError
from core.storage.engine import Database
from core.storage.tables import messages

COUNT = select(func.count()).select_from(messages)


def open_files(path: Path) -> list[str]:
    return [file.path for file in psutil.Process().open_files() if file.path.startswith(str(path))]


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 4, 6, 9, 13])
async def test_no_connection_is_left_or_opened_later(tmp_path: Path, rounds: int) -> None:
    """Nobody would close it: its thread and its file would stay."""
    path = tmp_path / "journal.db"
    database = await Database.open(path)
    # One of them gets the connection that is there, the others open theirs.
    reads = [asyncio.create_task(database.fetch_value(COUNT)) for _ in range(4)]
    for _ in range(rounds):
        await asyncio.sleep(0.001)
    await database.close()
    assert open_files(path) == []
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert open_files(path) == []
    assert all(result == 0 or isinstance(result, JournalError) for result in results)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 4, 6, 9, 13])
async def test_who_is_cancelled_leaves_none(tmp_path: Path, rounds: int) -> None:
    """A page that is left, and a bot that stops: with a connection that is being opened in a thread, or is in use."""
    database = await Database.open(tmp_path / "journal.db")
    threads = set(threading.enumerate())
    reads = [asyncio.create_task(database.fetch_value(COUNT)) for _ in range(4)]
    for _ in range(rounds):
        await asyncio.sleep(0.001)
    for read_task in reads:
        read_task.cancel()
    await database.close()
    await asyncio.gather(*reads, return_exceptions=True)
    # What a thread sends to a loop that has ended is an error. It ends by itself, right after it has closed the file.
    for thread in set(threading.enumerate()) - threads:
        await asyncio.to_thread(thread.join, 0.5)
        assert not thread.is_alive()


async def test_what_reads_or_writes_later_is_told(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "journal.db")
    await database.close()
    with pytest.raises(JournalError, match=r"journal\.db is closed"):
        await database.fetch_value(COUNT)
    with pytest.raises(JournalError, match="is closed"):
        await database.write(messages.delete())
    await database.close()


async def test_closing_waits_for_a_transaction(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "journal.db")
    events = []

    async def write() -> None:
        async with database.transaction() as connection:
            await asyncio.sleep(0.05)
            await connection.execute(messages.delete())
        events.append("written")

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.01)
    await database.close()
    events.append("closed")
    await writing
    assert events == ["written", "closed"]
