"""A store whose work is done beside the event loop of the conversations."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence, Set
from typing import Any, TypeVar

from core.errors import StoreError
from core.runtime.loop_thread import LoopThread
from core.types import Passage
from knowledge.ports import PassageRow, Store, StoredDocument, Vectors

T = TypeVar("T")


class ThreadedStore:
    """A `Store` of another loop, which was opened in `thread` and ends with it."""

    def __init__(self, store: Store, thread: LoopThread) -> None:
        self._store = store
        self._thread = thread

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        return await self._run(self._store.manifest(source))

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        """Return the rows of these paths of a source."""
        return await self._run(self._store.rows(source, paths))

    async def filled(self, sources: Collection[str]) -> Set[str]:
        """Return those of these sources that have passages."""
        return await self._run(self._store.filled(sources))

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the best by words and the nearest by meaning."""
        return await self._run(self._store.search(tokens, vector, sources, limit))

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token."""
        return await self._run(self._store.term_weights(tokens, sources))

    async def vectors(self, source: str) -> Vectors:
        """Return the vectors of a source, or a sample."""
        return await self._run(self._store.vectors(source))

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        """Replace what these paths of the source consist of."""
        await self._run(self._store.replace(source, paths, rows, empty))

    async def optimize(self) -> None:
        """Bring files and indexes up to date after writes."""
        await self._run(self._store.optimize())

    async def close(self) -> None:
        """Close the store and end its thread. Idempotent."""
        try:
            if not self._thread.is_closed:
                await self._thread.run(self._store.close())
        finally:
            await self._thread.close()

    async def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._thread.is_closed:
            coroutine.close()
            raise StoreError("the passage store could not be read or written: it was closed")
        return await self._thread.run(coroutine)
