"""Vectors by an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from core.errors import EmbeddingError
from core.llm.client import OpenAIClient
from core.observability.logs import get_logger
from core.settings import EmbeddingSettings
from knowledge.embedding.batches import Batch, normalize, replace_surrogates, run_batches
from knowledge.embedding.families import find_instructions
from knowledge.ports import TextKind, Vectors

_log = get_logger(__name__)

MAX_CONCURRENT_REQUESTS = 4
TIMEOUT_S = 30.0
# With these an endpoint refuses what a request holds; servers that cannot cut a text call that a fault of their own.
REFUSED_STATUSES = frozenset({400, 413, 422, 500})
# A text that is refused is cut in half until it is accepted or as short as this, in characters.
MIN_CUT_CHARACTERS = 200
# What an endpoint takes unless it takes nothing at all.
PLAIN_TEXT = "ready?"
# An endpoint with these is busy, or loads its model. How often, and for how long in seconds, it is waited for; where it
# does not say for how long, at first so long and then twice as long each time.
BUSY_STATUSES = frozenset({429, 503})
MAX_WAITS = 5
MAX_WAIT_S = 60.0
FIRST_WAIT_S = 2.0


class RemoteEmbedder:
    """An `Embedder` over an OpenAI-compatible endpoint, which it closes. `name` says model and passage prefix.

    A batch that the endpoint refuses, or is slow with, is halved, and so are the batches after it.
    """

    def __init__(self, client: OpenAIClient, settings: EmbeddingSettings) -> None:
        if settings.dimension is None:
            raise EmbeddingError(f"{settings.model}: set knowledge.embedding.dimension to the vectors' length")
        self._instructions = find_instructions(settings)
        self.name = settings.model + self._instructions.identity
        self.dimension = settings.dimension
        self._model = settings.model
        self._client = client
        self._batch_size = settings.batch
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._spare_slots = MAX_CONCURRENT_REQUESTS - 1
        self._refused_count = 0
        self._label = f"{client.base_url}: {settings.model}"

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        """Return unit vectors, shape (len(texts), dimension), NaN for a text that is blank or refused.

        A text that is too long for the model is cut. Raises `EmbeddingError`.
        """
        vectors = np.full((len(texts), self.dimension), np.nan, np.float32)

        async def embed_batch(batch: Batch) -> None:
            vectors[batch] = await self._embed_part([texts[index] for index in batch], kind)

        # Without words there is nothing to embed, and many endpoints refuse such a text, with all others of its batch.
        indices = [index for index, text in enumerate(texts) if text.strip()]
        size = self._batch_size
        batches = [indices[start : start + size] for start in range(0, len(indices), size)]
        await run_batches(min(MAX_CONCURRENT_REQUESTS, max(1, len(batches))), embed_batch, batches)
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

    async def _embed_part(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Embed some texts in batches that the endpoint takes, as far as is known by now."""
        parts = []
        start = 0
        while start < len(texts):
            batch = texts[start : start + self._batch_size]
            parts.append(await self._embed_batch(batch, kind))
            start += len(batch)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    async def _embed_batch(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Embed a batch; one that fails or is slow in halves, a single text that fails not as a whole."""
        try:
            return await self._request(texts, kind)
        except EmbeddingError as error:
            if len(texts) == 1 and _is_about_texts(error):
                return await self._embed_cut(texts[0], kind, error)
            if len(texts) == 1 or not (error.is_timeout or _is_about_texts(error)):
                raise
            is_slow = error.is_timeout
        half = len(texts) // 2
        if is_slow:
            self._limit_batches(half)
            if self._spare_slots:
                # What is slow with several requests at once is faster with one: this place is not given back.
                self._spare_slots -= 1
                await self._slots.acquire()
        refused_count = self._refused_count
        vectors = np.concatenate([await self._embed_part(part, kind) for part in (texts[:half], texts[half:])])
        # A batch that holds a bad text is refused as one that holds too many.
        if refused_count == self._refused_count:
            self._limit_batches(half)
        return vectors

    def _limit_batches(self, size: int) -> None:
        if size < self._batch_size:
            self._batch_size = size
            _log.info("embedding.batch_halved", endpoint=self._label, texts=size)

    async def _embed_cut(self, text: str, kind: TextKind, error: EmbeddingError) -> Vectors:
        """Embed a text that was refused once more, then its beginning, as much as is accepted."""
        # A text is not to blame where the endpoint refuses everything, or had a fault for a moment.
        await self._request([PLAIN_TEXT], kind)
        self._refused_count += 1
        candidate = text
        while candidate:
            try:
                return await self._request([candidate], kind)
            except EmbeddingError as next_error:
                if not _is_about_texts(next_error):
                    raise
            candidate = candidate[: len(candidate) // 2] if len(candidate) > MIN_CUT_CHARACTERS else ""
        _log.warning("embedding.text_refused", error=str(error), begins=text[:60])
        return np.full((1, self.dimension), np.nan, np.float32)

    async def _request(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        inputs = [self._instructions.apply(replace_surrogates(text), kind) for text in texts]
        rows = await self._ask(inputs, kind)
        # Many numbers take milliseconds; those of a question take less than a thread.
        return self._to_vectors(rows) if len(rows) == 1 else await asyncio.to_thread(self._to_vectors, rows)

    async def _ask(self, inputs: Sequence[str], kind: TextKind) -> Sequence[Sequence[float]]:
        """Send one request; one that comes too soon is sent again when the endpoint says."""
        fields = self._instructions.fields.get(kind)
        for wait_count in range(MAX_WAITS + 1):
            try:
                # A question does not wait for bulk jobs.
                async with nullcontext() if kind == "query" else self._slots, asyncio.timeout(TIMEOUT_S):
                    return await self._client.embed(self._model, inputs, fields)
            except TimeoutError as error:
                late_error = EmbeddingError(f"{self._label} took over {TIMEOUT_S:g} s for {len(inputs)} texts")
                late_error.is_timeout = True
                raise late_error from error
            except EmbeddingError as error:
                wait_s = FIRST_WAIT_S * 2**wait_count if error.retry_after is None else error.retry_after
                if error.status not in BUSY_STATUSES or wait_s > MAX_WAIT_S:
                    raise
                if kind == "query" or wait_count == MAX_WAITS:
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    def _to_vectors(self, rows: Sequence[Sequence[float]]) -> Vectors:
        for length in {len(row) for row in rows} - {self.dimension}:
            raise EmbeddingError(
                f"{self._label} sends vectors of {length} numbers, but knowledge.embedding.dimension is "
                f"{self.dimension}; correct it and rebuild the knowledge"
            )
        vectors = normalize(np.array(rows, np.float32))
        if not np.isfinite(vectors).all():
            error = EmbeddingError(f"{self._label} sent a vector without a direction")
            error.is_unusable = True
            raise error
        return vectors


def _is_about_texts(error: EmbeddingError) -> bool:
    """Return whether other texts, or fewer, may do better: they were refused, or have no vector each."""
    return error.is_unusable or error.status in REFUSED_STATUSES
