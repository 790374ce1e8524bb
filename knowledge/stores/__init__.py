"""Passage stores: one package per database, each behind the `Store` protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from core.settings import StoreSettings
from knowledge.ports import Store

Provider = Literal["lance", "weaviate"]


async def open_store(
    settings: StoreSettings, data_dir: Path, embedder_name: str, dimension: int, *, rebuild: bool = False
) -> Store:
    """Open the configured store: files below `data_dir`, or a server.

    `rebuild` empties it first, for another embedding model. Raises `StoreError`, `StoreMismatch` when it holds vectors
    of another model (`embedder_name`, `dimension`).
    """
    if settings.provider == "weaviate":
        from knowledge.stores.weaviate import open_weaviate

        return await open_weaviate(settings.weaviate, embedder_name, dimension, rebuild=rebuild)
    from knowledge.stores.lance.store import open_lance

    return await open_lance(data_dir / "passages", embedder_name, dimension, rebuild=rebuild)
