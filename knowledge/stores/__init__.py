"""Passage stores: one package per database, each behind the `Store` protocol."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Literal

from core.errors import UsageError
from core.runtime.data_dir import require_access
from core.settings import LiveSource, Settings, StoreSettings
from knowledge.ports import Store, StoreOwner

Provider = Literal["sqlite", "weaviate"]
PASSAGES_FOLDER = "passages"
NO_SOURCES = "no sources are configured: docs/sources.md says how to add one"
NOTHING_INGESTED = "nothing has been ingested yet: run `kimas ingest` first"
# With so many a start takes ten seconds of processor time, and 16 searches at once wait for seconds
# (docs/weaviate.md#where-files-end).
MAX_EMBEDDED_PASSAGES = 1_000_000
OUTGROWN = (
    "{count:,} passages are more than the embedded store is made for (a million): searches and starts get slow. "
    "docs/weaviate.md says how to move them to a server"
)


def describe_outgrown(settings: StoreSettings, passage_count: int) -> str:
    """Say that so many passages are too many for the embedded store; nothing where they are not, or on a server."""
    is_outgrown = settings.provider == "sqlite" and passage_count > MAX_EMBEDDED_PASSAGES
    return OUTGROWN.format(count=passage_count) if is_outgrown else ""


async def require_sources(settings: Settings) -> None:
    """Raise `UsageError` where no source is configured.

    Raises `StoreError` for a data directory that this account may not enter. Nothing is made.
    """
    await asyncio.to_thread(require_access, settings.data_dir)
    if not settings.sources:
        raise UsageError(NO_SOURCES)


async def require_ingested(settings: Settings) -> None:
    """Raise `UsageError` where nothing can be known, as far as that shows before a model and the store are opened.

    Raises as `require_sources` does.
    """
    await require_sources(settings)
    is_elsewhere = settings.knowledge.store.provider == "weaviate"
    has_live_source = any(isinstance(source, LiveSource) for source in settings.sources.values())
    if not is_elsewhere and not has_live_source and not await asyncio.to_thread(may_hold_passages, settings.data_dir):
        raise UsageError(NOTHING_INGESTED)


def may_hold_passages(data_dir: Path) -> bool:
    """Return whether passages were ever written below `data_dir`. Blocking."""
    from knowledge.stores.sqlite.store import FILE_NAME

    try:
        os.stat(data_dir / PASSAGES_FOLDER / FILE_NAME)
    except FileNotFoundError:
        return False
    except OSError:
        # Closed to this account, or no folder: whoever opens it says so, and what to do.
        return True
    return True


async def open_store(
    settings: StoreSettings,
    data_dir: Path,
    embedder_name: str,
    dimension: int,
    *,
    owner: StoreOwner | None = None,
    rebuild: bool = False,
) -> Store:
    """Open the configured store: a file below `data_dir`, or a server.

    One on a server belongs to `owner`. `rebuild` empties it first, for another embedding model. Raises `StoreError`,
    `StoreMismatch` when it holds vectors of another model (`embedder_name`, `dimension`).
    """
    if settings.provider == "weaviate":
        from knowledge.stores.weaviate import open_weaviate

        return await open_weaviate(settings.weaviate, embedder_name, dimension, owner=owner, rebuild=rebuild)
    from knowledge.stores.sqlite.store import open_sqlite

    return await open_sqlite(data_dir / PASSAGES_FOLDER, embedder_name, dimension, rebuild=rebuild)


async def check_store(settings: StoreSettings, data_dir: Path, embedder_name: str, dimension: int) -> None:
    """Raise what `open_store` would raise for the passages below `data_dir`; nothing is changed, and no server asked.

    With a store on a server, and before anything was stored, that is nothing.
    """
    folder = data_dir / PASSAGES_FOLDER
    if settings.provider == "weaviate" or not await asyncio.to_thread(os.path.isdir, folder):
        return
    from knowledge.stores.sqlite.store import open_sqlite

    await (await open_sqlite(folder, embedder_name, dimension)).close()
