"""One writer at a time across all processes that share a data directory; readers do not wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from core.runtime.locks import writing_lock
from core.types import Passage
from knowledge.ports import PassageRow, Store, StoredDocument, Vectors


class LockedStore:
    """A `Store` whose writes wait for those of other processes."""

    def __init__(self, store: Store, data_dir: Path) -> None:
        self._store = store
        self._data_dir = data_dir

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        return await self._store.manifest(source)

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

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Search, at once."""
        return await self._store.search(tokens, vector, sources, limit)

    async def term_weights(self, tokens: str) -> Mapping[str, float]:
        """Count as the store does."""
        return await self._store.term_weights(tokens)

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source."""
        return await self._store.vectors(source)

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()
