"""Vectors for passages that are stored without, and so are found by words alone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from knowledge.embedding.batches import get_embedded_text
from knowledge.ports import Embedder, PassageRow, Store, StoredDocument

if TYPE_CHECKING:
    from knowledge.stores.locked_store import LockedStore

# Passages that are filled in one commit: some five seconds of work, which a kill costs.
FILL_BATCH_PASSAGES = 256
# A document is written whole for each of its parts: a large one has so many at most.
MAX_PARTS = 8
# Texts per call of the embedder: enough to sort by length and fill its lanes, few enough for a moving progress bar.
EMBED_BATCH_PASSAGES = 128


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many passages a source has, all of them found by words, and how many of them have no vector yet.

    `refused` names the documents of which the model refused passages in this batch, with the reason.
    """

    passages: int
    unfilled: int
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def filled(self) -> int:
        """Return how many passages need no vector any more, most of which have one."""
        return self.passages - self.unfilled


def get_coverage(manifest: Mapping[str, StoredDocument]) -> Coverage:
    """Return the coverage of a source by its manifest."""
    documents = manifest.values()
    passage_count = sum(document.passage_count for document in documents)
    return Coverage(passage_count, sum(document.unfilled_count for document in documents))


@dataclass(slots=True)
class Backlog:
    """What a source has, and its documents that lack vectors, with how many each lacks.

    It is read from the manifest once for many batches: a source may have hundreds of thousands of documents.
    """

    passages: int
    unfilled: int
    documents: deque[tuple[str, int]]

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, StoredDocument]) -> Backlog:
        """Return the backlog of a source by its manifest."""
        coverage = get_coverage(manifest)
        documents = ((path, document.unfilled_count) for path, document in manifest.items() if document.unfilled_count)
        return cls(coverage.passages, coverage.unfilled, deque(documents))

    @property
    def coverage(self) -> Coverage:
        """Return the coverage of the source."""
        return Coverage(self.passages, self.unfilled)

    def take_documents(self) -> Sequence[str]:
        """Take enough documents for a batch out of the backlog, and return their paths."""
        paths = list[str]()
        count = 0
        while self.documents and count < FILL_BATCH_PASSAGES:
            path, unfilled_count = self.documents.popleft()
            paths.append(path)
            count += unfilled_count
        self.unfilled -= count
        return paths

    def put_back(self, rows: Sequence[PassageRow]) -> None:
        """Put documents back of which some passages still lack vectors."""
        for path, count in Counter(row.passage.path for row in rows if row.vector is None).items():
            self.documents.appendleft((path, count))
            self.unfilled += count


async def fill(source: str, store: Store | LockedStore, embedder: Embedder) -> None:
    """Make all vectors that a source lacks. Raises `EmbeddingError`, `StoreError`."""
    backlog = Backlog.from_manifest(await store.manifest(source))
    while backlog.unfilled:
        await fill_batch(source, backlog, store, embedder)


async def fill_batch(
    source: str,
    backlog: Backlog,
    store: Store | LockedStore,
    embedder: Embedder,
    on_progress: Callable[[Coverage], None] = lambda _: None,
) -> Coverage:
    """Give some passages of a source their vectors, and return what it has then. Hold the source's lock around it.

    Raises `EmbeddingError`, `StoreError`; nothing is changed then, but the backlog is of no use any more.
    """
    coverage = backlog.coverage
    on_progress(coverage)
    paths = backlog.take_documents()
    if not paths:
        return coverage
    rows = await store.rows(source, paths)

    def report(embedded_count: int) -> None:
        on_progress(replace(coverage, unfilled=coverage.unfilled - embedded_count))

    # Of a large document a part that grows with it: each time all of it is written.
    rows = await embed_rows(rows, embedder, report, max(FILL_BATCH_PASSAGES, len(rows) // MAX_PARTS))
    await store.replace(source, paths, rows)
    backlog.put_back(rows)
    if not backlog.unfilled:
        await store.optimize()
    return replace(backlog.coverage, refused=find_refused(rows))


async def embed_rows(
    rows: Sequence[PassageRow], embedder: Embedder, on_progress: Callable[[int], None], limit: int | None = None
) -> Sequence[PassageRow]:
    """Return the rows with their vectors, of which at most `limit` are made.

    The vector of a text that the model refuses is zero: it is found by words alone. `on_progress` receives how many are
    made. Raises `EmbeddingError`.
    """
    filled_rows = list(rows)
    indices = [index for index, row in enumerate(rows) if row.vector is None][:limit]
    for start in range(0, len(indices), EMBED_BATCH_PASSAGES):
        batch = indices[start : start + EMBED_BATCH_PASSAGES]
        vectors = await embedder.embed([get_embedded_text(rows[index].passage) for index in batch])
        for index, vector in zip(batch, vectors, strict=True):
            is_refused = not np.isfinite(vector).all()
            filled_rows[index] = replace(rows[index], vector=np.zeros_like(vector) if is_refused else vector)
        on_progress(start + len(batch))
    return filled_rows


def find_refused(rows: Sequence[PassageRow]) -> Mapping[str, str]:
    """Return the documents of which the model refused passages, with the reason."""
    refused_paths = [row.passage.path for row in rows if row.vector is not None and not row.vector.any()]
    return {
        path: f"the embedding model refuses {count} of its passages, which are found by words alone"
        for path, count in Counter(refused_paths).items()
    }
