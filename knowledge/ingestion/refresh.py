"""Refreshing sources. A source is refreshed once at a time across all processes; one failure does not stop the others;
everything is recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import EmbeddingError, KimasError, MadePrivate, SourceError, StoreError, StoreLocked, is_refusal
from core.formatting import strip_source_prefix
from core.observability.logs import get_logger
from core.runtime.locks import source_lock
from core.settings import JournalSettings, LinkedSource, Settings, SourceSettings
from core.settings.audience import Audiences
from knowledge.ingestion.filling import Backlog, Coverage, fill_batch, get_coverage
from knowledge.ingestion.keeping import KeptTexts, delete_kept_texts, find_closed_documents
from knowledge.ingestion.schedule import (
    FILL_ERROR,
    LANGUAGES,
    REFUSED_SINCE,
    REPAIRED,
    SKIPPED,
    UNFILLED,
    UNREADABLE,
    index_fingerprint,
    is_opened_otherwise,
    stored_sources,
    was_for_others,
)
from knowledge.ingestion.sync import SyncOptions, SyncProgress, SyncReport, refresh
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Embedder, LargeSource, Listing, Source, Store, label_name
from knowledge.sources.common.file_facts import delete_file_facts
from knowledge.sources.factory import open_source
from knowledge.sources.git.state import delete_unused_clones
from knowledge.sources.kept import delete_source_state
from knowledge.stores.labels import write_label
from knowledge.stores.locked_store import LockedStore
from knowledge.web.refusals import KEPT_S, note_refusals

if TYPE_CHECKING:
    from core.storage.leases import Leases
    from core.storage.refresh_state import RefreshStateRepository

_log = get_logger(__name__)


# Receives the names of the sources whose knowledge may have changed (at least one).
ChangeCallback = Callable[[Collection[str]], Awaitable[None]]
# So long a source is filled before what it lacks is read again, and a refresh that is due has its turn.
FILL_TURN_S = 5.0
# Documents deleted in one commit.
DELETE_BATCH_SIZE = 2_000
# How many documents that could not be read the record of a refresh names.
MAX_NAMED_DOCUMENTS = 1_000


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The outcome of a refresh: a report per source that succeeded, and the reason, by name, for each that failed.

    One that was read and could not be filled is in both.
    """

    reports: tuple[SyncReport, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefreshContext:
    """The dependencies of refreshes. `refresh_states` records them; `redact` removes secrets from the recorded errors.

    `throttled` slows the work down in processes that answer questions at the same time. `parser` reads and cuts the
    documents, `journal` is the database with the taught answers, and `audiences` says which of them a source may have.
    With `leases`, other daemons refresh the same sources. `store_place` is that of the store's settings.
    """

    sources: Mapping[str, SourceSettings]
    store: Store
    embedder: Embedder
    data_dir: Path
    chunk_tokens: int
    refresh_states: RefreshStateRepository | None = None
    redact: Callable[[str], str] = str
    throttled: bool = False
    parser: Parser = field(default_factory=ThreadParser)
    journal: JournalSettings = field(default_factory=JournalSettings)
    audiences: Audiences = field(default_factory=Audiences)
    leases: Leases | None = None
    store_place: str = ""

    def fingerprint(self, name: str) -> str:
        """Return the fingerprint of a source's settings."""
        return index_fingerprint(name, self.sources, self.chunk_tokens, self.audiences, self.store_place)

    def get_kept(self, name: str) -> KeptTexts:
        """Return what a source keeps on this machine."""
        fingerprint = self.fingerprint(name)
        return KeptTexts(name, self.sources[name], self.data_dir, fingerprint, self.audiences, self.refresh_states)

    def open_source(self, name: str) -> Source:
        """Open a source. Raises `SourceError`."""
        settings = self.sources[name]
        journal = self.journal
        audiences = self.audiences
        return open_source(
            name, settings, self.data_dir, self.sources, self.parser, journal=journal, audiences=audiences
        )


async def refresh_source(
    context: RefreshContext,
    name: str,
    *,
    on_progress: Callable[[SyncProgress], None] | None = None,
    on_changed: ChangeCallback | None = None,
    read_slots: asyncio.Semaphore | None = None,
) -> SyncReport:
    """Bring one source up to date, and record the outcome; vectors are made afterwards, by `fill_source`.

    `on_changed` is awaited early for a source that was empty, with its name. A slot is taken only after the source has
    been listed, so that waiting for a slow server blocks nobody. A source whose remote cannot be reached is recorded
    as failed. Raises `SourceError`, `EmbeddingError`, `StoreError`, and `StoreLocked` when another process is
    refreshing it (this is not recorded).
    """
    async with _refresh_lock(context, name):
        try:
            # Cancelled while this is written, it is aborted as well.
            await _label_passages(context, name)
            if context.refresh_states:
                await context.refresh_states.mark_started(name, context.fingerprint(name))
            kept = context.get_kept(name)
            await kept.share_public_marks()
            async with _ConcurrencyLimited(context.open_source(name), read_slots, kept) as source:
                options = await _make_options(context, name, on_progress, on_changed)
                store = LockedStore(context.store, context.data_dir)
                report = await refresh(source, store, options)
                if not report.stale:
                    await write_label(store, name, [context.fingerprint(name)])
        except (asyncio.CancelledError, StoreLocked):
            if context.refresh_states:
                await context.refresh_states.mark_aborted(name)
            raise
        except Exception as error:
            if isinstance(error, MadePrivate):
                note = await _forget(context, name)
            else:
                note = await _note_refusal(context, name) if is_refusal(error) else ""
            reason = strip_source_prefix(name, str(error)) or type(error).__name__
            await _record_failure(context, name, f"{reason}{note}")
            raise
        await _record_success(context, report)
        await kept.share_public_marks()
        if not report.stale:
            await kept.note_success()
    return report


@asynccontextmanager
async def _refresh_lock(context: RefreshContext, name: str) -> AsyncIterator[None]:
    """Lock a source: no other process refreshes it, on this machine or another one. Raises `StoreLocked`."""
    async with (
        source_lock(context.data_dir, name),
        context.leases.hold(f"source:{name}") if context.leases else nullcontext(),
    ):
        yield


async def _make_options(
    context: RefreshContext,
    name: str,
    on_progress: Callable[[SyncProgress], None] | None,
    on_changed: ChangeCallback | None,
) -> SyncOptions:
    """Return how a source is refreshed; the last success says which documents cannot be read."""
    settings = context.sources[name]
    counts = dict[str, Any]()
    if context.refresh_states:
        counts |= (await context.refresh_states.get_state(name)).counts
    return SyncOptions(
        context.chunk_tokens,
        settings.link if isinstance(settings, LinkedSource) else "",
        on_progress,
        partial(on_changed, [name]) if on_changed else None,
        throttled=context.throttled,
        parser=context.parser,
        known_unreadable=counts.get(UNREADABLE, {}),
        known_languages=counts.get(LANGUAGES, ()),
    )


async def fill_source(
    context: RefreshContext,
    name: str,
    *,
    on_progress: Callable[[SyncProgress], None] | None = None,
    on_changed: ChangeCallback | None = None,
) -> Coverage:
    """Give passages of a source their vectors for some seconds, record it, and return what the source has then.

    `on_changed` is awaited when the number of vectors has doubled, and when none is missing any more. Raises
    `EmbeddingError` (this is recorded), `StoreError`, and `StoreLocked` when another process has the source.
    """

    def report(coverage: Coverage) -> None:
        if on_progress:
            on_progress(SyncProgress(name, "embedding", 0, 0, coverage.passages, coverage.filled))

    async with _refresh_lock(context, name):
        store = LockedStore(context.store, context.data_dir)
        backlog = Backlog.from_manifest(await store.manifest(name))
        fill_next = partial(fill_batch, name, backlog, store, context.embedder, report)
        coverage, is_changed, failure = await _fill_for_a_turn(context, name, backlog, fill_next)
    report(coverage)
    if on_changed and is_changed:
        await on_changed([name])
    if failure:
        raise failure
    return coverage


async def _fill_for_a_turn(
    context: RefreshContext, name: str, backlog: Backlog, fill_next: Callable[[], Awaitable[Coverage]]
) -> tuple[Coverage, bool, EmbeddingError | None]:
    """Fill batch after batch for some seconds; return what the source has, whether that is much more, and the error."""
    turn_ends_at = time.monotonic() + FILL_TURN_S
    has_changed_much = False
    while True:
        before = backlog.coverage
        try:
            coverage = await fill_next()
        except EmbeddingError as error:
            await _record_coverage(context, name, before, error=context.redact(str(error)))
            return before, has_changed_much, error
        has_doubled = coverage.filled.bit_length() != before.filled.bit_length()
        is_changed = has_doubled or (coverage.unfilled == 0 and before.unfilled > 0)
        await _record_coverage(context, name, coverage, changed=is_changed)
        has_changed_much = has_changed_much or is_changed
        if not coverage.unfilled or time.monotonic() >= turn_ends_at:
            return coverage, has_changed_much, None


async def _record_coverage(
    context: RefreshContext, name: str, coverage: Coverage, *, changed: bool = False, error: str = ""
) -> None:
    if context.refresh_states is None:
        return
    counts: dict[str, Any] = {UNFILLED: coverage.unfilled, FILL_ERROR: error}
    if coverage.refused:
        unreadable = (await context.refresh_states.get_state(name)).counts.get(UNREADABLE, {})
        counts[UNREADABLE] = dict(islice({**unreadable, **coverage.refused}.items(), MAX_NAMED_DOCUMENTS))
    await context.refresh_states.update_counts(name, counts, changed=changed)


async def fill_sources(
    context: RefreshContext,
    names: Collection[str] = (),
    result: RefreshResult = RefreshResult(),
    *,
    on_progress: Callable[[SyncProgress], None] | None = None,
    on_changed: ChangeCallback | None = None,
) -> RefreshResult:
    """Make all vectors that the named sources lack, or all sources, and return the result of their refresh with that.

    The seconds of a report count both then.

    A source that fails, or that another process is refreshing, does not stop the others. Raises `UsageError`,
    `StoreError`.
    """
    unfilled_counts = {report.name: report.unfilled for report in result.reports}
    filling_seconds = dict.fromkeys(unfilled_counts, 0.0)
    failures = dict(result.failures)
    for name in stored_sources(context.sources, names):
        started_at = time.monotonic()
        try:
            is_filled = False
            while not is_filled:
                coverage = await fill_source(context, name, on_progress=on_progress, on_changed=on_changed)
                unfilled_counts[name] = coverage.unfilled
                is_filled = not coverage.unfilled
        except (EmbeddingError, StoreLocked) as error:
            log = _log.info if isinstance(error, StoreLocked) else _log.error
            log("source.not_filled", source=name, error=str(error))
            failures.setdefault(name, str(error))
        filling_seconds[name] = time.monotonic() - started_at
    reports = tuple(
        replace(
            report,
            unfilled=unfilled_counts[report.name],
            seconds=report.seconds + filling_seconds[report.name],
        )
        for report in result.reports
    )
    return RefreshResult(reports, failures)


async def refresh_sources(
    context: RefreshContext,
    names: Collection[str] = (),
    *,
    on_progress: Callable[[SyncProgress], None] | None = None,
    on_changed: ChangeCallback | None = None,
) -> RefreshResult:
    """Bring the named sources up to date, one after the other; without names, all stored sources.

    Then their passages are found by words; `fill_sources` makes the vectors.

    Without names, sources that are no longer configured are deleted as well. A source that fails, or that another
    process is refreshing, keeps its old knowledge and does not stop the others. `on_changed` is awaited with the name
    of every source that may have changed: early for one that was empty, and at the end for all others. Raises
    `UsageError`, `StoreError`, and `StoreLocked` when other processes are refreshing all of them.
    """
    source_names = stored_sources(context.sources, names)
    names_to_notify = list(source_names)
    if not names:
        await purge_removed_sources(context.store, context.data_dir, source_names, context.refresh_states)
    reports = list[SyncReport]()
    failures = dict[str, KimasError]()
    for name in source_names:
        is_changed = True
        try:
            report = await refresh_source(context, name, on_progress=on_progress, on_changed=on_changed)
        except (SourceError, EmbeddingError, StoreLocked) as error:
            # Whoever asked for the refresh shows them.
            failures[name] = error
        else:
            reports.append(report)
            is_changed = has_changed(report)
        if on_changed and is_changed:
            await on_changed([name])
            names_to_notify.remove(name)
    if on_changed and names_to_notify:
        await on_changed(names_to_notify)
    lock_errors = [error for error in failures.values() if isinstance(error, StoreLocked)]
    if lock_errors and len(lock_errors) == len(source_names):
        raise lock_errors[0]
    return RefreshResult(tuple(reports), {name: str(error) for name, error in failures.items()})


def has_changed(report: SyncReport) -> bool:
    """Return whether a refresh changed any document."""
    return bool(report.added or report.updated or report.deleted)


async def _record_success(context: RefreshContext, report: SyncReport) -> None:
    if report.stale:
        _log.warning("source.stale", source=report.name, reason=report.stale)
    if context.refresh_states is None:
        return
    document_count = report.added + report.updated + report.unchanged
    if report.is_refused:
        await _record_failure(
            context,
            report.name,
            f"not up to date: {report.stale}{await _note_refusal(context, report.name)}",
            changed=has_changed(report),
        )
        return
    if report.stale:
        error = context.redact(f"not up to date: {report.stale}")
        is_changed = has_changed(report)
        passages = report.passages
        await context.refresh_states.mark_failed(
            report.name, error, passages=passages, documents=document_count, changed=is_changed
        )
        # What has changed was read: the service lets us in.
        refused_since = {REFUSED_SINCE: None} if is_changed else {}
        left_counts = {UNFILLED: report.unfilled, **refused_since}
        await context.refresh_states.update_counts(report.name, left_counts, changed=False)
        return
    document_counts = {name: getattr(report, name) for name in ("added", "updated", "deleted", "unchanged")}
    unreadable = {path: context.redact(reason) for path, reason in report.unreadable.items()}
    counts = {
        **document_counts,
        SKIPPED: dict(report.skipped),
        "seconds": round(report.seconds, 3),
        LANGUAGES: list(report.languages),
        REPAIRED: report.repaired,
        UNREADABLE: dict(islice(unreadable.items(), MAX_NAMED_DOCUMENTS)),
        UNFILLED: report.unfilled,
    }
    await context.refresh_states.mark_succeeded(
        report.name, passages=report.passages, documents=document_count, counts=counts, changed=has_changed(report)
    )


async def _note_refusal(context: RefreshContext, name: str) -> str:
    """Record since when a service refuses us, and forget what is known of it after a week; return words that say so.

    Hold the source's lock around it. Raises `StoreError`.
    """
    if context.refresh_states is None:
        return ""
    counts = (await context.refresh_states.get_state(name)).counts
    since = {name: counts[REFUSED_SINCE]} if counts.get(REFUSED_SINCE) else {}
    if not since and not await context.store.manifest(name):
        # It was never read: nothing can be forgotten.
        return ""
    is_too_long = bool(note_refusals(since, [name], ()))
    await context.refresh_states.update_counts(name, {REFUSED_SINCE: since[name]}, changed=False)
    started, ends = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d") for at in (since[name], since[name] + KEPT_S))
    if not is_too_long:
        _log.warning("source.refused", source=name, since=started, forgotten_on=ends)
        return f". It is refused since {started}: unless that ends, what is known of it is forgotten on {ends}"
    return f". It is refused since {started}{await _forget(context, name)}"


async def _forget(context: RefreshContext, name: str) -> str:
    """Forget what is known of a source, and return words that say so. Hold its lock. Raises `StoreError`."""
    # What it keeps for the next refresh would be stored again.
    await asyncio.to_thread(delete_source_state, context.data_dir, name)
    deleted_count = await _delete_documents(LockedStore(context.store, context.data_dir), name)
    if deleted_count:
        _log.warning("source.forgotten", source=name, deleted=deleted_count)
    return ": what was known of it is forgotten"


async def _record_failure(context: RefreshContext, name: str, error: str, *, changed: bool = False) -> None:
    if context.refresh_states is None:
        return
    previous_state = await context.refresh_states.get_state(name)
    passage_count = previous_state.passages
    document_count = previous_state.documents
    try:
        manifest = await context.store.manifest(name)
        coverage = get_coverage(manifest)
        passage_count = coverage.passages
        document_count = len(manifest)
        await context.refresh_states.update_counts(name, {UNFILLED: coverage.unfilled}, changed=False)
    except StoreError as store_error:
        _log.warning("source.not_counted", source=name, error=str(store_error))
    is_changed = changed or (passage_count, document_count) != (previous_state.passages, previous_state.documents)
    await context.refresh_states.mark_failed(
        name, context.redact(error), passages=passage_count, documents=document_count, changed=is_changed
    )


class _ConcurrencyLimited:
    """A source that waits for a slot after it has been listed; the slot is free again when the block ends.

    What it lists must not be older than what other machines have read.
    """

    def __init__(self, source: Source, slots: asyncio.Semaphore | None, kept: KeptTexts) -> None:
        self.name = source.name
        self._source = source
        self._slots = slots
        self._kept = kept
        self._has_slot = False

    async def __aenter__(self) -> Source:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._release_slot()

    async def beginning(self) -> Listing | None:
        beginning = await self._source.beginning() if isinstance(self._source, LargeSource) else None
        if beginning:
            await self._wait_for_slot()
        return beginning

    async def listing(self) -> Listing:
        self._release_slot()
        listing = await self._source.listing()
        await self._kept.require_current(listing)
        await self._wait_for_slot()
        return listing

    async def _wait_for_slot(self) -> None:
        if self._slots:
            await self._slots.acquire()
            self._has_slot = True

    def _release_slot(self) -> None:
        if self._slots and self._has_slot:
            self._slots.release()
            self._has_slot = False

    def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        return self._source.documents(listing, paths)


async def purge_removed_sources(
    store: Store, data_dir: Path, names_to_keep: Collection[str], refresh_states: RefreshStateRepository | None = None
) -> Sequence[str]:
    """Delete all sources except those to keep, and return the names of those that had documents.

    The recorded refreshes say which sources existed, so another deployment's passages in the same store are never
    touched; without records only what is kept on this machine is deleted. A source that another process is
    refreshing is skipped until next time. Raises `StoreError`.
    """
    await asyncio.to_thread(delete_unused_clones, data_dir, names_to_keep)
    await asyncio.to_thread(delete_file_facts, data_dir, names_to_keep)
    await delete_kept_texts(data_dir, names_to_keep)
    states = await refresh_states.get_states() if refresh_states else {}
    purged_names = list[str]()
    for name in states:
        if refresh_states and name not in names_to_keep:
            try:
                async with source_lock(data_dir, name):
                    document_count = await _delete_documents(LockedStore(store, data_dir), name)
                    await _delete_documents(LockedStore(store, data_dir), label_name(name))
                    await refresh_states.delete_state(name)
            except StoreLocked as error:
                _log.info("source.busy", source=name, reason=str(error))
                continue
            purged_names += [name] if document_count else []
            _log.info("source.removed", source=name, deleted=document_count)
    return purged_names


async def purge_passages_for_others(
    store: Store, settings: Settings, audiences: Audiences, refresh_states: RefreshStateRepository
) -> Sequence[str]:
    """Delete what was stored for other readers than `audiences`, before a question can find it; return the sources.

    A closed source may have been renamed, and its name be that of another one now. Raises `StoreError`.
    """
    states = await refresh_states.get_states()
    knowledge = settings.knowledge
    names = list[str]()
    for name in stored_sources(settings.sources):
        stored = await store.manifest(label_name(name))
        recorded = states[name].fingerprint if name in states else None
        fingerprint = index_fingerprint(
            name, settings.sources, knowledge.chunking.tokens, audiences, knowledge.store.place
        )
        is_for_others = was_for_others(name, settings.sources, audiences, [*stored], recorded)
        is_for_others = is_for_others or is_opened_otherwise(name, fingerprint, stored or [recorded or ""], audiences)
        may_hold_more = not is_for_others and [*stored] != [fingerprint]
        paths = None
        if may_hold_more:
            paths = await find_closed_documents(store, name, settings.sources, audiences, stored or [recorded or ""])
        if not (is_for_others or paths):
            continue
        try:
            async with source_lock(settings.data_dir, name):
                document_count = await _delete_documents(LockedStore(store, settings.data_dir), name, paths)
                if is_for_others and name in states:
                    await refresh_states.mark_invalidated([name])
        except StoreLocked:
            if is_for_others:
                raise
            # No search shows them meanwhile, and the next refresh deletes them.
            continue
        if name in states or document_count:
            names.append(name)
            _log.info("source.emptied", source=name, deleted=document_count, why="it was for other readers")
    return names


async def _label_passages(context: RefreshContext, name: str) -> None:
    """Record for whom a source is stored, and delete before what it stored for others: the refresh may fail.

    Until it has succeeded, what was read before may be there as well.
    """
    store = LockedStore(context.store, context.data_dir)
    stored = [*await context.store.manifest(label_name(name))]
    states = await context.refresh_states.get_states() if context.refresh_states else {}
    recorded = states[name].fingerprint if name in states else next(iter(stored), "")
    fingerprint = context.fingerprint(name)
    is_for_others = is_opened_otherwise(name, fingerprint, stored or [recorded], context.audiences)
    is_for_others = is_for_others or was_for_others(name, context.sources, context.audiences, stored, recorded)
    await context.get_kept(name).claim(is_known=bool(stored or recorded), is_for_others=is_for_others)
    if is_for_others:
        await _delete_documents(store, name)
        stored = []
    elif stored != [fingerprint]:
        former = stored or [recorded]
        paths = await find_closed_documents(context.store, name, context.sources, context.audiences, former)
        await _delete_documents(store, name, paths)
    await write_label(store, name, {*stored, fingerprint})


async def _delete_documents(store: LockedStore, name: str, paths: Collection[str] | None = None) -> int:
    """Delete these documents of a source, or all, and return how many there were."""
    paths = list(await store.manifest(name) if paths is None else paths)
    remaining_paths = iter(paths)
    while batch := list(islice(remaining_paths, DELETE_BATCH_SIZE)):
        await store.replace(name, batch, [])
    if paths:
        await store.optimize()
    return len(paths)
