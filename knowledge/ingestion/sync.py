"""Incremental refresh of one source: what changed is read, chunked and swapped in.

Tasks work side by side: documents are read and chunked, batches are written. A batch holds whole documents and is
one commit. New documents are written as they come: an interrupted refresh keeps these batches, and the next one
continues from there. Replacements and deletions wait for the end and are one commit, so that no answer mixes two
editions of a source. Vectors are made afterwards (`filling`).
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from core.evidence.ranking import NON_CODE_KINDS
from core.language.languages import get_main_languages, identify_document_language
from core.observability.logs import get_logger
from core.runtime.tasks import task_group
from core.types import Passage
from knowledge.chunking import TokenizedChunk, chunk_and_tokenize
from knowledge.ingestion.filling import Coverage, find_refused, get_coverage
from knowledge.ingestion.schedule import INDEX_FORMAT
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, LargeSource, Listing, PassageRow, Source, Store, StoredDocument
from knowledge.stores.locked_store import LockedStore

_log = get_logger(__name__)

BATCH_PASSAGES = 2000
# Changed passages are kept in memory until the end, about 4 kB each; more than this many go into several commits.
SWAP_PASSAGES = 20_000
# The language of a document is that of its first passages.
LANGUAGE_CHUNKS = 3
# More than there are worker processes: none waits while the next document is fetched.
CHUNKED_AT_ONCE = 4
# Chunking holds the interpreter, and searches in other threads took twice as long. After a document that is there in an
# earlier state, a throttled refresh sleeps this many times as long as it has just worked.
THROTTLE_FACTOR = 2.0

Stage = Literal["listing", "reading", "embedding", "done"]


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """The progress of a refresh, or of the filling after it.

    `documents` counts those that have to be read, `passages` those that were read so far. While they are embedded,
    `passages` are all of the source, and `filled` those found by meaning, too.
    """

    source: str
    stage: Stage
    documents_done: int
    documents_total: int
    passages: int
    filled: int = 0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The changes of a refresh, in documents. `passages` is how many the source holds now; `stale` as in `Listing`.

    `unfilled` of the passages have no vector yet.

    `repaired` counts the documents that were read again because the store had lost passages of theirs. `unreadable`
    names every document of the source that could not be read or cut, with the reason. `languages` are the
    codes of those that its documents are in, as far as this refresh and earlier ones read them. `is_refused` as in
    `Listing`.
    """

    name: str
    added: int
    updated: int
    deleted: int
    unchanged: int
    passages: int
    skipped: Mapping[str, int]
    stale: str
    seconds: float
    unreadable: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    repaired: int = 0
    unfilled: int = 0
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class _ChunkedDocument:
    """A document cut into passages."""

    path: str
    rows: Sequence[PassageRow]


