"""Copies a whole database into another one, of whichever kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import UsageError
from core.runtime.tasks import uncancellable
from core.storage.engine import Database
from core.storage.postgresql import reset_sequences
from core.storage.tables import leases, metadata

BATCH_SIZE = 1_000
# Leases are those of the daemons on one database.
_TABLES = [table for table in metadata.sorted_tables if table is not leases]


@uncancellable
async def copy_database(source: Database, target: Database) -> Mapping[str, int]:
    """Copy all rows into an empty database, all of them or none; return how many, by table.

    Raises `UsageError` for a target that holds rows, and `JournalError`.
    """
    counts = dict[str, int]()
    async with source.connect() as source_connection, target.transaction() as target_connection:
        for table in _TABLES:
            if await target_connection.scalar(sa.select(sa.func.count()).select_from(table)):
                raise UsageError(f"the journal to copy to is not empty: it has {table.name}; name a new database")
        for table in _TABLES:
            counts[table.name] = await _copy_table(table, source_connection, target_connection)
        if target.is_on_server:
            await target_connection.run_sync(reset_sequences, _TABLES)
    return counts


async def _copy_table(table: sa.Table, source_connection: AsyncConnection, target_connection: AsyncConnection) -> int:
    copy = table.to_metadata(sa.MetaData())
    for column in copy.columns:
        if isinstance(column.type, sa.JSON):
            # A missing value stays missing, and does not become the JSON value null.
            column.type = sa.JSON(none_as_null=True)
    result = await source_connection.stream(sa.select(table).order_by(*table.primary_key.columns))
    count = 0
    async for batch in result.partitions(BATCH_SIZE):
        rows: list[dict[str, Any]] = [dict(row._mapping) for row in batch]
        await target_connection.execute(sa.insert(copy), rows)
        count += len(rows)
    return count
