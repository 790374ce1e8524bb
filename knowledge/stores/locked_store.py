"""One writer at a time across all processes that share a data directory; readers do not wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from core.runtime.locks import writing_lock
from knowledge.ports import PassageRow, Store, StoredDocument


class LockedStore:
    """The part of a store that a refresh needs; its writes wait for those of other processes."""

    def __init__(self, store: Store, data_dir: Path) -> None:
        self._store = store
        self._data_dir = data_dir

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        return await self._store.manifest(source)

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        """Return the rows of these paths of a source."""
        return await self._store.rows(source, paths)

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        """Write when it is our turn."""
        async with writing_lock(self._data_dir):
            await self._store.replace(source, paths, rows, empty)

    async def optimize(self) -> None:
        """Bring files and indexes up to date when it is our turn."""
        async with writing_lock(self._data_dir):
            await self._store.optimize()
