"""Some passages of a table in memory, packed: they never change, so that versions of the table can share them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge.ports import Vectors
from knowledge.stores.lance_words import Words

TEXTS, LINES = ["id", "source", "path", "title", "text", "url", "kind"], ["start_line", "end_line"]
PASSAGE_COLUMNS = [*TEXTS, *LINES]
# Rows that agree in these are the same, also where files were merged and so many rows have moved that reading them
# again is too much: a fingerprint stands for a document's content, the URL for its revision.
IDENTITY = ["source", "id", "fingerprint", "url"]
# How the id of a row begins that stands for a document without passages.
EMPTY = "empty:"
READ = [*PASSAGE_COLUMNS, "fingerprint", "tokens", "vector"]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The columns of passages: all texts in one piece of memory, for out of columns they are read more slowly.

    The texts of passage i, in UTF-8, lie between neighbours in `bounds[i]`.
    """

    data: memoryview
    bounds: NDArray[np.uint32]
    lines: NDArray[np.int32]

    @classmethod
    def of(cls, read: Any) -> Records:
        """Pack an Arrow table that has these columns, at most 2 GiB of texts."""
        import pyarrow.compute as pc

        texts = [read.column(name).combine_chunks() for name in TEXTS]
        joined = pc.binary_join_element_wise(*texts, "")
        lengths = [np.asarray(pc.binary_length(text), np.int64) for text in texts]
        starts = np.cumsum(sum(lengths)) - sum(lengths)
        bounds = np.stack([starts, *(starts + sum(lengths[: end + 1]) for end in range(len(lengths)))], axis=1)
        lines = np.stack([np.asarray(read.column(name), np.int32) for name in LINES], axis=1)
        return cls(memoryview(joined.buffers()[2] or b""), bounds.astype(np.uint32), lines)

    def take(self, places: NDArray[np.intp]) -> Iterator[Sequence[Any]]:
        """Yield the columns of some passages."""
        for bounds, lines in zip(self.bounds[places].tolist(), self.lines[places].tolist(), strict=True):
            first, last = bounds[0], bounds[-1]
            whole = str(self.data[first:last], "utf-8")
            # Where every character is a byte, pieces of the whole are had for less than half.
            if len(whole) == last - first:
                yield [whole[start - first : end - first] for start, end in pairwise(bounds)] + lines
            else:
                yield [str(self.data[start:end], "utf-8") for start, end in pairwise(bounds)] + lines


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some passages: their columns, identities, unit vectors, words, and the numbers of their sources."""

    records: Records
    keys: NDArray[np.int64]
    vectors: Vectors
    words: Words
    sources: tuple[str, ...]
    numbers: NDArray[np.int32]

    @classmethod
    def of(cls, read: Any, dimension: int) -> Block:
        """Make a block of rows as they were read, each with a vector."""
        vectors = matrix(read, dimension)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)
        sources = read.column("source").combine_chunks().dictionary_encode()
        names, numbers = tuple(sources.dictionary.to_pylist()), np.asarray(sources.indices)
        words = Words.of(read.column("tokens").combine_chunks())
        return cls(Records.of(read), identities(read), vectors, words, names, numbers)


def identities(read: Any) -> NDArray[np.int64]:
    """Return what tells the rows of an Arrow table apart, in 64 bits each: the same while the process lives."""
    columns = (read.column(name).to_pylist() for name in IDENTITY)
    return np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, len(read))


def matrix(rows: Any, dimension: int) -> Vectors:
    """Return the vector column of an Arrow table, shape (rows, dimension), without nulls; a copy."""
    chunks = [np.asarray(chunk.flatten(), np.float32) for chunk in rows.column("vector").chunks]
    return np.concatenate(chunks or [np.empty(0, np.float32)]).reshape(-1, dimension)
