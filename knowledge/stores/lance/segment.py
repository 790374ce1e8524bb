"""Some passages of a table in memory, packed: they never change, so that versions of the table can share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge.ports import Vectors

Numbers = NDArray[np.float32]
# In as few bytes as the largest of them needs.
Counts = NDArray[np.unsignedinteger]
# Which passages are alive; None: all are.
Alive = NDArray[np.bool_] | None
# BM25 as the index has it: how fast a repeated word stops to count, and how much a passage's length does.
SATURATION, LENGTH_SHARE = 1.2, 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a block of passages: which passages hold them and how often.

    The word whose hash is `hashes[i]`, in ascending order, has its `places` and `times` from `starts[i]` to
    `starts[i + 1]`; `lengths` has the number of words of every passage.
    """

    hashes: NDArray[np.int64]
    starts: NDArray[np.int32]
    places: Counts
    times: Counts
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Any) -> Words:
        """Count the words of the passages' tokens: an Arrow array of texts in which they are joined by spaces.

        Nearly all of it runs without the interpreter's lock.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        split = pc.utf8_split_whitespace(texts)
        flat = split.combine_chunks().flatten() if isinstance(split, pa.ChunkedArray) else split.flatten()
        counts = np.asarray(pc.list_value_length(split)).astype(np.int64)
        owners = np.repeat(np.arange(len(texts)), counts)
        real = np.asarray(pc.not_equal(flat, "").to_numpy(zero_copy_only=False), bool)
        words = flat.filter(pa.array(real)).dictionary_encode()
        owners = owners[real]
        # Python's own hash: 64 bits, and the same as long as the process lives, which is as long as these words do.
        hashes = np.array([hash(word) for word in words.dictionary.to_pylist()], np.int64)
        hashes, ranks = np.unique(hashes, return_inverse=True)
        # One number for every pair of word and passage, so that equal pairs can be counted together.
        pairs = ranks[np.asarray(words.indices)].astype(np.int64) * len(texts) + owners
        found, times = np.unique(pairs, return_counts=True)
        numbers, places = np.divmod(found, max(1, len(texts)))
        return cls(
            hashes,
            np.searchsorted(numbers, np.arange(len(hashes) + 1)).astype(np.int32),
            places.astype(np.min_scalar_type(len(texts))),
            times.astype(np.min_scalar_type(times.max(initial=0))),
            np.bincount(owners, minlength=len(texts)).astype(np.int32),
        )

    def spans(self, hashes: NDArray[np.int64]) -> Iterator[tuple[int, slice]]:
        """Yield which of these words are there, by their position in `hashes`, and where their places are."""
        if not len(self.hashes):
            return
        numbers = np.minimum(self.hashes.searchsorted(hashes), len(self.hashes) - 1)
        there = np.flatnonzero(self.hashes[numbers] == hashes)
        numbers = numbers[there]
        bounds = zip(there.tolist(), self.starts[numbers].tolist(), self.starts[numbers + 1].tolist(), strict=True)
        yield from ((word, slice(start, end)) for word, start, end in bounds)


class Lexicon:
    """The words of all passages of one version of a table: those of its blocks, one block after the other."""

    def __init__(self, blocks: Sequence[Words], alive: Alive) -> None:
        """Count over blocks, of whose passages these are alive (None: all are)."""
        lengths = np.concatenate([words.lengths for words in blocks] or [np.empty(0, np.int64)])
        living = lengths if alive is None else lengths[alive]
        self._alive = alive
        self._passages = len(living)
        starts = np.cumsum([0, *(len(words.lengths) for words in blocks)])
        self._blocks = list(zip(blocks, starts.astype(np.int32), strict=False))
        relative = lengths / max(1e-9, int(living.sum()) / max(1, len(living)))
        # What the length of each passage does to the weight of its words.
        self._damping: Numbers = (SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative)).astype(np.float32)

    def scores(self, tokens: str) -> Numbers:
        """Return the BM25 score of every passage, shape (passages,); 0 for those that are not alive.

        A word that is repeated in `tokens` counts as often.
        """
        found: Numbers = np.zeros(len(self._damping), np.float32)
        repeated = Counter(tokens.split())
        for (places, times), repeats in zip(self._holding(list(repeated)), repeated.values(), strict=True):
            if len(places):
                rarity = repeats * float(np.log1p((self._passages - len(places) + 0.5) / (len(places) + 0.5)))
                often = times.astype(np.float32)
                found[places] += np.float32(rarity * (SATURATION + 1)) * often / (often + self._damping[places])
        return found

    def _holding(self, words: Sequence[str]) -> Iterator[tuple[NDArray[np.int32], Counts]]:
        """Yield for each word which passages hold it, of those alive, and how often each does."""
        hashes = np.array([hash(word) for word in words], np.int64)
        places: list[list[NDArray[np.int32]]] = [[] for _ in words]
        times: list[list[Counts]] = [[] for _ in words]
        for block, start in self._blocks:
            for word, held in block.spans(hashes):
                places[word].append(block.places[held] + start)
                times[word].append(block.times[held])
        for some, repeats in zip(places, times, strict=True):
            where = np.concatenate([np.empty(0, np.int32), *some])
            often = np.concatenate([np.empty(0, np.uint8), *repeats])
            if self._alive is None:
                yield where, often
            else:
                kept = self._alive[where]
                yield where[kept], often[kept]


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
