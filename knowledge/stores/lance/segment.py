"""Packed, immutable passages in memory, which versions of a table share, and their BM25 scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge.ports import Vectors

FloatArray = NDArray[np.float32]
# In as few bytes as the largest of them needs.
CountArray = NDArray[np.unsignedinteger]
# Which passages are alive; None means all.
AliveMask = NDArray[np.bool_] | None
# BM25's k1 (saturation of repeated words) and b (weight of a passage's length), as in the table's index.
BM25_K1, BM25_B = 1.2, 0.75


@dataclass(frozen=True, slots=True, eq=False)
class InvertedIndex:
    """The inverted index of a segment: which passages contain a word, and how often.

    The word whose hash is `word_hashes[i]`, in ascending order, has its `postings` and `frequencies` from
    `offsets[i]` to `offsets[i + 1]`; `lengths` has the number of words of every passage.
    """

    word_hashes: NDArray[np.int64]
    offsets: NDArray[np.int32]
    postings: CountArray
    frequencies: CountArray
    lengths: NDArray[np.int32]

    @classmethod
    def from_tokens(cls, texts: Any) -> InvertedIndex:
        """Count the words of the passages' tokens: an Arrow array of texts in which they are joined by spaces.

        Nearly all of it runs without the interpreter's lock.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        word_lists = pc.utf8_split_whitespace(texts)
        flat_words = (
            word_lists.combine_chunks().flatten() if isinstance(word_lists, pa.ChunkedArray) else word_lists.flatten()
        )
        word_counts = np.asarray(pc.list_value_length(word_lists)).astype(np.int64)
        passage_numbers = np.repeat(np.arange(len(texts)), word_counts)
        is_word = np.asarray(pc.not_equal(flat_words, "").to_numpy(zero_copy_only=False), bool)
        words = flat_words.filter(pa.array(is_word)).dictionary_encode()
        passage_numbers = passage_numbers[is_word]
        # Python's own hash: 64 bits, and the same as long as the process lives, which is as long as these words do.
        word_hashes = np.array([hash(word) for word in words.dictionary.to_pylist()], np.int64)
        word_hashes, ranks = np.unique(word_hashes, return_inverse=True)
        # One number for every pair of word and passage, so that equal pairs can be counted together.
        pairs = ranks[np.asarray(words.indices)].astype(np.int64) * len(texts) + passage_numbers
        unique_pairs, frequencies = np.unique(pairs, return_counts=True)
        word_numbers, postings = np.divmod(unique_pairs, max(1, len(texts)))
        return cls(
            word_hashes,
            np.searchsorted(word_numbers, np.arange(len(word_hashes) + 1)).astype(np.int32),
            postings.astype(np.min_scalar_type(len(texts))),
            frequencies.astype(np.min_scalar_type(frequencies.max(initial=0))),
            np.bincount(passage_numbers, minlength=len(texts)).astype(np.int32),
        )

    def find_spans(self, hashes: NDArray[np.int64]) -> Iterator[tuple[int, slice]]:
        """Yield which of these words are there, by their position in `hashes`, and where their places are."""
        if not len(self.word_hashes):
            return
        word_numbers = np.minimum(self.word_hashes.searchsorted(hashes), len(self.word_hashes) - 1)
        matches = np.flatnonzero(self.word_hashes[word_numbers] == hashes)
        word_numbers = word_numbers[matches]
        bounds = zip(
            matches.tolist(), self.offsets[word_numbers].tolist(), self.offsets[word_numbers + 1].tolist(), strict=True
        )
        yield from ((word, slice(start, end)) for word, start, end in bounds)


class BM25Scorer:
    """BM25 over all passages of one version of a table, segment after segment."""

    def __init__(self, segments: Sequence[InvertedIndex], alive: AliveMask) -> None:
        """Count over blocks, of whose passages these are alive (None: all are)."""
        lengths = np.concatenate([words.lengths for words in segments] or [np.empty(0, np.int64)])
        alive_lengths = lengths if alive is None else lengths[alive]
        self._alive = alive
        self._passage_count = len(alive_lengths)
        offsets = np.cumsum([0, *(len(words.lengths) for words in segments)])
        self._segments = list(zip(segments, offsets.astype(np.int32), strict=False))
        relative_lengths = lengths / max(1e-9, int(alive_lengths.sum()) / max(1, len(alive_lengths)))
        # What the length of each passage does to the weight of its words.
        self._length_norms: FloatArray = (BM25_K1 * (1 - BM25_B + BM25_B * relative_lengths)).astype(np.float32)

    def scores(self, tokens: str) -> FloatArray:
        """Return the BM25 score of every passage, shape (passages,); 0 for those that are not alive.

        A word that is repeated in `tokens` counts as often.
        """
        scores: FloatArray = np.zeros(len(self._length_norms), np.float32)
        query_counts = Counter(tokens.split())
        for (postings, frequencies), query_count in zip(
            self._find_postings(list(query_counts)), query_counts.values(), strict=True
        ):
            if len(postings):
                idf = query_count * self._idf(len(postings))
                term_frequencies = frequencies.astype(np.float32)
                scores[postings] += (
                    np.float32(idf * (BM25_K1 + 1))
                    * term_frequencies
                    / (term_frequencies + self._length_norms[postings])
                )
        return scores

    def term_weights(self, words: Sequence[str], eligible_mask: AliveMask = None) -> Mapping[str, float]:
        """Return the IDF of each word; that of a word in no passage, or in no eligible one, is the highest."""
        postings = (postings for postings, _ in self._find_postings(words))
        return {
            word: self._idf(len(places) if eligible_mask is None or eligible_mask[places].any() else 0)
            for word, places in zip(words, postings, strict=True)
        }

    def _idf(self, count: int) -> float:
        return float(np.log1p((self._passage_count - count + 0.5) / (count + 0.5)))

    def _find_postings(self, words: Sequence[str]) -> Iterator[tuple[NDArray[np.int32], CountArray]]:
        """Yield for each word which passages hold it, of those alive, and how often each does."""
        hashes = np.array([hash(word) for word in words], np.int64)
        posting_parts: list[list[NDArray[np.int32]]] = [[] for _ in words]
        frequency_parts: list[list[CountArray]] = [[] for _ in words]
        for segment, offset in self._segments:
            for word, span in segment.find_spans(hashes):
                posting_parts[word].append(segment.postings[span] + offset)
                frequency_parts[word].append(segment.frequencies[span])
        for posting_group, frequency_group in zip(posting_parts, frequency_parts, strict=True):
            postings = np.concatenate([np.empty(0, np.int32), *posting_group])
            frequencies = np.concatenate([np.empty(0, np.uint8), *frequency_group])
            if self._alive is None:
                yield postings, frequencies
            else:
                alive_mask = self._alive[postings]
                yield postings[alive_mask], frequencies[alive_mask]


