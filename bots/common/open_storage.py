"""Opening the stored state of a deployment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from core.settings import Settings

if TYPE_CHECKING:
    from core.observability.metrics import MetricsRecorder
    from core.storage.engine import Database
    from core.storage.leases import Leases
    from core.storage.messages import Journal
    from core.storage.refresh_state import RefreshStateRepository
    from core.types import SourceState


async def open_database(settings: Settings) -> Database:
    """Open the database of a deployment: its journal, its records of usage and its cached answers."""
    from core.storage.opening import open_database

    return await open_database(settings.journal, settings.data_dir)


async def has_database(settings: Settings) -> bool:
    """Return whether there is a database yet: the first message creates a file."""
    from core.storage.opening import has_database

    return await has_database(settings.journal, settings.data_dir)


def open_existing_database(settings: Settings) -> AbstractAsyncContextManager[Database | None]:
    """Open the database for the length of the block; None before the first message, which creates it."""
    from core.storage.opening import open_existing_database

    return open_existing_database(settings.journal, settings.data_dir)


async def read_states(settings: Settings) -> Mapping[str, SourceState]:
    """Return the states of the stored sources, by name. Raises `StoreError`."""
    from core.storage.refresh_state import RefreshStateRepository
    from knowledge.ingestion.schedule import source_states

    async with open_existing_database(settings) as database:
        refresh_states = dict(await RefreshStateRepository(database).get_states()) if database else {}
    return {state.name: state for state in await asyncio.to_thread(source_states, settings, refresh_states)}


@asynccontextmanager
async def open_refresh_repository(settings: Settings) -> AsyncIterator[RefreshStateRepository]:
    """Open the record of refreshes, and close its database at the end of the block."""
    from core.storage.refresh_state import RefreshStateRepository

    database = await open_database(settings)
    try:
        yield RefreshStateRepository(database)
    finally:
        await database.close()


@asynccontextmanager
async def open_refreshes(settings: Settings) -> AsyncIterator[tuple[RefreshStateRepository, Leases | None]]:
    """Open the record of refreshes for the block, and the leases if several daemons may share it."""
    from core.storage.leases import open_leases
    from core.storage.refresh_state import RefreshStateRepository

    database = await open_database(settings)
    try:
        async with open_leases(database, settings.journal.lease_s) as leases:
            yield RefreshStateRepository(database), leases
    finally:
        await database.close()


async def open_journal(settings: Settings, metrics_recorder: MetricsRecorder | None = None) -> Journal:
    """Open the journal of a deployment."""
    from core.storage.messages import Journal

    return Journal(await open_database(settings), metrics_recorder)
