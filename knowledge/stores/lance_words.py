"""BM25 over passages held in memory: the same scores as the full-text index of the table, without asking it.

A table small enough for its vectors to be in memory has its words there as well, about 8 bytes for every different
word of every passage. Two questions to the index take milliseconds of processor time; this takes a tenth of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]
# BM25 as the index has it: how fast a repeated word stops to count, and how much a passage's length does.
SATURATION, LENGTH_SHARE = 1.2, 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """For every word the passages that hold it, and what it adds to their scores.

    The word with number i (`vocabulary`) has its `places` and `weights` from `starts[i]` to `starts[i + 1]`.
    """

    count: int
    vocabulary: Mapping[str, int]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    weights: Numbers

    @classmethod
    def of(cls, texts: Sequence[str]) -> Words:
        """Count the words of the passages' tokens, which are joined by spaces."""
        vocabulary: dict[str, int] = {}
        split = [text.split() for text in texts]
        flat = [vocabulary.setdefault(word, len(vocabulary)) for words in split for word in words]
        lengths = np.array([len(words) for words in split], np.int64)
        # One number for every pair of word and passage, so that equal pairs can be counted together.
        pairs = np.array(flat, np.int64) * len(texts) + np.repeat(np.arange(len(texts)), lengths)
        found, times = np.unique(pairs, return_counts=True)
        numbers, places = np.divmod(found, max(1, len(texts)))
        starts = np.searchsorted(numbers, np.arange(len(vocabulary) + 1))
        holding = np.diff(starts)
        rarity = np.log1p((len(texts) - holding + 0.5) / (holding + 0.5))
        relative = lengths[places] / max(1e-9, float(lengths.mean()) if len(texts) else 0.0)
        damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative)
        weights = rarity[numbers] * times * (SATURATION + 1) / (times + damping)
        return cls(len(texts), vocabulary, starts, places.astype(np.int32), weights.astype(np.float32))

    def scores(self, tokens: str) -> Numbers:
        """Return the BM25 score of every passage, shape (passages,), for tokens joined by spaces.

        A repeated token counts as often.
        """
        scores: Any = np.zeros(self.count, np.float32)
        for word in tokens.split():
            number = self.vocabulary.get(word)
            if number is not None:
                held = slice(self.starts[number], self.starts[number + 1])
                scores[self.places[held]] += self.weights[held]
        found: Numbers = scores
        return found