@dataclass(slots=True)
class _Batch:
    """Whole documents on their way into the store."""

    rows: list[PassageRow] = field(default_factory=list)
    empty: dict[str, str] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def merge(self, other: _Batch) -> None:
        """Add what another batch holds."""
        self.rows += other.rows
        self.empty |= other.empty
        self.paths |= other.paths


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How a source is refreshed.

    `chunk_tokens` is the length of a passage. `link` is the template of the source's links: when it changes, every
    document is read again. A batch of new documents is written when it holds about `batch_passages`, a batch of changed
    ones at about `swap_passages`. For a source that was empty, `on_first_batch` is awaited as soon as there is
    something to find. `throttled` is for processes that answer questions at the same time. `parser` cuts the documents.
    One that cannot be read is skipped until it changes: `known_unreadable` are those of earlier refreshes, and
    `known_languages` the languages of their documents.
    """

    chunk_tokens: int
    link: str = ""
    on_progress: Callable[[SyncProgress], None] | None = None
    on_first_batch: Callable[[], Awaitable[None]] | None = None
    batch_passages: int = BATCH_PASSAGES
    swap_passages: int = SWAP_PASSAGES
    throttled: bool = False
    parser: Parser = field(default_factory=ThreadParser)
    known_unreadable: Mapping[str, str] = field(default_factory=dict)
    known_languages: Sequence[str] = ()


async def refresh(source: Source, store: Store | LockedStore, options: SyncOptions) -> SyncReport:
    """Bring a source's passages up to date. Hold `refresh_lock` around it.

    What is not written in a batch before, and all deletions, are one commit at the end. Raises `SourceError`
    or `StoreError`; what was written before stays, and is complete per document.
    """
    if isinstance(source, LargeSource) and not await store.manifest(source.name):
        beginning = await source.beginning()
        if beginning:
            return await _read_in_two_steps(source, beginning, store, options)
    return await _Refresh(source, store, options).run()


async def _read_in_two_steps(
    source: Source, beginning: Listing, store: Store | LockedStore, options: SyncOptions
) -> SyncReport:
    """Read some documents of a source that was empty, so that they are found, and then all; return one report."""
    first_options = replace(options, on_progress=None)
    first = await _Refresh(_Listed(source.name, source, beginning), store, first_options).run()
    # It was empty, and is wanted soon.
    options = replace(options, throttled=False, known_unreadable=first.unreadable, known_languages=first.languages)
    report = await _Refresh(source, store, options).run()
    added_count = report.added + report.updated + report.unchanged
    seconds = first.seconds + report.seconds
    return replace(report, added=added_count, updated=0, deleted=0, unchanged=0, seconds=seconds)


@dataclass(slots=True)
class _Listed:
    """Implements `Source`: a part of another one, which has been listed."""

    name: str
    source: Source
    listed: Listing

    async def listing(self) -> Listing:
        return self.listed

    def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        return self.source.documents(listing, paths)


@dataclass(slots=True)
class _Refresh:
    """A running refresh: its inputs, then its state so far."""

    source: Source
    store: Store | LockedStore
    options: SyncOptions
    started_at: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 (tests replace the clock)
    target_fingerprints: Mapping[str, str] = field(default_factory=dict)
    stored_documents: Mapping[str, StoredDocument] = field(default_factory=dict)
    read_paths: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)
    language_counts: Counter[str] = field(default_factory=Counter)
    has_deletions: bool = False
    has_passages: bool = False
    changed_count: int = 0
    read_count: int = 0

    async def run(self) -> SyncReport:
        self._report_stage("listing")
        listing = await self.source.listing()
        # Fingerprints stand for content alone.
        link = self.options.link
        suffix = f":{INDEX_FORMAT}:{self.options.chunk_tokens}" + (
            f":{hashlib.sha256(link.encode()).hexdigest()[:8]}" if link else ""
        )
        self.target_fingerprints = {path: text + suffix for path, text in listing.fingerprints.items()}
        self.stored_documents = await self.store.manifest(self.source.name)
        self.has_passages = any(document.passage_count for document in self.stored_documents.values())
        stored_fingerprints = {path: document.fingerprint for path, document in self.stored_documents.items()}
        changed_paths = [
            path
            for path, fingerprint in self.target_fingerprints.items()
            if stored_fingerprints.get(path) != fingerprint
        ]
        deleted_paths = stored_fingerprints.keys() - self.target_fingerprints.keys()
        self.changed_count = len(changed_paths)
        # Documents that are read again are checked anew.
        unchanged_paths = self.target_fingerprints.keys() - set(changed_paths)
        known_reasons = self.options.known_unreadable.items()
        self.unreadable = {path: reason for path, reason in known_reasons if path in unchanged_paths}
        # A document that has only moved is a new one and a deleted one: both belong into one step.
        self.has_deletions = bool(deleted_paths)
        if changed_paths or deleted_paths:
            self._report_stage("reading")
            await self._update(listing, changed_paths, deleted_paths)
        self._report_stage("done")
        coverage = get_coverage(await self.store.manifest(self.source.name))
        return self._make_report(listing, deleted_paths, coverage)

    async def _update(self, listing: Listing, changed_paths: Collection[str], deleted_paths: Collection[str]) -> None:
        chunked_documents: asyncio.Queue[asyncio.Task[_ChunkedDocument] | None] = asyncio.Queue(CHUNKED_AT_ONCE)
        batches: asyncio.Queue[_Batch | None] = asyncio.Queue(1)
        async with task_group() as tasks:
            tasks.create_task(self._chunk_documents(listing, changed_paths, chunked_documents, tasks))
            tasks.create_task(self._batch_documents(chunked_documents, batches, deleted_paths))
            tasks.create_task(self._write_batches(batches))

    async def _chunk_documents(
        self,
        listing: Listing,
        changed_paths: Collection[str],
        chunked_documents: asyncio.Queue[asyncio.Task[_ChunkedDocument] | None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        if changed_paths:
            async for document in self.source.documents(listing, changed_paths):
                started_at = time.monotonic()
                task = tasks.create_task(self._chunk_document(document))
                # What answers do not have yet is wanted soon, also where a stop has broken a first reading off.
                if self.options.throttled and document.path in self.stored_documents:
                    await task
                    await asyncio.sleep(THROTTLE_FACTOR * (time.monotonic() - started_at))
                await chunked_documents.put(task)
        await chunked_documents.put(None)

    async def _chunk_document(self, document: Document) -> _ChunkedDocument:
        """Chunk a document; one that cannot be read has no passages, is named in the report, and stops no others."""
        reason = document.unreadable_reason
        chunks = list[TokenizedChunk]()
        if not reason:
            parser = self.options.parser
            chunk_tokens = self.options.chunk_tokens
            try:
                chunks = await parser.run(chunk_and_tokenize, document, chunk_tokens, parser.max_passages)
            except FormatError as error:
                reason = str(error)
        if reason:
            self.unreadable[document.path] = reason
            _log.warning("document.unreadable", source=self.source.name, path=document.path, reason=reason)
        sample = "\n".join(chunk.text for chunk in chunks[:LANGUAGE_CHUNKS])
        if language := identify_document_language(sample, is_prose=document.kind in NON_CODE_KINDS):
            self.language_counts[language] += 1
        fingerprint = self.target_fingerprints[document.path]
        return _ChunkedDocument(document.path, _to_rows(self.source.name, document, chunks, fingerprint))

    async def _batch_documents(
        self,
        chunked_documents: asyncio.Queue[asyncio.Task[_ChunkedDocument] | None],
        batches: asyncio.Queue[_Batch | None],
        deleted_paths: Collection[str],
    ) -> None:
        new_batch = _Batch()
        swap_batch = _Batch()
        while (task := await chunked_documents.get()) is not None:
            document = await task
            is_swapped = self.has_deletions or document.path in self.stored_documents
            batch = swap_batch if is_swapped else new_batch
            batch.paths.add(document.path)
            batch.rows += document.rows
            if not document.rows:
                batch.empty[document.path] = self.target_fingerprints[document.path]
            self.read_paths.add(document.path)
            self.read_count += len(document.rows)
            self._report_stage("reading")
            if len(new_batch.rows) >= self.options.batch_passages:
                await batches.put(new_batch)
                new_batch = _Batch()
            if len(swap_batch.rows) >= self.options.swap_passages:
                await batches.put(swap_batch)
                swap_batch = _Batch()
        swap_batch.merge(new_batch)
        swap_batch.paths.update(deleted_paths)
        await batches.put(swap_batch)
        await batches.put(None)

    async def _write_batches(self, batches: asyncio.Queue[_Batch | None]) -> None:
        while (batch := await batches.get()) is not None:
            rows = await self._add_vectors(batch)
            await self.store.replace(self.source.name, batch.paths, rows, batch.empty)
            # After every batch: questions are answered from what is there already.
            await self.store.optimize()
            if self.options.on_first_batch and not self.has_passages and batch.rows:
                await self.options.on_first_batch()
            self.has_passages = self.has_passages or bool(batch.rows)

    async def _add_vectors(self, batch: _Batch) -> Sequence[PassageRow]:
        """Return the rows of a batch, with the vectors of passages that have not changed."""
        changed_paths = [path for path in batch.paths if path in self.stored_documents]
        stored_rows = await self.store.rows(self.source.name, changed_paths) if changed_paths else ()
        vectors = {(row.passage.path, row.passage.title, row.passage.text): row.vector for row in stored_rows}
        rows = [
            replace(row, vector=vectors.get((row.passage.path, row.passage.title, row.passage.text)))
            for row in batch.rows
        ]
        self.unreadable |= find_refused(rows)
        return rows

    def _report_stage(self, stage: Stage) -> None:
        counts = (len(self.read_paths), self.changed_count, self.read_count)
        if self.options.on_progress:
            self.options.on_progress(SyncProgress(self.source.name, stage, *counts))

    def _make_report(self, listing: Listing, deleted_paths: Collection[str], coverage: Coverage) -> SyncReport:
        updated_count = len(self.read_paths & self.stored_documents.keys())
        repaired_paths = self.stored_documents.keys() & self.target_fingerprints.keys()
        return SyncReport(
            name=self.source.name,
            added=len(self.read_paths) - updated_count,
            updated=updated_count,
            deleted=len(deleted_paths),
            unchanged=len(self.target_fingerprints) - self.changed_count,
            passages=coverage.passages,
            skipped=dict(listing.skipped),
            stale=listing.stale,
            seconds=time.monotonic() - self.started_at,
            unreadable={**listing.unreadable, **self.unreadable},
            languages=self._merge_languages(),
            repaired=sum(self.stored_documents[path].is_damaged for path in repaired_paths),
            unfilled=coverage.unfilled,
            is_refused=listing.is_refused,
        )

    def _merge_languages(self) -> tuple[str, ...]:
        """Return the languages of this refresh's documents, after those of the documents that it did not read."""
        has_unread = len(self.target_fingerprints) > self.changed_count
        known_languages = self.options.known_languages if has_unread else ()
        return tuple(dict.fromkeys((*known_languages, *get_main_languages(self.language_counts))))


