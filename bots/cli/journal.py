"""`kimas journal copy`: copies the journal between the file in the data directory and a PostgreSQL database."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Literal

from bots.common.terminal import make_console, print_json
from core.errors import UsageError
from core.runtime.locks import daemon_lock, make_data_dir
from core.settings import JournalSettings, Settings
from core.text.formatting import pluralize

JournalKind = Literal["postgresql", "sqlite"]


async def copy_journal(settings: Settings, target_kind: JournalKind, *, as_json: bool) -> int:
    """Copy the journal into an empty one of the other kind. No daemon may run meanwhile.

    Raises `UsageError` when there is nothing to copy or the target holds rows, `StoreLocked`, `StoreError`.
    """
    if not settings.journal.url:
        raise UsageError("journal.url is not set: it names the PostgreSQL database, docs/scale.md says how")
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    with daemon_lock(settings.data_dir):
        counts = await _copy_between(settings, target_kind)
    if as_json:
        print_json({"to": target_kind, "rows": dict(counts)})
        return 0
    out = make_console()
    out.print(", ".join(f"{name}: {pluralize(count, 'row')}" for name, count in counts.items()), markup=False)
    if target_kind == "sqlite":
        out.print("to use it, remove journal.url", markup=False)
    return 0


async def _copy_between(settings: Settings, target_kind: JournalKind) -> dict[str, int]:
    from core.storage.copying import copy_database
    from core.storage.opening import has_database, open_database

    file_journal, server_journal = JournalSettings(), settings.journal
    if target_kind == "postgresql" and not await has_database(file_journal, settings.data_dir):
        raise UsageError(f"there is nothing to copy: {settings.data_dir} has no journal")
    async with AsyncExitStack() as stack:
        databases = []
        for journal in (file_journal, server_journal):
            databases.append(await open_database(journal, settings.data_dir))
            stack.push_async_callback(databases[-1].close)
        source, target = databases if target_kind == "postgresql" else reversed(databases)
        return dict(await copy_database(source, target))
