"""Opens the database of a deployment: a file in its data directory, or what `journal.url` names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.runtime.data_dir import require_access
from core.settings.messaging import JournalSettings
from core.storage.engine import Database

JOURNAL_NAME = "journal.db"


async def open_database(journal: JournalSettings, data_dir: Path) -> Database:
    """Open the database; create what is missing. Raises `StoreError`."""
    if journal.url:
        return await Database.open_server(journal)
    return await Database.open(data_dir / JOURNAL_NAME)


async def has_database(journal: JournalSettings, data_dir: Path) -> bool:
    """Return whether there is a database: a file comes with the first message, one on a server is always there.

    Raises `StoreError` when this account may not look.
    """
    if journal.url:
        return True
    await asyncio.to_thread(require_access, data_dir)
    return await asyncio.to_thread((data_dir / JOURNAL_NAME).exists)


@asynccontextmanager
async def open_existing_database(journal: JournalSettings, data_dir: Path) -> AsyncIterator[Database | None]:
    """Open the database for the length of the block; None where there is none. Raises `StoreError`."""
    if not await has_database(journal, data_dir):
        yield None
        return
    database = await open_database(journal, data_dir)
    try:
        yield database
    finally:
        await database.close()