def _to_rows(
    source: str, document: Document, chunks: Sequence[TokenizedChunk], fingerprint: str
) -> Sequence[PassageRow]:
    """Return the passages of a document, without vectors.

    Those that share lines (of a long line, or of what a page includes) have none: what stands beside them is unknown.
    """
    rows = []
    last_lines = [0, *accumulate((text_chunk.end_line for text_chunk in chunks), max)]
    next_lines = [*(text_chunk.start_line for text_chunk in chunks[1:]), sys.maxsize]
    for ordinal, text_chunk in enumerate(chunks):
        has_lines = last_lines[ordinal] < text_chunk.start_line and text_chunk.end_line < next_lines[ordinal]
        passage = Passage(
            id=make_passage_id(source, document.path, ordinal),
            source=source,
            path=document.path,
            title=text_chunk.title,
            text=text_chunk.text,
            url=document.get_link(text_chunk.start_line, text_chunk.end_line),
            kind=text_chunk.kind,
            start_line=text_chunk.start_line if has_lines else 0,
            end_line=text_chunk.end_line if has_lines else 0,
        )
        rows.append(PassageRow(passage, fingerprint, text_chunk.tokens))
    return rows


def make_passage_id(source: str, path: str, ordinal: int) -> str:
    """Return the id of a document's passage: the same on every machine and after every refresh, 16 hex digits."""
    return hashlib.sha256(f"{source}\0{path}\0{ordinal}".encode()).hexdigest()[:16]
