"""Opening the stored state of a deployment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.settings import Settings

if TYPE_CHECKING:
    from core.observability.metrics import MetricsRecorder
    from core.storage.engine import Database
    from core.storage.messages import Journal
    from core.storage.refresh_state import RefreshStateRepository


async def open_database(settings: Settings, name: str = "journal.db") -> Database:
    """Open the database of a deployment: its journal, its ledger and the answers to be given again."""
    from core.storage.engine import Database

    return await Database.open(settings.data_dir / name)


@asynccontextmanager
async def open_existing_database(settings: Settings) -> AsyncIterator[Database | None]:
    """Open the database for the length of the block; None before the first message, which creates it."""
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        yield None
        return
    database = await open_database(settings)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_refresh_repository(settings: Settings) -> AsyncIterator[RefreshStateRepository]:
    """Open the record of refreshes, and close its database at the end of the block."""
    from core.storage.refresh_state import RefreshStateRepository

    database = await open_database(settings)
    try:
        yield RefreshStateRepository(database)
    finally:
        await database.close()


async def open_journal(
    settings: Settings, name: str = "journal.db", metrics_recorder: MetricsRecorder | None = None
) -> Journal:
    """Open the journal of a deployment."""
    from core.storage.messages import Journal

    return Journal(await open_database(settings, name), metrics_recorder)
