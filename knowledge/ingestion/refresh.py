"""Refreshing sources: one of a name at a time in all processes, each failure its own, and all of it on record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import EmbeddingError, KimasError, SourceError, StoreError, StoreLocked
from core.observability.logs import logger
from core.runtime.locks import source_lock
from core.settings import FaqSource, LinkedSource, SourceSettings
from knowledge.ingestion.garbage_collection import forget_removed
from knowledge.ingestion.stored_sources import made_by, stored
from knowledge.ingestion.sync import Progress, SyncReport, refresh
from knowledge.ports import Document, Embedder, Listing, Source, Store
from knowledge.sources.factory import open_source
from knowledge.stores.locked_store import WritesInTurn

if TYPE_CHECKING:
    from core.storage.refresh_state import UpkeepRecord

# Takes the names of the sources whose knowledge may have changed, at least one.
News = Callable[[Collection[str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did: a report per source that worked, and the reason by name for each that did not."""

    reports: tuple[SyncReport, ...]
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Refreshing:
    """What refreshes work with. `record` takes note of them; `hide` takes the secrets out of what it is told.

    `gently` is for processes that answer questions meanwhile.
    """

    sources: Mapping[str, SourceSettings]
    store: Store
    embedder: Embedder
    data_dir: Path
    chunk_tokens: int
    record: UpkeepRecord | None = None
    hide: Callable[[str], str] = str
    gently: bool = False


async def refresh_source(
    work: Refreshing,
    name: str,
    *,
    progress: Callable[[Progress], None] | None = None,
    news: News | None = None,
    turn: asyncio.Semaphore | None = None,
) -> SyncReport:
    """Bring one source up to date, and note on record how that went.

    `news` is awaited early in a source that held nothing, with its name. `turn` is taken once the source is listed: who
    waits for a slow server takes nobody's. A source whose remote cannot be reached counts as failed on record. Raises
    `SourceError`, `EmbeddingError`, `StoreError`, and `StoreLocked` when another process is at it, which is not put on
    record.
    """
    settings = work.sources[name]
    async with source_lock(work.data_dir, name):
        if work.record:
            await work.record.begin(name, made_by(settings, work.chunk_tokens))
        try:
            async with _InTurn(open_source(name, settings, work.data_dir, work.sources), turn) as source:
                report = await _brought_up(work, source, settings, progress, partial(news, [name]) if news else None)
        except (asyncio.CancelledError, StoreLocked):
            if work.record:
                await work.record.broken_off(name)
            raise
        except Exception as fault:
            await _note_failure(work, name, str(fault) or type(fault).__name__)
            raise
        await _note_success(work, report)
    return report


async def _brought_up(
    work: Refreshing,
    source: Source,
    settings: SourceSettings,
    progress: Callable[[Progress], None] | None,
    first_batch: Callable[[], Awaitable[None]] | None,
) -> SyncReport:
    return await refresh(
        source,
        WritesInTurn(work.store, work.data_dir),
        work.embedder,
        chunk_tokens=work.chunk_tokens,
        link=settings.link if isinstance(settings, LinkedSource | FaqSource) else "",
        progress=progress,
        first_batch=first_batch,
        gently=work.gently,
    )


async def refresh_sources(
    work: Refreshing,
    names: Collection[str] = (),
    *,
    progress: Callable[[Progress], None] | None = None,
    news: News | None = None,
) -> Refreshed:
    """Bring the named sources up to date, one after the other; without names all that are stored.

    The latter also forgets the sources that are no longer configured. A source that fails keeps its old knowledge and
    does not stop the others, and so does one that another process is refreshing. `news` is awaited with the name of
    every source that may have changed, early in one that held nothing, and at the end with all others, which another
    process may have changed. Raises `UsageError`, `StoreError`, `StoreLocked` when other processes are at all of them.
    """
    chosen = stored(work.sources, names)
    untold = list(chosen)
    if not names:
        await forget_removed(work.store, work.data_dir, chosen, work.record)
    reports, failures = list[SyncReport](), dict[str, KimasError]()
    for name in chosen:
        changed = True
        try:
            report = await refresh_source(work, name, progress=progress, news=news)
        except (SourceError, EmbeddingError, StoreLocked) as fault:
            logger(__name__).error("source.failed", source=name, error=str(fault))
            failures[name] = fault
        else:
            reports.append(report)
            changed = has_changed(report)
        if news and changed:
            await news([name])
            untold.remove(name)
    if news and untold:
        await news(untold)
    locked = [fault for fault in failures.values() if isinstance(fault, StoreLocked)]
    if locked and len(locked) == len(chosen):
        raise locked[0]
    return Refreshed(tuple(reports), {name: str(fault) for name, fault in failures.items()})


def has_changed(report: SyncReport) -> bool:
    """Tell whether a refresh changed any document."""
    return bool(report.added or report.updated or report.deleted)


async def _note_success(work: Refreshing, report: SyncReport) -> None:
    if report.stale:
        logger(__name__).warning("source.stale", source=report.name, reason=report.stale)
    if work.record is None:
        return
    documents = report.added + report.updated + report.unchanged
    if report.stale:
        error = work.hide(f"not up to date: {report.stale}")
        changed, passages = has_changed(report), report.passages
        await work.record.failed(report.name, error, passages=passages, documents=documents, changed=changed)
        return
    numbers = {name: getattr(report, name) for name in ("added", "updated", "deleted", "unchanged")}
    counts = {**numbers, "skipped": dict(report.skipped), "seconds": round(report.seconds, 3)}
    await work.record.succeeded(
        report.name, passages=report.passages, documents=documents, counts=counts, changed=has_changed(report)
    )


async def _note_failure(work: Refreshing, name: str, error: str) -> None:
    if work.record is None:
        return
    before = await work.record.entry(name)
    passages, documents = before.passages, before.documents
    try:
        held = await work.store.manifest(name)
        passages, documents = sum(one.passages for one in held.values()), len(held)
    except StoreError as fault:
        logger(__name__).warning("source.not_counted", source=name, error=str(fault))
    changed = (passages, documents) != (before.passages, before.documents)
    await work.record.failed(name, work.hide(error), passages=passages, documents=documents, changed=changed)


class _InTurn:
    """A source that, once listed, waits for its turn to be read; the turn ends with the block."""

    def __init__(self, source: Source, turn: asyncio.Semaphore | None) -> None:
        self.name = source.name
        self._source = source
        self._turn = turn
        self._taken = False

    async def __aenter__(self) -> Source:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._turn and self._taken:
            self._turn.release()

    async def listing(self) -> Listing:
        listing = await self._source.listing()
        if self._turn:
            await self._turn.acquire()
            self._taken = True
        return listing

    def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        return self._source.documents(listing, paths)
