"""The weights of words (IDF). The server does not tell them, but scores a passage by them.

The best passage for a word alone has its score, weight * count * (k1 + 1) / (count + k1 * (1 - b + b * length / mean)),
the count of the word and the length; a sample of all passages has the mean length.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from core.runtime.tasks import task_group
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.schema import BM25_B, BM25_K1

# They change slowly: a word that was weighed is not looked up again for so long.
LIFE_S = 60.0
# Requests on the way at once, and words of one text that are looked up: each is a request.
AT_ONCE = 8
MAX_WORDS = 48


@dataclass(frozen=True, slots=True)
class _Counts:
    """How long passages are on average, what a word weighs that none has, and the weights that are known so far."""

    mean_length: float
    unknown_weight: float
    counted_at: float = field(default_factory=time.monotonic)
    known: dict[tuple[frozenset[str] | None, str], float] = field(default_factory=dict)


class WordWeights:
    """Looks words up, and knows their weights for a while."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts: _Counts | None = None

    def forget(self) -> None:
        """Look everything up again: something was written."""
        self._counts = None

    async def get(self, words: Sequence[str], sources: Collection[str] | None) -> Mapping[str, float]:
        """Return the weights of the last words of a text, as BM25 has them; nothing where nothing is stored.

        A word that no passage of these sources has weighs what a word weighs that no passage has at all.
        """
        # What is forgotten meanwhile was right when this began.
        counts = self._counts
        if counts is None or time.monotonic() - counts.counted_at > LIFE_S:
            counts = self._counts = await self._count()
        if not counts.unknown_weight:
            return {}
        scope = None if sources is None else frozenset(sources)
        wanted_words = list(dict.fromkeys(reversed(words)))[:MAX_WORDS]
        new_words = [word for word in wanted_words if (scope, word) not in counts.known]
        for start in range(0, len(new_words), AT_ONCE):
            async with task_group() as tasks:
                looks = {
                    word: tasks.create_task(self._weigh(word, sources, counts))
                    for word in new_words[start : start + AT_ONCE]
                }
            counts.known.update({(scope, word): look.result() for word, look in looks.items()})
        return {word: counts.known[scope, word] for word in wanted_words}

    async def _count(self) -> _Counts:
        count, token_texts = await self._cluster.sample_tokens()
        lengths = [len(tokens.split()) for tokens in token_texts]
        if not any(lengths):
            return _Counts(0.0, 0.0)
        return _Counts(sum(lengths) / len(lengths), math.log1p((count + 0.5) / 0.5))

    async def _weigh(self, word: str, sources: Collection[str] | None, counts: _Counts) -> float:
        found = await self._cluster.find_word(word, sources)
        tokens = found.properties["tokens"].split() if found else []
        # None where the server has cut the text otherwise.
        if not found or word not in tokens:
            return counts.unknown_weight
        norm = BM25_K1 * (1 - BM25_B + BM25_B * len(tokens) / counts.mean_length)
        count = tokens.count(word)
        return found.score * (count + norm) / (count * (BM25_K1 + 1))
