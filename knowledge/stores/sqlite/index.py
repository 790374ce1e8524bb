"""Hybrid search over all passages of one version of the store. Every passage found gets both of its true scores.

`InMemoryIndex` has the vectors and texts in memory and searches exactly. `CompactIndex`, for more passages than that,
has the words and one bit per number of a vector: these choose candidates, whose vectors are read from the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.runtime.tasks import CpuTurnstile
from core.runtime.tuning import trim_memory
from core.types import Passage
from knowledge.ports import Vectors
from knowledge.stores.sqlite.dense import (
    DenseScorer,
    count_different_bits,
    run_in_executor,
    top_positions,
)
from knowledge.stores.sqlite.segment import SEGMENT_SIZE, PackedTexts, SegmentView, update_views
from knowledge.stores.sqlite.tables import (
    StoreState,
    read_document_ranges,
    read_texts,
    read_vectors,
)
from knowledge.stores.sqlite.words import AliveMask, BM25Scorer, FloatArray

T = TypeVar("T")

# So many bytes of vectors are compared in about a millisecond: sooner than a thread takes its turn.
MAX_INLINE_BYTES = 8 << 20
# So many passages are compared exactly, of those whose sign bits are nearest.
MIN_CANDIDATES = 2_000
CANDIDATES_PER_RESULT = 20


@dataclass(frozen=True, slots=True, eq=False)
class IndexQuery:
    """A query: words and a vector of length 1 (or None), in these sources; how many of either kind at most."""

    tokens: str
    unit_vector: Vectors | None
    sources: Collection[str]
    limit: int


class Reader(Protocol):
    """Runs a function that reads the file, in a transaction."""

    def __call__(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Return what the function returns."""
        ...


