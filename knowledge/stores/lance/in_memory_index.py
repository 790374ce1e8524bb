"""Exact hybrid search over the passages of a table in memory, without the table's indexes.

Passages are kept in immutable segments. A newer version of the table shares the segments of the older one: it notes
which of their passages are still alive, and reads what was written since into segments of its own. So a refresh costs
what it changes, and both versions together take little more memory than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.runtime.tasks import CpuTurnstile
from core.types import Passage
from knowledge.ports import Vectors
from knowledge.stores.lance.lancedb_api import trim_memory
from knowledge.stores.lance.segment import (
    IDENTITY_COLUMNS,
    SEGMENT_COLUMNS,
    AliveMask,
    BM25Scorer,
    FloatArray,
    Segment,
    hash_identities,
)

T = TypeVar("T")

# The largest batch of query vectors.
MAX_BATCH_SIZE = 32


class DenseScorer:
    """Computes cosines in batches: queries that arrive during a batch form the next one.

    A batch costs little more than one query, because memory bandwidth is the limit.
    """

    def __init__(self, segments: Sequence[Vectors]) -> None:
        ends = np.cumsum([len(segment) for segment in segments]).tolist()
        self._segments = [
            (segment, slice(end - len(segment), end)) for segment, end in zip(segments, ends, strict=True)
        ]
        self._passage_count = ends[-1] if ends else 0
        self._lock = asyncio.Lock()
        self._pending: list[tuple[Vectors, asyncio.Future[Vectors]]] = []

    def score_inline(self, unit_vector: Vectors) -> Vectors:
        """Return the cosines of a unit vector with all passages, segment after segment, shape (passages,)."""
        scores: Vectors = np.empty((1, self._passage_count), np.float32)
        _write_cosines(self._segments, unit_vector[None], scores)
        cosines: Vectors = scores[0]
        return cosines

    async def score_batched(self, executor: Executor, unit_vector: Vectors) -> Vectors:
        """Return the cosines of a batch of unit vectors."""
        future: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._pending.append((unit_vector, future))
        try:
            async with self._lock:
                if not future.done():
                    await self._score_pending(executor)
            return await future
        finally:
            self._pending = [request for request in self._pending if request[1] is not future]

    async def _score_pending(self, executor: Executor) -> None:
        """Process all waiting queries. When it is cancelled they wait for the next batch."""
        batch = self._pending[:MAX_BATCH_SIZE]
        unit_vectors = np.array([unit_vector for unit_vector, _ in batch])
        scores = np.empty((len(batch), self._passage_count), np.float32)
        # Two halves at the same time, where there are two processors free.
        halves = (partial(_write_cosines, self._segments[offset::2], unit_vectors, scores) for offset in (0, 1))
        await asyncio.gather(*(run_in_executor(executor, half) for half in halves))
        for cosines, (_, future) in zip(scores, batch, strict=True):
            if not future.done():
                future.set_result(cosines)
        self._pending = [request for request in self._pending if not request[1].done()]


def _write_cosines(segments: Sequence[tuple[Vectors, slice]], unit_vectors: Vectors, scores: Vectors) -> None:
    """Write the cosines of unit vectors with the passages of segments into `scores`, shape (unit vectors, passages)."""
    for segment, columns in segments:
        # In this order the product of a few vectors takes about 60% of the time of `unit_vectors @ segment.T`.
        np.clip((segment @ unit_vectors.T).T, -1, 1, out=scores[:, columns])


async def run_in_executor(executor: Executor, function: Callable[[], T]) -> T:
    """Return what work in a thread of the executor returns."""
    return await asyncio.get_running_loop().run_in_executor(executor, function)


# Passages of a segment: few enough to be read again when most are dead; counting its words takes 50 MB meanwhile.
SEGMENT_SIZE = 8_192
# How many segments smaller than a quarter of that may exist before they are read again into one.
MAX_SMALL_SEGMENTS = 8
# So many bytes of vectors are compared in about a millisecond: sooner than a thread takes its turn.
MAX_INLINE_BYTES = 8 << 20

RowIds = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentView:
    """A segment in one version of the table: which of its passages are alive, and the numbers of its rows there."""

    segment: Segment
    alive: NDArray[np.bool_]
    row_ids: RowIds


class InMemoryIndex:
    """All passages of one version of a table."""

    def __init__(self, views: Sequence[SegmentView], other_row_ids: RowIds) -> None:
        """Put parts together; `other_row_ids` are the numbers of the rows that are no passages."""
        self.views = views
        self.other_row_ids = other_row_ids
        segments = [view.segment for view in views]
        self._segments = segments
        self._offsets = np.cumsum([0, *(len(view.alive) for view in views)])
        alive_mask = np.concatenate([view.alive for view in views] or [np.empty(0, bool)])
        self._alive_mask: AliveMask = None if alive_mask.all() else alive_mask
        self._source_names = tuple(source_name for segment in segments for source_name in segment.source_names)
        source_offsets = np.cumsum([0, *(len(segment.source_names) for segment in segments)]).astype(np.int32)
        source_numbers = [
            segment.source_numbers + offset for segment, offset in zip(segments, source_offsets, strict=False)
        ]
        self._source_numbers = np.concatenate(source_numbers or [np.empty(0, np.int32)])
        self._bm25 = BM25Scorer([segment.inverted_index for segment in segments], self._alive_mask)
        self._dense_scorer = DenseScorer([segment.vectors for segment in segments])
        self._turnstile = CpuTurnstile()
        self._vector_bytes = sum(segment.vectors.nbytes for segment in segments)

    async def search(
        self, executor: Executor, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, with both scores."""
        if not self.views or limit < 1:
            return []
        unit_vector = None
        if vector is not None:
            unit_vector = (vector / max(float(np.linalg.norm(vector)), float(np.finfo(np.float32).tiny))).astype(
                np.float32
            )
        if self._vector_bytes <= MAX_INLINE_BYTES:
            await self._turnstile.yield_turn()
            return self._search(
                tokens, None if unit_vector is None else self._dense_scorer.score_inline(unit_vector), sources, limit
            )
        cosines = None if unit_vector is None else await self._dense_scorer.score_batched(executor, unit_vector)
        return await run_in_executor(executor, partial(self._search, tokens, cosines, sources, limit))

    def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token; with `sources`, one that none of their passages has is an unknown word."""
        eligible_mask = None if sources is None else self._eligible_mask(sources)
        return self._bm25.term_weights(tokens.split(), eligible_mask) if self.views else {}

    def _search(self, tokens: str, cosines: Vectors | None, sources: Collection[str], limit: int) -> Sequence[Passage]:
        lexical_scores = self._bm25.scores(tokens)
        eligible_mask = self._eligible_mask(sources)
        positions = _top_positions(
            lexical_scores, lexical_scores > 0 if eligible_mask is None else (lexical_scores > 0) & eligible_mask, limit
        )
        if cosines is not None:
            positions = np.union1d(positions, _top_positions(cosines, eligible_mask, limit))
        return self._to_passages(
            positions, np.zeros_like(lexical_scores) if cosines is None else cosines, lexical_scores
        )

    def _eligible_mask(self, sources: Collection[str]) -> AliveMask:
        """Return which passages are alive and of these sources; None for all of them."""
        source_mask = np.array([name in sources for name in self._source_names], bool)
        if source_mask.all():
            return self._alive_mask
        passage_mask: NDArray[np.bool_] = source_mask[self._source_numbers]
        return passage_mask if self._alive_mask is None else passage_mask & self._alive_mask

    def _to_passages(
        self, positions: NDArray[np.intp], cosines: Vectors, lexical_scores: FloatArray
    ) -> Sequence[Passage]:
        passages: list[Passage] = []
        segment_numbers = self._offsets.searchsorted(positions, "right") - 1
        for segment_number in np.unique(segment_numbers).tolist():
            segment_positions = positions[segment_numbers == segment_number]
            records = self._segments[segment_number].columns.take(segment_positions - self._offsets[segment_number])
            scored_records = zip(
                records, cosines[segment_positions].tolist(), lexical_scores[segment_positions].tolist(), strict=True
            )
            passages += [Passage(*[*record, cosine, score]) for record, cosine, score in scored_records]
        return passages


def _top_positions(scores: FloatArray, eligible_mask: AliveMask, limit: int) -> NDArray[np.intp]:
    """Return the places of the `limit` highest scores, of those that are eligible (None: all), in no order."""
    if eligible_mask is None:
        return np.argpartition(-scores, limit - 1)[:limit] if len(scores) > limit else np.arange(len(scores))
    positions = np.flatnonzero(eligible_mask)
    return positions[_top_positions(scores[positions], None, limit)]


async def load_memory_index(
    table: Any, dimension: int, executor: Executor, previous: InMemoryIndex | None = None
) -> InMemoryIndex:
    """Read the passages of a table; what the index of an earlier version holds already is not read again.

    Rows never change: those of numbers that it knows are the same. One that is written anew has another number.
    """
    previous_views = previous.views if previous else ()
    other_row_ids = previous.other_row_ids if previous else np.empty(0, np.uint64)
    row_id_table = await table.query().with_row_id().select([]).to_arrow()
    row_ids = np.asarray(row_id_table.column("_rowid"))
    views, missing_row_ids = await run_in_executor(
        executor, partial(_update_alive, previous_views, other_row_ids, row_ids)
    )
    if previous_views and len(missing_row_ids) > SEGMENT_SIZE:
        identity_batches = []
        for batch in _batch_row_ids(missing_row_ids):
            result = await table.take_row_ids(batch.tolist()).with_row_id().select(IDENTITY_COLUMNS).to_arrow()
            identity_batches.append(await run_in_executor(executor, partial(_read_identities, result)))
        views = await run_in_executor(
            executor,
            partial(
                _revive_moved_rows, previous_views, views, *map(np.concatenate, zip(*identity_batches, strict=True))
            ),
        )
    views, missing_row_ids = await run_in_executor(
        executor, partial(_update_alive, _drop_sparse_segments(views), other_row_ids, row_ids)
    )
    for batch in _batch_row_ids(missing_row_ids):
        result = await table.take_row_ids(batch.tolist()).with_row_id().select(SEGMENT_COLUMNS).to_arrow()
        view, empty_row_ids = await run_in_executor(executor, partial(_make_segment_view, result, dimension))
        views = [*views, view] if len(view.row_ids) else views
        other_row_ids = np.concatenate([other_row_ids, empty_row_ids])
    index = await run_in_executor(
        executor, lambda: InMemoryIndex(views, other_row_ids[_membership_mask(other_row_ids, np.sort(row_ids))])
    )
    if len(missing_row_ids) > SEGMENT_SIZE:
        await run_in_executor(executor, trim_memory)
    return index


def _batch_row_ids(row_ids: RowIds) -> Iterator[RowIds]:
    return (row_ids[start : start + SEGMENT_SIZE] for start in range(0, len(row_ids), SEGMENT_SIZE))


def _make_segment_view(table: Any, dimension: int) -> tuple[SegmentView, RowIds]:
    """Return a new segment, and the numbers of the rows without a vector."""
    import pyarrow.compute as pc

    has_vector = pc.is_valid(table.column("vector"))
    empty_row_ids = np.asarray(table.filter(pc.invert(has_vector)).column("_rowid"))
    table = table.filter(has_vector).combine_chunks()
    return SegmentView(
        Segment.from_arrow(table, dimension), np.ones(len(table), bool), np.asarray(table.column("_rowid"))
    ), empty_row_ids


def _update_alive(
    views: Sequence[SegmentView], other_row_ids: RowIds, row_ids: RowIds
) -> tuple[Sequence[SegmentView], RowIds]:
    """Return the parts with those of their passages alive that are among these rows, and the rows that nobody holds.

    A passage that died stays dead.
    """
    row_ids = np.sort(row_ids)
    updated_views = [
        SegmentView(view.segment, view.alive & _membership_mask(view.row_ids, row_ids), view.row_ids) for view in views
    ]
    covered_row_ids = np.sort(np.concatenate([other_row_ids, *(view.row_ids[view.alive] for view in updated_views)]))
    return updated_views, row_ids[~_membership_mask(row_ids, covered_row_ids)]


def _membership_mask(row_ids: RowIds, sorted_row_ids: RowIds) -> NDArray[np.bool_]:
    """Tell which are among rows, which are in ascending order."""
    if not len(sorted_row_ids):
        return np.zeros(len(row_ids), bool)
    mask: NDArray[np.bool_] = (
        sorted_row_ids[np.minimum(sorted_row_ids.searchsorted(row_ids), len(sorted_row_ids) - 1)] == row_ids
    )
    return mask


def _read_identities(table: Any) -> tuple[NDArray[np.int64], RowIds]:
    return hash_identities(table), np.asarray(table.column("_rowid"))


def _revive_moved_rows(
    previous_views: Sequence[SegmentView],
    views: Sequence[SegmentView],
    identity_hashes: NDArray[np.int64],
    row_ids: RowIds,
) -> Sequence[SegmentView]:
    """Return the parts with those alive again whose rows have moved when files were merged: known by their identity.

    Where they are few they may as well have been written anew under the same identity: reading them tells.
    """
    order = np.argsort(identity_hashes)
    identity_hashes, row_ids, moved_views, moved_count = identity_hashes[order], row_ids[order], list[SegmentView](), 0
    for previous_view, view in zip(previous_views, views, strict=True):
        positions = np.flatnonzero(previous_view.alive & ~view.alive)
        segment_hashes = view.segment.identity_hashes[positions]
        hash_positions = np.minimum(identity_hashes.searchsorted(segment_hashes), len(identity_hashes) - 1)
        is_same = identity_hashes[hash_positions] == segment_hashes
        positions, hash_positions = positions[is_same], hash_positions[is_same]
        alive_mask, segment_row_ids = view.alive.copy(), view.row_ids.copy()
        alive_mask[positions], segment_row_ids[positions] = True, row_ids[hash_positions]
        moved_views.append(SegmentView(view.segment, alive_mask, segment_row_ids))
        moved_count += len(positions)
    return moved_views if moved_count > SEGMENT_SIZE else views


def _drop_sparse_segments(views: Sequence[SegmentView]) -> Sequence[SegmentView]:
    """Leave out segments that are half dead, and small ones when there are many: their rows are read again."""
    counted_views = [(view, np.count_nonzero(view.alive)) for view in views]
    dense_views = [(view, alive_count) for view, alive_count in counted_views if 2 * alive_count > len(view.alive)]
    small_count = sum(alive_count < SEGMENT_SIZE // 4 for _, alive_count in dense_views)
    return [
        view
        for view, alive_count in dense_views
        if small_count <= MAX_SMALL_SEGMENTS or alive_count >= SEGMENT_SIZE // 4
    ]
