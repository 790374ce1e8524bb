"""What a deployment keeps in its database, opened without anything that answers questions: looking starts at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.settings import Settings

if TYPE_CHECKING:
    from core.database import Database
    from core.journal import Journal
    from core.meter import Meter
    from core.upkeep_record import UpkeepRecord


async def open_database(settings: Settings, name: str = "journal.db") -> Database:
    """Open the database of a deployment: its journal, its ledger and the answers to be given again."""
    from core.database import Database

    return await Database.open(settings.data_dir / name)


@asynccontextmanager
async def open_record(settings: Settings) -> AsyncIterator[UpkeepRecord]:
    """Open the record of refreshes, and close its database at the end of the block."""
    from core.upkeep_record import UpkeepRecord

    database = await open_database(settings)
    try:
        yield UpkeepRecord(database)
    finally:
        await database.close()


async def open_journal(settings: Settings, name: str = "journal.db", meter: Meter | None = None) -> Journal:
    """Open the journal of a deployment."""
    from core.journal import Journal

    return Journal(await open_database(settings, name), meter)