class PassageIndex:
    """The common part of both indexes: the segments, their words, and which passages are alive."""

    def __init__(self, state: StoreState, views: Sequence[SegmentView]) -> None:
        self.state = state
        self.views = views
        self._segments = [view.segment for view in views]
        self._offsets = np.cumsum([0, *(len(view.alive) for view in views)])
        alive_mask = np.concatenate([view.alive for view in views] or [np.empty(0, bool)])
        self._alive_mask: AliveMask = None if alive_mask.all() else alive_mask
        # The sources of all documents, and the documents of all passages.
        self._source_names = tuple({source for segment in self._segments for source in segment.sources})
        numbers = {source: number for number, source in enumerate(self._source_names)}
        source_numbers = [
            np.array([numbers[source] for source in segment.sources], np.int16)[segment.document_numbers]
            for segment in self._segments
        ]
        self._source_numbers = np.concatenate([np.empty(0, np.int16), *source_numbers])
        self._bm25 = BM25Scorer([segment.inverted_index for segment in self._segments], self._alive_mask)

    async def search(self, executor: Executor, reader: Reader, query: IndexQuery) -> Sequence[Passage]:
        """Return the union of the best by BM25 and the nearest by cosine, with both scores.

        Raises `MissingRows` when another version has replaced passages that would have to be read.
        """
        raise NotImplementedError

    def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token; with `sources`, one that none of their passages has is an unknown word."""
        eligible_mask = None if sources is None else self._eligible_mask(sources)
        return self._bm25.term_weights(tokens.split(), eligible_mask) if self.views else {}

    def _eligible_mask(self, sources: Collection[str]) -> AliveMask:
        """Return which passages are alive and of these sources; None for all of them."""
        source_mask = np.array([name in sources for name in self._source_names], bool)
        if source_mask.all():
            return self._alive_mask
        passage_mask: NDArray[np.bool_] = source_mask[self._source_numbers]
        return passage_mask if self._alive_mask is None else passage_mask & self._alive_mask

    def _best_by_words(self, tokens: str, eligible_mask: AliveMask, limit: int) -> tuple[FloatArray, NDArray[np.intp]]:
        """Return the BM25 scores of all passages, and the places of the best."""
        scores = self._bm25.scores(tokens)
        has_word = scores > 0 if eligible_mask is None else (scores > 0) & eligible_mask
        return scores, top_positions(scores, has_word, limit)

    def _to_passages(
        self,
        positions: NDArray[np.intp],
        cosines: FloatArray,
        lexical_scores: FloatArray,
        texts: PackedTexts | None = None,
    ) -> Sequence[Passage]:
        """Return passages by their places, in ascending order, with their scores; `texts` if no segment has them."""
        passages: list[Passage] = []
        segment_numbers = self._offsets.searchsorted(positions, "right") - 1
        for number in np.unique(segment_numbers).tolist():
            indexes = np.flatnonzero(segment_numbers == number)
            segment = self._segments[number]
            segment_positions = positions[indexes] - self._offsets[number]
            records = texts.take(indexes) if texts else segment.texts.take(segment_positions) if segment.texts else ()
            scores = zip(cosines[indexes].tolist(), lexical_scores[indexes].tolist(), strict=True)
            documents = segment.document_numbers[segment_positions].tolist()
            for (identifier, *columns), document, pair in zip(records, documents, scores, strict=True):
                document_key = segment.sources[document], segment.paths[document]
                fields = [identifier, *document_key, *columns, *pair]
                passages.append(Passage(*fields))
        return passages


class InMemoryIndex(PassageIndex):
    """All passages with vectors and texts."""

    def __init__(self, state: StoreState, views: Sequence[SegmentView]) -> None:
        super().__init__(state, views)
        vectors = [segment.vectors for segment in self._segments if segment.vectors is not None]
        self._dense_scorer = DenseScorer(vectors)
        self._turnstile = CpuTurnstile()
        self._vector_bytes = sum(segment_vectors.nbytes for segment_vectors in vectors)

    async def search(self, executor: Executor, reader: Reader, query: IndexQuery) -> Sequence[Passage]:
        """Search: few passages at once, many in threads."""
        unit_vector = query.unit_vector
        if self._vector_bytes <= MAX_INLINE_BYTES:
            await self._turnstile.yield_turn()
            return self._rank(query, None if unit_vector is None else self._dense_scorer.score_inline(unit_vector))
        cosines = None if unit_vector is None else await self._dense_scorer.score_batched(executor, unit_vector)
        return await run_in_executor(executor, partial(self._rank, query, cosines))

    def _rank(self, query: IndexQuery, cosines: Vectors | None) -> Sequence[Passage]:
        eligible_mask = self._eligible_mask(query.sources)
        lexical_scores, positions = self._best_by_words(query.tokens, eligible_mask, query.limit)
        if cosines is None:
            positions = np.sort(positions)
            return self._to_passages(positions, np.zeros(len(positions), np.float32), lexical_scores[positions])
        positions = np.union1d(positions, top_positions(cosines, eligible_mask, query.limit))
        return self._to_passages(positions, cosines[positions], lexical_scores[positions])


class CompactIndex(PassageIndex):
    """All passages with their words and the signs of their vectors; vectors and texts are read from the file."""

    def __init__(self, state: StoreState, views: Sequence[SegmentView], dimension: int) -> None:
        super().__init__(state, views)
        self._dimension = dimension
        self._sign_bits = [segment.sign_bits for segment in self._segments if segment.sign_bits is not None]
        self._row_numbers = np.concatenate([segment.row_numbers for segment in self._segments])

    async def search(self, executor: Executor, reader: Reader, query: IndexQuery) -> Sequence[Passage]:
        """Search in a thread."""
        return await run_in_executor(executor, lambda: reader(partial(self.choose, query)))

    def choose(self, query: IndexQuery, connection: sqlite3.Connection) -> Sequence[Passage]:
        """Search, and read what was chosen; blocking. Raises `MissingRows`."""
        unit_vector = query.unit_vector
        limit = query.limit
        eligible_mask = self._eligible_mask(query.sources)
        lexical_scores, positions = self._best_by_words(query.tokens, eligible_mask, query.limit)
        if unit_vector is None:
            positions = np.sort(positions)
            cosines: FloatArray = np.zeros(len(positions), np.float32)
        else:
            different_bits = count_different_bits(self._sign_bits, unit_vector)
            count = max(MIN_CANDIDATES, CANDIDATES_PER_RESULT * limit)
            candidates = np.sort(top_positions(-different_bits, eligible_mask, count))
            nearest_positions = candidates[
                top_positions(self._read_cosines(connection, candidates, unit_vector), None, limit)
            ]
            positions = np.union1d(positions, nearest_positions)
            cosines = self._read_cosines(connection, positions, unit_vector)
        texts = PackedTexts.from_rows(read_texts(connection, self._row_numbers[positions]))
        return self._to_passages(positions, cosines, lexical_scores[positions], texts)

    def _read_cosines(
        self, connection: sqlite3.Connection, positions: NDArray[np.intp], unit_vector: Vectors
    ) -> FloatArray:
        vectors = read_vectors(connection, self._row_numbers[positions], self._dimension)
        lengths = np.maximum(np.linalg.norm(vectors, axis=1), np.finfo(np.float32).tiny)
        cosines: FloatArray = (vectors @ unit_vector / lengths).clip(-1, 1)
        return cosines


def load_index(
    connection: sqlite3.Connection,
    state: StoreState,
    dimension: int,
    memory_bytes: int,
    previous: PassageIndex | None = None,
) -> PassageIndex:
    """Read the passages of a version; what the index of an earlier version holds already is not read again."""
    first_rows, passage_counts = read_document_ranges(connection)
    is_compact = int(passage_counts.sum()) * dimension * 4 > memory_bytes
    if previous is not None and (
        previous.state.creation_id != state.creation_id or isinstance(previous, CompactIndex) != is_compact
    ):
        previous = None
    previous_views = previous.views if previous else ()
    views = update_views(connection, previous_views, (first_rows, passage_counts), dimension, is_compact=is_compact)
    index = CompactIndex(state, views, dimension) if is_compact else InMemoryIndex(state, views)
    known_segments = {id(view.segment) for view in previous_views}
    if sum(len(view.alive) for view in views if id(view.segment) not in known_segments) > SEGMENT_SIZE:
        trim_memory()
    return index
