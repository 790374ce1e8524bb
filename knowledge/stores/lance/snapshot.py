"""Reading one version of a LanceDB table: hybrid search, above all. Every passage found gets both of its true scores.

A table of ordinary size is searched in memory (`in_memory_index`). In a larger one reading columns costs more than
searching: the searches return row numbers, and the rows are read once for all. Row numbers hold for one version only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from core.types import Passage
from knowledge.ports import StoredDocument, Vectors
from knowledge.stores.lance.in_memory_index import InMemoryIndex, load_memory_index
from knowledge.stores.lance.segment import PASSAGE_COLUMNS, PLACEHOLDER_PREFIX, to_vectors
from knowledge.stores.lance.table import fits_in_memory
from knowledge.stores.vectors import compute_cosines

MIN_PROBES = 20
# How long the reading of a version may take: a hundred thousand passages take 5 s of a processor.
LOAD_TIMEOUT_S = 300.0


class SnapshotLoader:
    """Reads a version in a task of its own: a cancelled caller does not cancel it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Snapshot] | None = None

    def is_loading(self) -> bool:
        """Return whether a version is being read."""
        return self._task is not None

    async def start(self, load: Coroutine[Any, Any, Snapshot]) -> Snapshot:
        """Read a version and return it."""
        self._task = asyncio.create_task(asyncio.wait_for(load, LOAD_TIMEOUT_S))
        return await self._wait(self._task)

    async def wait_for_pending(self) -> Snapshot | None:
        """Return the version that was read although its caller gave up, if there is one."""
        return None if self._task is None else await self._wait(self._task)

    async def close(self) -> None:
        """Cancel the reading. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _wait(self, task: asyncio.Task[Snapshot]) -> Snapshot:
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._task = None


class Snapshot:
    """One version of the table, fixed: the queries of one search must agree on row numbers and word statistics."""

    def __init__(self, table: Any, version: int, creation_id: bytes, dimension: int, search_executor: Executor) -> None:
        self.table = table
        self.version = version
        self.creation_id = creation_id
        self._dimension = dimension
        self._search_executor = search_executor
        self._memory_index: InMemoryIndex | None = None

    async def load(self, memory_bytes: int, previous: Snapshot | None, executor: Executor) -> None:
        """Read the passages into memory if they fit; what the snapshot of an earlier version holds is taken from
        there.
        """
        if await fits_in_memory(self.table, self._dimension, memory_bytes):
            previous_index = (
                previous._memory_index if previous is not None and previous.creation_id == self.creation_id else None
            )
            self._memory_index = await load_memory_index(self.table, self._dimension, executor, previous_index)

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, with both true scores."""
        if self._memory_index is not None:
            return await self._memory_index.search(self._search_executor, tokens, vector, sources, limit)
        source_filter = f"source IN {to_sql_list(sources)}"
        bm25_task = asyncio.create_task(_bm25_scores(self.table, tokens, source_filter, limit))
        try:
            nearest_ids = [] if vector is None else await self._nearest(vector, source_filter, limit)
            nearest_filter = f"_rowid IN ({', '.join(map(str, nearest_ids))})"
            scores = await _bm25_scores(self.table, tokens, nearest_filter, len(nearest_ids)) | await bm25_task
        finally:
            bm25_task.cancel()
            await asyncio.gather(bm25_task, return_exceptions=True)
        row_ids = list(scores.keys() | set(nearest_ids))
        return await self._read(row_ids, scores, vector) if row_ids else []

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token over all passages; empty for a table too large for memory."""
        return {} if self._memory_index is None else self._memory_index.term_weights(tokens, sources)

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        query = self.table.query().where(f"source = {quote_sql(source)}").select(["path", "fingerprint", "id"])
        return await asyncio.to_thread(_to_manifest, await query.to_arrow())

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source, shape (passages, dimension)."""
        query = self.table.query().where(f"source = {quote_sql(source)} AND vector IS NOT NULL").select(["vector"])
        return to_vectors(await query.to_arrow(), self._dimension)

    async def _nearest(self, vector: Vectors, where: str, limit: int) -> list[int]:
        # No upper bound on probes: a source with few passages may have them in partitions far from the query.
        query = (
            self.table.query().nearest_to(vector).distance_type("cosine").minimum_nprobes(MIN_PROBES).maximum_nprobes(0)
        )
        result = await query.where(where).limit(limit).with_row_id().select([]).to_arrow()
        row_ids: list[int] = result.column("_rowid").to_pylist()
        return row_ids

    async def _read(self, row_ids: list[int], scores: Mapping[int, float], vector: Vectors | None) -> list[Passage]:
        columns = PASSAGE_COLUMNS if vector is None else [*PASSAGE_COLUMNS, "vector"]
        table = await self.table.take_row_ids(row_ids).with_row_id().select(columns).to_arrow()
        lexical_scores = [scores.get(row_id, 0.0) for row_id in table.column("_rowid").to_pylist()]
        rows = np.empty((0, 0), np.float32) if vector is None else to_vectors(table, self._dimension)
        return _to_passages(table, lexical_scores, rows, vector)


async def _bm25_scores(table: Any, tokens: str, where: str, limit: int) -> dict[int, float]:
    """Return BM25 scores by row number. Statistics (document frequencies, lengths) are those of the whole table."""
    if not (tokens and limit):
        return {}
    query = table.query().nearest_to_text(tokens, columns="tokens").where(where).limit(limit)
    result = await query.with_row_id().select([]).to_arrow()
    return dict(zip(result.column("_rowid").to_pylist(), result.column("_score").to_pylist(), strict=True))


def _to_passages(table: Any, lexical_scores: Sequence[float], rows: Vectors, vector: Vectors | None) -> list[Passage]:
    similarities = [0.0] * len(lexical_scores) if vector is None else compute_cosines(rows, vector)
    columns = [table.column(name).to_pylist() for name in PASSAGE_COLUMNS]
    return [Passage(*values) for values in zip(*columns, similarities, lexical_scores, strict=True)]


def _to_manifest(table: Any) -> Mapping[str, StoredDocument]:
    fingerprints: dict[str, str] = {}
    passages: dict[str, int] = {}
    columns = (table.column(name).to_pylist() for name in ("path", "fingerprint", "id"))
    for path, fingerprint, identifier in zip(*columns, strict=True):
        fingerprints[path] = fingerprint
        passages[path] = passages.get(path, 0) + (not identifier.startswith(PLACEHOLDER_PREFIX))
    return {path: StoredDocument(fingerprint, passages[path]) for path, fingerprint in fingerprints.items()}


def quote_sql(text: str) -> str:
    """Return a text as an SQL literal. Nothing but the quote itself has a meaning inside."""
    return "'" + text.replace("'", "''") + "'"


def to_sql_list(texts: Iterable[str]) -> str:
    """Return texts as the right side of an SQL IN. They may be many thousands."""
    return "(" + ", ".join(map(quote_sql, texts)) + ")"
