"""Searches of the store that are made only once: routing may look at passages, and then the agent searches the same."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Sequence

from core.types import Passage
from knowledge.ports import SearchableStore, Vectors

# Between routing and the search of a question there are milliseconds. A refresh forgets all results.
MAX_AGE_S = 1.0
MAX_RESULTS = 64


class RecentSearches:
    """Searches a store, and remembers the results for a moment."""

    def __init__(self, store: SearchableStore) -> None:
        self._store = store
        self._results: OrderedDict[tuple[object, ...], tuple[float, Sequence[Passage]]] = OrderedDict()

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Search as `Store.search` does. Raises what that raises, and remembers no failure."""
        key = (tokens, None if vector is None else vector.tobytes(), frozenset(sources), limit)
        found_at, passages = self._results.get(key, (-MAX_AGE_S, ()))
        if time.monotonic() - found_at < MAX_AGE_S:
            return passages
        started_at = time.monotonic()
        results = self._results
        passages = await self._store.search(tokens, vector, sources, limit)
        results[key] = started_at, passages
        results.move_to_end(key)
        if len(results) > MAX_RESULTS:
            results.popitem(last=False)
        return passages

    def forget(self) -> None:
        """Forget all results, those of searches that still run included."""
        self._results = OrderedDict()
