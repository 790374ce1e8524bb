"""The words of passages: counted when they are written, an inverted index of many, and their BM25 scores.

A word is known by 64 bits of its hash, the same in every process. So a passage's words are read as two arrays, and no
loop over words runs when passages are loaded.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
# In as few bytes as the largest of them needs.
CountArray = NDArray[np.unsignedinteger]
# Which passages are alive; None means all.
AliveMask = NDArray[np.bool_] | None
# BM25's k1 (saturation of repeated words) and b (weight of a passage's length).
BM25_K1 = 1.2
BM25_B = 0.75
MAX_WORD_COUNT = 65_535


def hash_word(word: str) -> int:
    """Return the 64 bits that stand for a word, as a signed number."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class WordCounter:
    """Counts the words of passages that are written together."""

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}

    def count(self, tokens: str) -> tuple[bytes, bytes]:
        """Return the hashes of the words of a passage (int64), and how often it has each (uint16)."""
        counts = Counter(tokens.split())
        # Not the difference of the keys: that would go through all words that are known.
        for word in counts:
            if word not in self._hashes:
                self._hashes[word] = hash_word(word)
        hashes = np.fromiter(map(self._hashes.__getitem__, counts), "<i8", len(counts))
        frequencies = np.fromiter(counts.values(), np.int64, len(counts)).clip(max=MAX_WORD_COUNT)
        return hashes.tobytes(), frequencies.astype("<u2").tobytes()


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
    def from_counts(cls, word_hashes: Sequence[bytes], word_counts: Sequence[bytes]) -> InvertedIndex:
        """Put together what `WordCounter` has counted, passage by passage."""
        hashes = np.frombuffer(b"".join(word_hashes), "<i8").astype(np.int64, copy=False)
        counts = np.frombuffer(b"".join(word_counts), "<u2")
        sizes = np.fromiter(map(len, word_hashes), np.int64, len(word_hashes)) // 8
        passage_numbers = np.repeat(np.arange(len(sizes), dtype=np.min_scalar_type(len(sizes))), sizes)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        is_first = np.ones(len(hashes), bool)
        np.not_equal(hashes[1:], hashes[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        lengths = np.bincount(passage_numbers, weights=counts, minlength=len(sizes))
        return cls(
            hashes[starts],
            np.append(starts, len(hashes)).astype(np.int32),
            passage_numbers[order],
            counts[order].astype(np.min_scalar_type(counts.max(initial=0))),
            lengths.astype(np.int32),
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
    """BM25 over all passages of one version of a store, segment after segment."""

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
            word: self._idf(len(positions) if eligible_mask is None or eligible_mask[positions].any() else 0)
            for word, positions in zip(words, postings, strict=True)
        }

    def _idf(self, count: int) -> float:
        return float(np.log1p((self._passage_count - count + 0.5) / (count + 0.5)))

    def _find_postings(self, words: Sequence[str]) -> Iterator[tuple[NDArray[np.int32], CountArray]]:
        """Yield for each word which passages hold it, of those alive, and how often each does."""
        hashes = np.array([hash_word(word) for word in words], np.int64)
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
