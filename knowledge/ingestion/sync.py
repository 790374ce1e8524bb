"""Incremental refresh of one source: what changed is read, chunked, embedded and swapped in.

Three tasks work side by side: documents are read and chunked, passages are embedded, batches are written. A batch holds
whole documents and is one commit. Documents that were not held before are written as they come: a refresh that is
interrupted keeps these batches, and the next one goes on from there. What replaces or deletes something that is held
waits for the end and is one commit, so that nobody is answered from two editions of a source.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from core.runtime.tasks import task_group
from core.text.tokens import lexical_tokens
from core.types import Passage
from knowledge.chunking import chunk
from knowledge.ingestion.stored_sources import FORMAT
from knowledge.ports import Document, Embedder, Held, Listing, Row, Source, Store

BATCH_PASSAGES = 2000
# What waits to be swapped in is kept in memory, some 4 kB a passage; more than this is swapped in several commits.
SWAP_PASSAGES = 20_000
# Texts per call of the embedder: enough to sort by length and fill its lanes, few enough for a moving progress bar.
EMBED_PASSAGES = 128
DOCUMENTS_AHEAD = 64
# Cutting documents is work of the interpreter, for which searches in other threads wait again and again: they took
# twice as long. So many times as long as it had it a gentle refresh leaves it to them; embedding takes longer still.
REST = 2.0

Stage = Literal["listing", "embedding", "writing", "done"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a refresh has come. Documents are those that have to be read; the rate is of this refresh so far."""

    source: str
    stage: Stage
    documents_done: int
    documents_total: int
    passages: int
    passages_per_second: float


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a refresh changed, in documents. `passages` is how many the source holds now; `stale` as in `Listing`."""

    name: str
    added: int
    updated: int
    deleted: int
    unchanged: int
    passages: int
    skipped: Mapping[str, int]
    stale: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A document cut into passages, each with the text to embed and its lexical tokens."""

    path: str
    passages: tuple[tuple[Passage, str, str], ...]


@dataclass(slots=True)
class _Batch:
    """Whole documents on their way into the store."""

    rows: list[Row] = field(default_factory=list)
    empty: dict[str, str] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def take(self, other: _Batch) -> None:
        """Add what another batch holds."""
        self.rows += other.rows
        self.empty |= other.empty
        self.paths |= other.paths


async def refresh(
    source: Source,
    store: Store,
    embedder: Embedder,
    *,
    chunk_tokens: int,
    link: str = "",
    progress: Callable[[Progress], None] | None = None,
    first_batch: Callable[[], Awaitable[None]] | None = None,
    batch_passages: int = BATCH_PASSAGES,
    swap_passages: int = SWAP_PASSAGES,
    gently: bool = False,
) -> SyncReport:
    """Bring a source's passages up to date. Hold `refresh_lock` around it.

    `link` is what the source makes its links with: with another one every document is read again. A batch of new
    documents is written when it holds `batch_passages`, one of changed documents with `swap_passages`, give or take
    those that are embedded together; the rest and all deletions in one commit at the end. When the source held nothing
    before, `first_batch` is awaited as soon as there is something to find. `gently` is for processes that answer
    questions meanwhile.
    Raises `SourceError`, `EmbeddingError` or `StoreError`; what was written before stays, and is complete per document.
    """
    report = progress or (lambda _: None)
    # Fingerprints stand for content alone.
    suffix = f":{FORMAT}:{chunk_tokens}" + (f":{hashlib.sha256(link.encode()).hexdigest()[:8]}" if link else "")
    sizes = (batch_passages, swap_passages)
    rest = REST if gently else 0.0
    return await _Refresh(source, store, embedder, chunk_tokens, suffix, *sizes, rest, report, first_batch).run()


