"""Passage stores: one package per database, each behind the `Store` protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from core.settings import StoreSettings
from knowledge.ports import CopyableStore

Provider = Literal["sqlite", "weaviate"]


async def open_store(
    settings: StoreSettings, data_dir: Path, embedder_name: str, dimension: int, *, rebuild: bool = False
) -> CopyableStore:
    """Open the configured store: a file below `data_dir`, into which LanceDB's passages are copied once, or a server.

    `rebuild` empties it first, for another embedding model. Raises `StoreError`, `StoreMismatch` when it holds vectors
    of another model (`embedder_name`, `dimension`).
    """
    if settings.provider == "weaviate":
        from knowledge.stores.weaviate import open_weaviate

        return await open_weaviate(settings.weaviate, embedder_name, dimension, rebuild=rebuild)
    from knowledge.stores.lance_import import import_lance, needs_import
    from knowledge.stores.sqlite.store import open_sqlite

    folder = data_dir / "passages"
    if not rebuild and await asyncio.to_thread(needs_import, folder):
        await import_lance(data_dir, folder, embedder_name, dimension)
    return await open_sqlite(folder, embedder_name, dimension, rebuild=rebuild)
