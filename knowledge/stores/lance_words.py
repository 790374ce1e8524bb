"""BM25 over passages held in memory: the same scores as the full-text index of the table, without asking it.

Words are kept per block of passages, some 6 bytes for every different word of every passage, and as numbers: as texts
they would take as much as all of that. How rare a word is counts over all blocks together, so it is known only when
somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]
# BM25 as the index has it: how fast a repeated word stops to count, and how much a passage's length does.
SATURATION, LENGTH_SHARE = 1.2, 0.75
# A word that is repeated more often in one passage counts as if it were there so often.
MOST_TIMES = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a block of passages: which passages hold them and how often.

    The word whose hash is `hashes[i]`, in ascending order, has its `places` and `times` from `starts[i]` to
    `starts[i + 1]`; `lengths` has the number of words of every passage.
    """

    hashes: NDArray[np.int64]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    times: NDArray[np.uint16]
    lengths: NDArray[np.int64]

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
            np.searchsorted(numbers, np.arange(len(hashes) + 1)),
            places.astype(np.int32),
            np.minimum(times, MOST_TIMES).astype(np.uint16),
            np.bincount(owners, minlength=len(texts)),
        )

    def holding(self, word: str, alive: NDArray[np.bool_] | None) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Return the passages that hold a word, of those alive (None: all are), and how often each does."""
        wanted = hash(word)
        number = int(np.searchsorted(self.hashes, wanted))
        if number == len(self.hashes) or self.hashes[number] != wanted:
            return self.places[:0], self.times[:0]
        held = slice(self.starts[number], self.starts[number + 1])
        places, times = self.places[held], self.times[held]
        if alive is None:
            return places, times
        kept = alive[places]
        return places[kept], times[kept]


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """What the words of all blocks come to: how many passages are alive, how long they are on average."""

    passages: int
    length: float

    @classmethod
    def of(cls, blocks: Sequence[tuple[Words, NDArray[np.bool_] | None]]) -> Counted:
        """Count over blocks, each with the passages that are alive."""
        lengths = [words.lengths if alive is None else words.lengths[alive] for words, alive in blocks]
        passages = sum(map(len, lengths))
        return cls(passages, max(1e-9, sum(int(one.sum()) for one in lengths) / max(1, passages)))

    def damping(self, words: Words) -> Numbers:
        """Return what the length of each passage of a block does to the weight of its words, shape (passages,)."""
        relative = words.lengths / self.length
        return (SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative)).astype(np.float32)

    def rarities(self, tokens: str, blocks: Sequence[tuple[Words, NDArray[np.bool_] | None]]) -> dict[str, float]:
        """Return what one occurrence of each word counts for; a word that is repeated in `tokens` counts as often."""
        rarities = {}
        for word, times in Counter(tokens.split()).items():
            holding = sum(len(words.holding(word, alive)[0]) for words, alive in blocks)
            if holding:
                rarities[word] = times * float(np.log1p((self.passages - holding + 0.5) / (holding + 0.5)))
        return rarities


def scores(
    words: Words, rarities: Mapping[str, float], damping: Numbers, alive: NDArray[np.bool_] | None = None
) -> Numbers:
    """Return the BM25 score of every passage of a block, shape (passages,); 0 for those that are not alive."""
    found: Numbers = np.zeros(len(words.lengths), np.float32)
    for word, rarity in rarities.items():
        places, times = words.holding(word, alive)
        often = times.astype(np.float32)
        found[places] += np.float32(rarity * (SATURATION + 1)) * often / (often + damping[places])
    return found
