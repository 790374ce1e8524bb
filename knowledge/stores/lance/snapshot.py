"""Reading one version of a LanceDB table: hybrid search, above all. Every passage found gets both of its true scores.

A table of ordinary size is searched in memory (`lance_shelf`). In a larger one reading columns costs more than
searching: the searches return row numbers, and the rows are read once for all. Row numbers hold for one version only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from core.types import Passage
from knowledge.ports import Held, Vectors
from knowledge.stores.lance.in_memory_index import Shelf, load_shelf
from knowledge.stores.lance.segment import EMPTY, PASSAGE_COLUMNS, matrix
from knowledge.stores.lance.table import fits

PROBES = 20
# How long the reading of a version may take: a hundred thousand passages take 5 s of a processor.
LOAD_SECONDS = 300.0


class Loading:
    """The reading of a version, in a task of its own: who gives up waiting for it does not end it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[View] | None = None

    def is_on(self) -> bool:
        """Say whether a version is being read."""
        return self._task is not None

    async def begun(self, reading: Coroutine[Any, Any, View]) -> View:
        """Begin to read a version and return it."""
        self._task = asyncio.create_task(asyncio.wait_for(reading, LOAD_SECONDS))
        return await self._read(self._task)

    async def left(self) -> View | None:
        """Return the version that somebody has begun to read and not waited for, if there is one."""
        return None if self._task is None else await self._read(self._task)

    async def close(self) -> None:
        """Break off what is being read. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _read(self, task: asyncio.Task[View]) -> View:
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._task = None


class View:
    """One version of the table, fixed: the queries of one search must agree on row numbers and word statistics."""

    def __init__(self, table: Any, version: int, made: bytes, dimension: int, searchers: Executor) -> None:
        self.table = table
        self.version = version
        self.made = made
        self._dimension = dimension
        self._searchers = searchers
        self._shelf: Shelf | None = None

    async def load(self, memory: int, before: View | None, loader: Executor) -> None:
        """Read the passages into memory where they fit; what the view of an earlier version has is taken from there."""
        if await fits(self.table, self._dimension, memory):
            known = before._shelf if before is not None and before.made == self.made else None
            self._shelf = await load_shelf(self.table, self._dimension, loader, known)

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, with both true scores."""
        if self._shelf is not None:
            return await self._shelf.search(self._searchers, tokens, vector, sources, limit)
        where = f"source IN {listed(sources)}"
        best = asyncio.create_task(_word_scores(self.table, tokens, where, limit))
        try:
            near = [] if vector is None else await self._nearest(vector, where, limit)
            chosen = f"_rowid IN ({', '.join(map(str, near))})"
            scores = await _word_scores(self.table, tokens, chosen, len(near)) | await best
        finally:
            best.cancel()
            await asyncio.gather(best, return_exceptions=True)
        numbers = list(scores.keys() | set(near))
        return await self._read(numbers, scores, vector) if numbers else []

    async def manifest(self, source: str) -> Mapping[str, Held]:
        """Return what is held of a source, by path."""
        query = self.table.query().where(f"source = {quoted(source)}").select(["path", "fingerprint", "id"])
        return await asyncio.to_thread(_held, await query.to_arrow())

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source, shape (passages, dimension)."""
        query = self.table.query().where(f"source = {quoted(source)} AND vector IS NOT NULL").select(["vector"])
        return matrix(await query.to_arrow(), self._dimension)

    async def _nearest(self, vector: Vectors, where: str, limit: int) -> list[int]:
        # No upper bound on probes: a source with few passages may have them in partitions far from the query.
        query = self.table.query().nearest_to(vector).distance_type("cosine").minimum_nprobes(PROBES).maximum_nprobes(0)
        found = await query.where(where).limit(limit).with_row_id().select([]).to_arrow()
        numbers: list[int] = found.column("_rowid").to_pylist()
        return numbers

    async def _read(self, numbers: list[int], scores: Mapping[int, float], vector: Vectors | None) -> list[Passage]:
        columns = PASSAGE_COLUMNS if vector is None else [*PASSAGE_COLUMNS, "vector"]
        read = await self.table.take_row_ids(numbers).with_row_id().select(columns).to_arrow()
        lexical = [scores.get(number, 0.0) for number in read.column("_rowid").to_pylist()]
        rows = np.empty((0, 0), np.float32) if vector is None else matrix(read, self._dimension)
        return _passages(read, lexical, rows, vector)


async def _word_scores(table: Any, tokens: str, where: str, limit: int) -> dict[int, float]:
    """Return BM25 scores by row number. Statistics (document frequencies, lengths) are those of the whole table."""
    if not (tokens and limit):
        return {}
    query = table.query().nearest_to_text(tokens, columns="tokens").where(where).limit(limit)
    found = await query.with_row_id().select([]).to_arrow()
    return dict(zip(found.column("_rowid").to_pylist(), found.column("_score").to_pylist(), strict=True))


def _passages(read: Any, lexical: Sequence[float], rows: Vectors, vector: Vectors | None) -> list[Passage]:
    similarity = [0.0] * len(lexical) if vector is None else _cosines(rows, vector)
    columns = [read.column(name).to_pylist() for name in PASSAGE_COLUMNS]
    return [Passage(*values) for values in zip(*columns, similarity, lexical, strict=True)]


def _held(rows: Any) -> Mapping[str, Held]:
    fingerprints: dict[str, str] = {}
    passages: dict[str, int] = {}
    columns = (rows.column(name).to_pylist() for name in ("path", "fingerprint", "id"))
    for path, fingerprint, identifier in zip(*columns, strict=True):
        fingerprints[path] = fingerprint
        passages[path] = passages.get(path, 0) + (not identifier.startswith(EMPTY))
    return {path: Held(fingerprint, passages[path]) for path, fingerprint in fingerprints.items()}


def _cosines(rows: Vectors, vector: Vectors) -> list[float]:
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines: list[float] = (rows @ vector / np.maximum(lengths, np.finfo(np.float32).tiny)).clip(-1, 1).tolist()
    return cosines


def quoted(text: str) -> str:
    """Return a text as an SQL literal. Nothing but the quote itself has a meaning inside."""
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Iterable[str]) -> str:
    """Return texts as the right side of an SQL IN. They may be many thousands."""
    return "(" + ", ".join(map(quoted, texts)) + ")"
