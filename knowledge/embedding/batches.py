"""The common part of all embedders: batches of like length, a place for questions beside bulk jobs, unit vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from core.errors import EmbeddingError
from core.runtime.tuning import lower_thread_priority
from core.types import Passage
from knowledge.ports import Vectors

Batch = Sequence[int]  # indices of texts

# Small batches take no longer per text, need a third of the memory, and let questions in sooner.
MAX_BATCH_SIZE = 8
MAX_BATCH_CHARACTERS = 2400
# Bulk jobs use two threads. The third is for questions, which would otherwise wait for a whole batch.
BULK_WORKERS = 2
WORKERS = 3
# Up to this many characters (about 12 passages) a job counts as a question's, not as bulk.
INTERACTIVE_CHARACTERS = 12_000


class ThreadedEncoder:
    """Runs a model's blocking `encode` on threads, in batches; a small job overtakes a big one."""

    def __init__(self, name: str, dimension: int, encode: Callable[[list[str]], Vectors]) -> None:
        self._name = name
        self._dimension = dimension
        self._encode = encode
        self._executor = ThreadPoolExecutor(WORKERS, "embedding", initializer=lower_thread_priority)
        self._bulk_slots = asyncio.Semaphore(BULK_WORKERS)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension). Raises `EmbeddingError`."""
        loop = asyncio.get_running_loop()
        vectors = np.empty((len(texts), self._dimension), np.float32)
        slot = nullcontext() if sum(map(len, texts)) <= INTERACTIVE_CHARACTERS else self._bulk_slots

        async def embed_batch(batch: Batch) -> None:
            async with slot:
                try:
                    batch_vectors = await loop.run_in_executor(
                        self._executor, self._encode, [replace_surrogates(texts[index]) for index in batch]
                    )
                except Exception as error:  # The runtimes' exceptions have no root of their own.
                    raise EmbeddingError(f"{self._name}: {len(batch)} texts could not be embedded: {error}") from error
            vectors[batch] = normalize(batch_vectors)

        await run_batches(BULK_WORKERS, embed_batch, batch_by_length(texts))
        return vectors

    async def close(self) -> None:
        """Finish the batches under way. Idempotent."""
        await asyncio.to_thread(self._executor.shutdown)


def get_embedded_text(passage: Passage) -> str:
    """Return what is embedded of a passage: its title says what the text is about."""
    return f"{passage.title}\n{passage.text}"


def replace_surrogates(text: str) -> str:
    """Return a text that tokenizers and endpoints accept."""
    # Half a surrogate pair, as broken JSON brings it, is no text to a tokenizer or an endpoint.
    return text.encode("utf-8", "replace").decode()


def normalize(vectors: Vectors) -> Vectors:
    """Return the vectors with length 1, NaN where one has no direction. Shape (n, d)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def batch_by_length(texts: Sequence[str]) -> Iterator[Batch]:
    """Yield indices in batches of like length, because a batch costs what its longest text costs."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
    start = 0
    while start < len(order):
        size = min(MAX_BATCH_SIZE, max(1, MAX_BATCH_CHARACTERS // max(1, len(texts[order[start]]))))
        yield order[start : start + size]
        start += size


async def run_batches(concurrency: int, process: Callable[[Batch], Awaitable[None]], batches: Iterable[Batch]) -> None:
    """Run the batches in order, `concurrency` at a time. The first failure ends the others and is raised as it is."""
    pending_batches = iter(batches)

    async def worker() -> None:
        for batch in pending_batches:
            await process(batch)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as error_group:
        error = error_group.exceptions[0]
        raise error from error.__cause__
