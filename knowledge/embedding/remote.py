"""Vectors by an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from core.errors import EmbeddingError
from core.llm.client import OpenAIClient
from core.settings import EmbeddingSettings
from knowledge.embedding.batches import Batch, normalize, replace_surrogates, run_batches
from knowledge.ports import Vectors

MAX_CONCURRENT_REQUESTS = 4
TIMEOUT_S = 30.0


class RemoteEmbedder:
    """An `Embedder` over an OpenAI-compatible endpoint, which it closes. `name` is the model's name."""

    def __init__(self, client: OpenAIClient, settings: EmbeddingSettings) -> None:
        if settings.dimension is None:
            raise EmbeddingError(f"{settings.model}: set knowledge.embedding.dimension to the vectors' length")
        self.name = settings.model
        self.dimension = settings.dimension
        self._client = client
        self._settings = settings
        self._label = f"{client.base_url}: {settings.model}"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension). Raises `EmbeddingError`."""
        vectors = np.empty((len(texts), self.dimension), np.float32)

        async def embed_batch(batch: Batch) -> None:
            vectors[batch] = await self._request([texts[index] for index in batch])

        indices = range(len(texts))
        size = self._settings.batch
        batches = [indices[start : start + size] for start in indices[::size]]
        await run_batches(min(MAX_CONCURRENT_REQUESTS, len(batches)), embed_batch, batches)
        return vectors

    async def warm_up(self) -> None:
        """Load the client: without a language model, nobody else imports its package."""
        await self._client.warm_up()

    def vocabulary_coverage(self, text: str) -> float:
        """Return 1: a remote model does not say which tokens it knows."""
        return 1.0

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.close()

    async def _request(self, texts: Sequence[str]) -> Vectors:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                # OpenAI refuses an empty string, and with it the whole batch.
                rows = await self._client.embed(self.name, [replace_surrogates(text) or " " for text in texts])
        except TimeoutError as error:
            raise EmbeddingError(f"{self._label} took over {TIMEOUT_S:g} s") from error
        # Many numbers take milliseconds; those of a question take less than a thread.
        return self._to_vectors(rows) if len(rows) == 1 else await asyncio.to_thread(self._to_vectors, rows)

    def _to_vectors(self, rows: Sequence[Sequence[float]]) -> Vectors:
        for length in {len(row) for row in rows} - {self.dimension}:
            raise EmbeddingError(
                f"{self._label} sends vectors of {length} numbers, but knowledge.embedding.dimension is "
                f"{self.dimension}; correct it and rebuild the knowledge"
            )
        vectors = normalize(np.array(rows, np.float32))
        if not np.isfinite(vectors).all():
            raise EmbeddingError(f"{self._label} sent a vector without a direction")
        return vectors
