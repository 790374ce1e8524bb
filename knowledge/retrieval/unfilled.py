"""The similarities of passages that have no vector yet, so that they are ranked fairly beside those that have one."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from core.errors import EmbeddingError
from core.observability.logs import get_logger
from core.types import Passage
from knowledge.embedding.batches import INTERACTIVE_CHARACTERS, get_embedded_text
from knowledge.ports import Embedder, Vectors

_log = get_logger(__name__)

# So many of the best by words get their vector when they are found; it is kept for the next question.
MAX_EMBEDDED = 12
CACHE_SIZE = 1024
# Up to this share of what was found, likely similarities do no harm; with more, words alone rank better.
MAX_ESTIMATED_SHARE = 0.25


class UnfilledPassages:
    """Gives passages without a vector a similarity: true for the best by words, likely for the others.

    The vectors may take `timeout_s` seconds; after a failure they are not tried again for `cooldown_s` seconds.
    """

    def __init__(self, embedder: Embedder, timeout_s: float, cooldown_s: float) -> None:
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._cooldown_s = cooldown_s
        self._retry_at = 0.0
        self._vectors: OrderedDict[str, Vectors | None] = OrderedDict()

    async def add_similarities(
        self, passages: Sequence[Passage], lexical_shares: Sequence[float], query_vector: Vectors
    ) -> Sequence[Passage]:
        """Return the passages with a similarity each. A likely one is the lexical share.

        Where most lack a vector and none can be made, all have a likely one, so that words alone rank them.
        """
        unfilled = [index for index, passage in enumerate(passages) if not passage.similarity]
        best = sorted(unfilled, key=lambda index: -lexical_shares[index])[:MAX_EMBEDDED]
        texts = {index: get_embedded_text(passages[index]) for index in best}
        has_vectors = await self._embed([text for text in texts.values() if text not in self._vectors])
        if not has_vectors and len(unfilled) > MAX_ESTIMATED_SHARE * len(passages):
            unfilled = list(range(len(passages)))
            texts = {}
        completed = list(passages)
        for index in unfilled:
            vector = self._vectors.get(texts.get(index, ""))
            similarity = lexical_shares[index] if vector is None else float(vector @ query_vector)
            completed[index] = replace(passages[index], similarity=similarity)
        while len(self._vectors) > CACHE_SIZE:
            self._vectors.popitem(last=False)
        return completed

    async def _embed(self, texts: Sequence[str]) -> bool:
        """Keep the vectors of texts, as many as a question may ask for. Return whether the model made them in time."""
        ends = np.cumsum([len(text) for text in texts])
        texts = texts[: int(np.count_nonzero(ends <= INTERACTIVE_CHARACTERS))]
        if not texts:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            async with asyncio.timeout(self._timeout_s):
                vectors = await self._embedder.embed(texts)
        except TimeoutError:
            # Expected where they are many: they are found by words until the filling gets to them.
            self._retry_at = time.monotonic() + self._cooldown_s
            _log.info("passages.not_embedded", reason=f"not in {self._timeout_s} s")
            return False
        except EmbeddingError as error:
            self._retry_at = time.monotonic() + self._cooldown_s
            _log.warning("passages.not_embedded", error=str(error))
            return False
        known = zip(texts, vectors, strict=True)
        # None is a text that the model refuses: it is not asked again.
        self._vectors.update((text, vector if np.isfinite(vector).all() else None) for text, vector in known)
        return True