@dataclass(slots=True)
class _Refresh:
    """One refresh while it runs: what it works with, then what it knows so far."""

    source: Source
    store: Store
    embedder: Embedder
    chunk_tokens: int
    suffix: str
    batch_passages: int
    swap_passages: int
    rest: float
    report: Callable[[Progress], None]
    first_batch: Callable[[], Awaitable[None]] | None
    began: float = field(default_factory=time.monotonic)
    wanted: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, Held] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    moving: bool = False
    total: int = 0
    embedded: int = 0

    async def run(self) -> SyncReport:
        self._tell("listing")
        listing = await self.source.listing()
        self.wanted = {path: fingerprint + self.suffix for path, fingerprint in listing.fingerprints.items()}
        self.held = await self.store.manifest(self.source.name)
        known = {path: held.fingerprint for path, held in self.held.items()}
        changed = [path for path, fingerprint in self.wanted.items() if known.get(path) != fingerprint]
        deleted = known.keys() - self.wanted.keys()
        self.total = len(changed)
        # A document that has only moved is a new one and a deleted one: both belong into one step.
        self.moving = bool(deleted)
        if changed or deleted:
            await self._update(listing, changed, deleted)
        self._tell("done")
        return self._summary(listing, deleted)

    async def _update(self, listing: Listing, changed: Collection[str], deleted: Collection[str]) -> None:
        prepared: asyncio.Queue[_Prepared | None] = asyncio.Queue(DOCUMENTS_AHEAD)
        batches: asyncio.Queue[_Batch | None] = asyncio.Queue(1)
        async with task_group() as tasks:
            tasks.create_task(self._prepare(listing, changed, prepared))
            tasks.create_task(self._embed(prepared, batches, deleted))
            tasks.create_task(self._write(batches))

    async def _prepare(
        self, listing: Listing, changed: Collection[str], prepared: asyncio.Queue[_Prepared | None]
    ) -> None:
        if changed:
            async for document in self.source.documents(listing, changed):
                began = time.monotonic()
                cut = await asyncio.to_thread(_cut, self.source.name, document, self.chunk_tokens)
                await asyncio.sleep(self.rest * (time.monotonic() - began))
                await prepared.put(cut)
        await prepared.put(None)

    async def _embed(
        self,
        prepared: asyncio.Queue[_Prepared | None],
        batches: asyncio.Queue[_Batch | None],
        deleted: Collection[str],
    ) -> None:
        new, swap, waiting = _Batch(), _Batch(), list[_Prepared]()
        while (document := await prepared.get()) is not None:
            waiting.append(document)
            if sum(len(one.passages) for one in waiting) < EMBED_PASSAGES:
                continue
            await self._add(waiting, new, swap)
            waiting = []
            if len(new.rows) >= self.batch_passages:
                await batches.put(new)
                new = _Batch()
            if len(swap.rows) >= self.swap_passages:
                await batches.put(swap)
                swap = _Batch()
        await self._add(waiting, new, swap)
        swap.take(new)
        swap.paths.update(deleted)
        self._tell("writing")
        await batches.put(swap)
        await batches.put(None)

    async def _add(self, documents: Collection[_Prepared], new: _Batch, swap: _Batch) -> None:
        """Embed whole documents into the batch of those that are not held, or of those that are."""
        pieces = [(one.path, *piece) for one in documents for piece in one.passages]
        for start in range(0, len(pieces), EMBED_PASSAGES):
            part = pieces[start : start + EMBED_PASSAGES]
            vectors = await self.embedder.embed([text for _, _, text, _ in part])
            for (path, passage, _, tokens), vector in zip(part, vectors, strict=True):
                batch = swap if self.moving or path in self.held else new
                batch.rows.append(Row(passage, self.wanted[path], tokens, vector))
            self.embedded += len(part)
            self._tell("embedding")
        for document in documents:
            batch = swap if self.moving or document.path in self.held else new
            batch.paths.add(document.path)
            self.done[document.path] = len(document.passages)
            if not document.passages:
                batch.empty[document.path] = self.wanted[document.path]
        self._tell("embedding")

    async def _write(self, batches: asyncio.Queue[_Batch | None]) -> None:
        while (batch := await batches.get()) is not None:
            await self.store.replace(self.source.name, batch.paths, batch.rows, batch.empty)
            # After every batch: a first ingest takes minutes, and questions are answered from what is there already.
            await self.store.optimise()
            if self.first_batch and not self.held and batch.rows:
                await self.first_batch()
                self.first_batch = None

    def _tell(self, stage: Stage) -> None:
        elapsed = time.monotonic() - self.began
        rate = self.embedded / elapsed if elapsed > 0 else 0.0
        self.report(Progress(self.source.name, stage, len(self.done), self.total, self.embedded, rate))

    def _summary(self, listing: Listing, deleted: Collection[str]) -> SyncReport:
        kept = [held.passages for path, held in self.held.items() if path in self.wanted and path not in self.done]
        updated = len(self.done.keys() & self.held.keys())
        return SyncReport(
            name=self.source.name,
            added=len(self.done) - updated,
            updated=updated,
            deleted=len(deleted),
            unchanged=len(self.wanted) - self.total,
            passages=sum(kept) + sum(self.done.values()),
            skipped=dict(listing.skipped),
            stale=listing.stale,
            seconds=time.monotonic() - self.began,
        )


def _cut(source: str, document: Document, chunk_tokens: int) -> _Prepared:
    """Chunk a document. Its title goes into the embedded text, its title and path into the lexical tokens."""
    passages = []
    for ordinal, piece in enumerate(chunk(document, chunk_tokens)):
        title = piece.title or document.title or document.path
        if document.edition:
            title += f" ({document.edition})"
        url = document.url.replace("{start}", str(piece.start_line)).replace("{end}", str(piece.end_line))
        passage = Passage(
            id=passage_id(source, document.path, ordinal),
            source=source,
            path=document.path,
            title=title,
            text=piece.text,
            url=url,
            kind=document.kind,
            start_line=piece.start_line,
            end_line=piece.end_line,
        )
        tokens = lexical_tokens(f"{document.path}\n{title}\n{piece.text}")
        passages.append((passage, f"{title}\n{piece.text}", tokens))
    return _Prepared(document.path, tuple(passages))


def passage_id(source: str, path: str, ordinal: int) -> str:
    """Return the id of a document's passage: the same on every machine and after every refresh, 16 hex digits."""
    return hashlib.sha256(f"{source}\0{path}\0{ordinal}".encode()).hexdigest()[:16]
