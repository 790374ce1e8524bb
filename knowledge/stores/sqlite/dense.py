"""Nearness of vectors: exact cosines of those in memory, and a first choice by sign bits where they are too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from knowledge.ports import Vectors
from knowledge.stores.sqlite.segment import SignBits, to_sign_bits
from knowledge.stores.sqlite.words import AliveMask, FloatArray

T = TypeVar("T")

# The largest batch of query vectors.
MAX_BATCH_SIZE = 32


def to_unit_vector(vector: Vectors) -> Vectors:
    """Return a vector of length 1; one without a length stays."""
    unit_vector: Vectors = vector / max(float(np.linalg.norm(vector)), float(np.finfo(np.float32).tiny))
    return unit_vector.astype(np.float32)


def count_different_bits(segments: Sequence[SignBits], vector: Vectors) -> NDArray[np.int16]:
    """Return in how many signs each passage differs from a vector, segment after segment."""
    query_bits = to_sign_bits(vector[None])[:, 0]
    counts = np.zeros(sum(segment.shape[1] for segment in segments), np.int16)
    end = 0
    for segment in segments:
        rows = counts[end : (end := end + segment.shape[1])]
        for passage_bits, query_element in zip(segment, query_bits, strict=True):
            rows += np.bitwise_count(passage_bits ^ query_element)
    return counts


def top_positions(scores: FloatArray | NDArray[np.int16], eligible_mask: AliveMask, limit: int) -> NDArray[np.intp]:
    """Return the places of the `limit` highest scores, of those that are eligible (None: all), in no order."""
    if eligible_mask is None:
        return np.argpartition(-scores, limit - 1)[:limit] if len(scores) > limit else np.arange(len(scores))
    positions = np.flatnonzero(eligible_mask)
    return positions[top_positions(scores[positions], None, limit)]


async def run_in_executor(executor: Executor, function: Callable[[], T]) -> T:
    """Return what work in a thread of the executor returns."""
    return await asyncio.get_running_loop().run_in_executor(executor, function)


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
        # BLAS shares out a product with one vector among threads, which wait for each other at full speed: row by row
        # it takes a fourth of the processor time, on a busy machine a twentieth. In the order given here a product with
        # a few vectors takes about 60% of the time of `unit_vectors @ segment.T`.
        is_single = len(unit_vectors) == 1
        cosines = np.vecdot(segment, unit_vectors) if is_single else (segment @ unit_vectors.T).T
        np.clip(cosines, -1, 1, out=scores[:, columns])
