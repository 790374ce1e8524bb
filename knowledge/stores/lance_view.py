"""Reading one version of a LanceDB table: hybrid search, above all. Every passage found gets both of its true scores.

A table of ordinary size is read once and searched in memory. In a larger one reading columns costs more than
searching: the searches return row numbers, and the rows are read once for all. Row numbers hold for one version only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.types import Passage
from knowledge.ports import Held, Vectors
from knowledge.stores.lance_words import Words

PASSAGE_COLUMNS = ["id", "source", "path", "title", "text", "url", "kind", "start_line", "end_line"]
PROBES = 20
# How the id of a row begins that stands for a document without passages.
EMPTY = "empty:"
# So many bytes of vectors are compared in about a millisecond: sooner than a thread takes its turn.
AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """A table's passages in memory: Arrow columns, unit vectors, words, and the positions of each source's passages."""

    rows: Any
    vectors: Vectors
    words: Words
    by_source: Mapping[str, NDArray[np.intp]]

    @classmethod
    async def load(cls, table: Any, dimension: int) -> Shelf:
        """Read the passages of a table."""
        query = table.query().where("vector IS NOT NULL").select([*PASSAGE_COLUMNS, "tokens", "vector"])
        return await asyncio.to_thread(cls._of, await query.to_arrow(), dimension)

    @classmethod
    def _of(cls, read: Any, dimension: int) -> Shelf:
        vectors = matrix(read, dimension)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        names = np.array(read.column("source").to_pylist(), object)
        by_source = {name: np.flatnonzero(names == name) for name in set(names)}
        words = Words.of(read.column("tokens").to_pylist())
        return cls(read.select(PASSAGE_COLUMNS).combine_chunks(), vectors, words, by_source)

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, with both scores."""
        if self.vectors.nbytes <= AT_ONCE:
            return self._search(tokens, vector, sources, limit)
        return await asyncio.to_thread(self._search, tokens, vector, sources, limit)

    def _search(self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int) -> Sequence[Passage]:
        held = [self.by_source[source] for source in set(sources) if source in self.by_source]
        if not held:
            return []
        places = np.concatenate(held)
        lexical = self.words.scores(tokens)[places]
        with_words = np.flatnonzero(lexical > 0)
        chosen = with_words[_best(lexical[with_words], limit)]
        cosines = np.zeros(len(places), np.float32)
        if vector is not None:
            length = max(float(np.linalg.norm(vector)), float(np.finfo(np.float32).tiny))
            cosines = (self.vectors @ (vector / length))[places].clip(-1, 1)
            chosen = np.union1d(chosen, _best(cosines, limit))
        columns = [column.to_pylist() for column in self.rows.take(places[chosen]).columns]
        scores = cosines[chosen].tolist(), lexical[chosen].tolist()
        return [Passage(*values) for values in zip(*columns, *scores, strict=True)]


class View:
    """One version of the table, fixed: the queries of one search must agree on row numbers and word statistics."""

    def __init__(self, table: Any, version: int, dimension: int, memory: int) -> None:
        self.table = table
        self.version = version
        self._dimension = dimension
        self._memory = memory
        self._shelf: Shelf | None = None
        self._decided = False
        self._deciding = asyncio.Lock()

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, with both true scores."""
        shelf = await self._in_memory()
        if shelf:
            return await shelf.search(tokens, vector, sources, limit)
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

    async def _in_memory(self) -> Shelf | None:
        async with self._deciding:
            if not self._decided:
                if await self.table.count_rows() * self._dimension * 4 <= self._memory:
                    self._shelf = await Shelf.load(self.table, self._dimension)
                self._decided = True
            return self._shelf

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


def _best(scores: Vectors, limit: int) -> NDArray[np.intp]:
    """Return the positions of the `limit` highest scores, in no order."""
    return np.argpartition(-scores, limit - 1)[:limit] if len(scores) > limit else np.arange(len(scores))


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


def matrix(rows: Any, dimension: int) -> Vectors:
    """Return the vector column of an Arrow table, shape (rows, dimension), without nulls."""
    chunks = [np.asarray(chunk.flatten(), np.float32) for chunk in rows.column("vector").chunks]
    return np.concatenate(chunks or [np.empty(0, np.float32)]).reshape(-1, dimension)


def quoted(text: str) -> str:
    """Return a text as an SQL literal. Nothing but the quote itself has a meaning inside."""
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Iterable[str]) -> str:
    """Return texts as the right side of an SQL IN. They may be many thousands."""
    return "(" + ", ".join(map(quoted, texts)) + ")"
