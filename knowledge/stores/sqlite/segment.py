"""Immutable passages in memory, which versions of a store share.

A segment holds whole documents. A newer version shares the segments of the older one: it notes which of their documents
are still alive, and reads what was written since into segments of its own. So a refresh costs what it changes, and both
versions together take little more memory than one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge.ports import Vectors
from knowledge.stores.sqlite.tables import (
    RowNumbers,
    list_row_numbers,
    read_document_names,
    read_search_rows,
    read_texts,
)
from knowledge.stores.sqlite.words import InvertedIndex

# Passages of a segment, and those of its last document: few enough to be read again when most are dead.
SEGMENT_SIZE = 8_192
# How many segments smaller than a quarter of that may exist before they are read again into one.
MAX_SMALL_SEGMENTS = 8

# One bit per number of a vector, whether it is positive: 64 in each element, shape (elements, passages).
SignBits = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class PackedTexts:
    """The texts and lines of passages, all texts in one piece of memory.

    The texts of passage i, in UTF-8, lie between neighbours in `bounds[i]`.
    """

    data: bytes
    bounds: NDArray[np.uint32]
    lines: NDArray[np.int32]

    @classmethod
    def from_rows(cls, blocks: Iterator[Sequence[tuple[Any, ...]]]) -> PackedTexts:
        """Pack rows of the texts' bytes and two lines each, behind a number; at most 4 GiB of texts."""
        pieces = []
        bounds = [np.empty((0, 6), np.uint32)]
        lines = [np.empty((0, 2), np.int32)]
        end = 0
        for rows in blocks:
            texts = [text for row in rows for text in row[1:-2]]
            ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts))).reshape(len(rows), -1) + end
            starts = np.concatenate([[end], ends[:-1, -1]])
            bounds.append(np.column_stack([starts, ends]).astype(np.uint32))
            lines.append(np.array([row[-2:] for row in rows], np.int32))
            pieces.append(b"".join(texts))
            end = int(ends[-1, -1])
        return cls(b"".join(pieces), np.concatenate(bounds), np.concatenate(lines))

    def take(self, positions: NDArray[np.intp]) -> Iterator[Sequence[Any]]:
        """Yield id, title, text, URL, kind, first and last line of some passages."""
        for bounds, lines in zip(self.bounds[positions].tolist(), self.lines[positions].tolist(), strict=True):
            first_byte = bounds[0]
            last_byte = bounds[-1]
            text = str(self.data[first_byte:last_byte], "utf-8")
            # Where every character is a byte, pieces of the whole are had for less than half.
            if len(text) == last_byte - first_byte:
                yield [text[start - first_byte : end - first_byte] for start, end in pairwise(bounds)] + lines
            else:
                yield [str(self.data[start:end], "utf-8") for start, end in pairwise(bounds)] + lines


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Passages of whole documents: their vectors (or what stands for them), words and texts.

    `document_numbers` are the passages' documents, by their position in the three columns before. A compact segment has
    sign bits instead of unit vectors, and no texts.
    """

    first_rows: RowNumbers
    sources: Sequence[str]
    paths: Sequence[str]
    document_numbers: NDArray[np.int32]
    row_numbers: RowNumbers
    inverted_index: InvertedIndex
    vectors: Vectors | None
    sign_bits: SignBits | None
    texts: PackedTexts | None


@dataclass(frozen=True, slots=True, eq=False)
class SegmentView:
    """A segment in one version of the store: which of its documents and passages are alive."""

    segment: Segment
    alive_documents: NDArray[np.bool_]
    alive: NDArray[np.bool_]

    def without_deleted(self, first_rows: RowNumbers) -> SegmentView:
        """Return the segment in a version that has the documents of these first rows, in ascending order."""
        alive_documents = is_member(self.segment.first_rows, first_rows)
        return SegmentView(self.segment, alive_documents, alive_documents[self.segment.document_numbers])


def is_member(numbers: RowNumbers, sorted_numbers: RowNumbers) -> NDArray[np.bool_]:
    """Tell which numbers are among others, which are in ascending order."""
    if not len(sorted_numbers):
        return np.zeros(len(numbers), bool)
    positions = np.minimum(sorted_numbers.searchsorted(numbers), len(sorted_numbers) - 1)
    mask: NDArray[np.bool_] = sorted_numbers[positions] == numbers
    return mask


def update_views(
    connection: sqlite3.Connection,
    previous_views: Sequence[SegmentView],
    documents: tuple[RowNumbers, RowNumbers],
    dimension: int,
    *,
    is_compact: bool,
) -> Sequence[SegmentView]:
    """Return the segments of a version: `documents` are the first rows and the numbers of passages it has.

    What earlier views hold is not read again.
    """
    first_rows, passage_counts = documents
    views = _drop_sparse_segments([view.without_deleted(first_rows) for view in previous_views])
    held_rows = [view.segment.first_rows[view.alive_documents] for view in views]
    is_missing = ~is_member(first_rows, np.sort(np.concatenate([np.empty(0, np.int64), *held_rows])))
    missing_rows = first_rows[is_missing]
    missing_counts = passage_counts[is_missing]
    # Documents whose first passage falls into the same thousands make a segment.
    segment_numbers = (np.cumsum(missing_counts) - missing_counts) // SEGMENT_SIZE
    for number in np.unique(segment_numbers):
        in_segment = segment_numbers == number
        segment = _read_segment(
            connection, missing_rows[in_segment], missing_counts[in_segment], dimension, is_compact=is_compact
        )
        alive = np.ones(len(segment.first_rows), bool), np.ones(len(segment.row_numbers), bool)
        views = [*views, SegmentView(segment, *alive)]
    return views


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


def _read_segment(
    connection: sqlite3.Connection,
    first_rows: RowNumbers,
    passage_counts: RowNumbers,
    dimension: int,
    *,
    is_compact: bool,
) -> Segment:
    """Read documents, which are in ascending order."""
    count = int(passage_counts.sum())
    document_numbers = np.repeat(np.arange(len(first_rows), dtype=np.int32), passage_counts)
    row_numbers = list_row_numbers(first_rows, passage_counts)
    vectors = None if is_compact else np.empty((count, dimension), np.float32)
    sign_bits = np.empty((-(-dimension // 64), count), np.uint64) if is_compact else None
    word_hashes: list[bytes] = []
    word_counts: list[bytes] = []
    for block, hashes, counts in read_search_rows(connection, row_numbers, dimension):
        rows = slice(len(word_hashes), len(word_hashes) + len(block))
        if vectors is not None:
            lengths = np.linalg.norm(block, axis=1, keepdims=True)
            np.divide(block, np.maximum(lengths, np.finfo(np.float32).tiny), out=vectors[rows])
        if sign_bits is not None:
            sign_bits[:, rows] = to_sign_bits(block)
        word_hashes += hashes
        word_counts += counts
    return Segment(
        first_rows,
        *read_document_names(connection, first_rows),
        document_numbers,
        row_numbers,
        InvertedIndex.from_counts(word_hashes, word_counts),
        vectors,
        sign_bits,
        None if is_compact else PackedTexts.from_rows(read_texts(connection, row_numbers)),
    )


def to_sign_bits(vectors: Vectors) -> SignBits:
    """Return one bit per number of each vector; the last element is filled up with zeros."""
    bits = np.packbits(vectors > 0, axis=1)
    padded_bits = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded_bits[:, : bits.shape[1]] = bits
    return padded_bits.view(np.uint64).T
