"""What a refresh costs beside its embedding: the same texts embedded alone, and listed, read, cut, embedded, committed.

Both in one process, turn by turn, so that a machine that gets busier meanwhile slows both. The embedder alone is given
all texts at once, which is the best case for it: it sorts them by length.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from core.settings import EmbeddingSettings, GitSource
from knowledge.embedding import open_embedder
from knowledge.ingestion.sync import SyncOptions, SyncReport
from knowledge.ports import Embedder, TextKind, Vectors
from knowledge.sources.factory import open_source
from knowledge.stores.locked_store import LockedStore
from knowledge.stores.sqlite.store import open_sqlite
from tests.lab.benchmarks.corpus import repository_of_500_files
from tests.lab.benchmarks.figures import Figure
from tests.support.knowledge import read_and_fill

ROUNDS = 3
CHUNK_TOKENS = 200
# About 850 passages: less than one batch, so that the commit at the end has nothing to hide behind.
INCLUDED = ["src/module_?.py", "src/module_??.py", "docs/page_?.md"]
# The embedder's own rate within 15%: so many times its own time at most.
PROMISED = 1 / 0.85


@dataclass
class RecordingEmbedder:
    """Implements `Embedder`: hands everything on, and keeps the texts."""

    embedder: Embedder
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.embedder.name
        self.dimension = self.embedder.dimension
        self.vocabulary_coverage = self.embedder.vocabulary_coverage
        self.close = self.embedder.close

    async def warm_up(self) -> None:
        await self.embedder.warm_up()

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        self.texts += texts
        return await self.embedder.embed(texts)


@dataclass
class Spent:
    """What the rounds of one kind took together: seconds, and seconds of all processors."""

    seconds: float = 0.0
    processor: float = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Add what the block takes."""
        started_at = time.perf_counter()
        worked = time.process_time()
        yield
        self.seconds += time.perf_counter() - started_at
        self.processor += time.process_time() - worked


async def measure(folder: Path) -> list[Figure]:
    if not (folder / "repository").exists():
        await asyncio.to_thread(repository_of_500_files, folder / "repository")
    embedder = await open_embedder(EmbeddingSettings(), folder / "data" / "models")
    loaded = os.getloadavg()[0]
    try:
        # The first one is not counted: it imports what the others find loaded.
        overheard = RecordingEmbedder(embedder)
        await _refresh_once(folder, overheard, 0)
        alone_time = Spent()
        whole_time = Spent()
        for number in range(1, ROUNDS + 1):
            with alone_time.measured():
                await embedder.embed(overheard.texts)
            with whole_time.measured():
                report = await _refresh_once(folder, embedder, number)
            assert report.passages == len(overheard.texts), report
    finally:
        await embedder.close()
    passages = len(overheard.texts)
    return [
        Figure("sustained: load average before", loaded, ""),
        Figure("sustained: passages", passages, "passages"),
        Figure("sustained: the embedder alone, a second", ROUNDS * passages / alone_time.seconds, "passages"),
        Figure("sustained: a whole refresh, a second", ROUNDS * passages / whole_time.seconds, "passages"),
        Figure(
            "sustained: time of the refresh over that of the embedder",
            whole_time.seconds / alone_time.seconds,
            "x",
            PROMISED,
        ),
        Figure("sustained: the same of the processors' time", whole_time.processor / alone_time.processor, "x"),
    ]


async def _refresh_once(folder: Path, embedder: Embedder, number: int) -> SyncReport:
    """Refresh from nothing into files of its own; return how that went."""
    directory = folder / "sustained" / str(number)
    settings = GitSource(kind="git", url=str(folder / "repository"), include=INCLUDED)
    store = await open_sqlite(directory / "passages", embedder.name, embedder.dimension)
    try:
        turns = LockedStore(store, directory)
        source = open_source("code", settings, directory)
        return await read_and_fill(source, turns, embedder, SyncOptions(CHUNK_TOKENS))
    finally:
        await store.close()
