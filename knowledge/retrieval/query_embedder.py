"""Vectors of queries: embedded once for all who ask at the same time, and not at all where they would mean little."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

import numpy as np

from core.errors import EmbeddingError
from core.language.glossary import prepare_glossary
from core.observability.logs import get_logger
from core.runtime.leaving import judge_requests_by, require_leave
from knowledge.ports import Embedder, Vectors

_log = get_logger(__name__)

# Below this share of known tokens a text's vector means little, and only words count.
MIN_VOCABULARY_COVERAGE = 0.5
QUERY_CACHE_SIZE = 256
# How long a failing embedder is not called again.
EMBEDDER_COOLDOWN_S = 10.0


class QueryEmbedder:
    """Embeds queries within `timeout_s` seconds each; after a failure not again for `cooldown_s` seconds."""

    def __init__(self, embedder: Embedder, timeout_s: float, *, cooldown_s: float = EMBEDDER_COOLDOWN_S) -> None:
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._cooldown_s = cooldown_s
        self._retry_at = 0.0
        self._tasks: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    async def embed(self, query: str) -> Vectors | None:
        """Return the query's vector, or None when only words can be used: the vector means little or is unavailable."""
        await prepare_glossary(query)
        if not self._is_in_vocabulary(query):
            return None
        if time.monotonic() < self._retry_at:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                await require_leave()
                return await self._embed_cached(query)
        except (EmbeddingError, TimeoutError) as error:
            # The next question must not wait for it again.
            self._retry_at = time.monotonic() + self._cooldown_s
            _log.warning("query.not_embedded", error=str(error) or f"not in {self._timeout_s} s")
            return None

    def _is_in_vocabulary(self, query: str) -> bool:
        return self._embedder.vocabulary_coverage(query) >= MIN_VOCABULARY_COVERAGE

    async def _embed_cached(self, query: str) -> Vectors:
        """Return the query's vector. Concurrent and later calls for the same query share one embedding.

        No caller owns the embedding: a cancelled caller does not cancel it for the others.
        """
        task = self._tasks.get(query)
        if task is None:
            task = asyncio.create_task(self._embed_query(query))
            self._tasks[query] = task
            task.add_done_callback(lambda completed_task: self._evict_failed(query, completed_task))
            if len(self._tasks) > QUERY_CACHE_SIZE:
                self._tasks.popitem(last=False)
        else:
            self._tasks.move_to_end(query)
        return await asyncio.shield(task)

    async def _embed_query(self, query: str) -> Vectors:
        # It is for all callers, each of whom was judged; what became of the first does not matter to the others.
        judge_requests_by(None)
        vector: Vectors = (await self._embedder.embed([query], "query"))[0]
        if not np.isfinite(vector).all():
            raise EmbeddingError("the query's vector is no number")
        return vector

    def _evict_failed(self, query: str, task: asyncio.Task[Vectors]) -> None:
        # Reading the exception also marks it as retrieved: all callers may be gone.
        has_failed = task.cancelled() or task.exception() is not None
        if has_failed and self._tasks.get(query) is task:
            del self._tasks[query]

    async def close(self) -> None:
        """Cancel embeddings that nobody waits for. Idempotent."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