TEXT_COLUMNS, LINE_COLUMNS = ["id", "source", "path", "title", "text", "url", "kind"], ["start_line", "end_line"]
PASSAGE_COLUMNS = [*TEXT_COLUMNS, *LINE_COLUMNS]
# Rows that agree in these are the same, also where files were merged and so many rows have moved that reading them
# again is too much: a fingerprint stands for a document's content, the URL for its revision.
IDENTITY_COLUMNS = ["source", "id", "fingerprint", "url"]
# How the id of a row begins that stands for a document without passages.
PLACEHOLDER_PREFIX = "empty:"
SEGMENT_COLUMNS = [*PASSAGE_COLUMNS, "fingerprint", "tokens", "vector"]


@dataclass(frozen=True, slots=True, eq=False)
class PackedColumns:
    """The columns of passages: all texts in one piece of memory, which reads faster than Arrow columns.

    The texts of passage i, in UTF-8, lie between neighbours in `bounds[i]`.
    """

    data: memoryview
    bounds: NDArray[np.uint32]
    lines: NDArray[np.int32]

    @classmethod
    def from_arrow(cls, table: Any) -> PackedColumns:
        """Pack an Arrow table that has these columns, at most 2 GiB of texts."""
        import pyarrow.compute as pc

        texts = [table.column(name).combine_chunks() for name in TEXT_COLUMNS]
        joined_texts = pc.binary_join_element_wise(*texts, "")
        lengths = [np.asarray(pc.binary_length(text), np.int64) for text in texts]
        starts = np.cumsum(sum(lengths)) - sum(lengths)
        bounds = np.stack([starts, *(starts + sum(lengths[: end + 1]) for end in range(len(lengths)))], axis=1)
        lines = np.stack([np.asarray(table.column(name), np.int32) for name in LINE_COLUMNS], axis=1)
        return cls(memoryview(joined_texts.buffers()[2] or b""), bounds.astype(np.uint32), lines)

    def take(self, positions: NDArray[np.intp]) -> Iterator[Sequence[Any]]:
        """Yield the columns of some passages."""
        for bounds, lines in zip(self.bounds[positions].tolist(), self.lines[positions].tolist(), strict=True):
            first_byte, last_byte = bounds[0], bounds[-1]
            text = str(self.data[first_byte:last_byte], "utf-8")
            # Where every character is a byte, pieces of the whole are had for less than half.
            if len(text) == last_byte - first_byte:
                yield [text[start - first_byte : end - first_byte] for start, end in pairwise(bounds)] + lines
            else:
                yield [str(self.data[start:end], "utf-8") for start, end in pairwise(bounds)] + lines


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A segment: the passages' columns, identities, unit vectors, inverted index, and the numbers of their sources."""

    columns: PackedColumns
    identity_hashes: NDArray[np.int64]
    vectors: Vectors
    inverted_index: InvertedIndex
    source_names: tuple[str, ...]
    source_numbers: NDArray[np.int32]

    @classmethod
    def from_arrow(cls, table: Any, dimension: int) -> Segment:
        """Make a segment of rows as they were read, each with a vector."""
        vectors = to_vectors(table, dimension)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)
        sources = table.column("source").combine_chunks().dictionary_encode()
        source_names, source_numbers = tuple(sources.dictionary.to_pylist()), np.asarray(sources.indices)
        inverted_index = InvertedIndex.from_tokens(table.column("tokens").combine_chunks())
        columns, identities = PackedColumns.from_arrow(table), hash_identities(table)
        return cls(columns, identities, vectors, inverted_index, source_names, source_numbers)


def hash_identities(table: Any) -> NDArray[np.int64]:
    """Return what tells the rows of an Arrow table apart, in 64 bits each: the same while the process lives."""
    columns = (table.column(name).to_pylist() for name in IDENTITY_COLUMNS)
    return np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, len(table))


def to_vectors(table: Any, dimension: int) -> Vectors:
    """Return the vector column of an Arrow table, shape (rows, dimension), without nulls; a copy."""
    chunks = [np.asarray(chunk.flatten(), np.float32) for chunk in table.column("vector").chunks]
    return np.concatenate(chunks or [np.empty(0, np.float32)]).reshape(-1, dimension)
