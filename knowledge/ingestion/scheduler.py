"""Keeps the stored sources up to date while the daemon runs: one task per source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core.errors import EmbeddingError, JournalError, KimasError, SourceError, StoreError, StoreLocked
from core.formatting import strip_source_prefix
from core.observability.logs import get_logger
from core.observability.metrics import MetricsRecorder
from core.runtime.tasks import task_group
from core.runtime.timers import wait_for_event
from core.settings import Settings
from core.settings.audience import Audiences
from core.types import SourceState
from knowledge.ingestion.pace import Pace
from knowledge.ingestion.refresh import (
    ChangeCallback,
    RefreshContext,
    fill_source,
    purge_passages_for_others,
    purge_removed_sources,
    refresh_source,
)
from knowledge.ingestion.schedule import (
    UNFILLED,
    make_schedule,
    next_refresh_at,
    source_states,
    stored_sources,
)

if TYPE_CHECKING:
    from core.storage.refresh_state import RefreshState, RefreshStateRepository
    from knowledge.ingestion.sync import SyncReport

_log = get_logger(__name__)

# How many sources are listed at the same time (that mostly waits for servers), and how many are read.
FETCH_CONCURRENCY = 8
INDEX_CONCURRENCY = 2
# How soon requests, pauses and refreshes of other processes are noticed.
POLL_INTERVAL = timedelta(minutes=1)
# How soon passages that another process has written, or a server has lost, are noticed.
STORE_POLL_INTERVAL = timedelta(seconds=2)
# The wait while another process refreshes a source, or when the database or the store fails.
RETRY_DELAY = timedelta(seconds=15)
# The wait after the embedding model has failed.
FILL_RETRY_DELAY = timedelta(minutes=1)
# While other sources are filled, a source waits in line for so long before it looks whether a refresh of it is due.
FILL_TURN_DELAY = timedelta(seconds=1)


class RefreshScheduler:
    """Implements `core.ports.SourceRefresher`. Refreshes sources when they are due, for as long as `run` lasts.

    `context` records refreshes in the same `refresh_states`. `on_changed` is awaited with the names of the sources
    whose knowledge has changed, whichever process changed it, and never twice at the same time. `metrics_recorder`
    counts the refreshes of this process.
    """

    def __init__(
        self,
        settings: Settings,
        context: RefreshContext,
        refresh_states: RefreshStateRepository,
        on_changed: ChangeCallback,
        *,
        metrics_recorder: MetricsRecorder | None = None,
        poll_interval: timedelta = POLL_INTERVAL,
        retry_delay: timedelta = RETRY_DELAY,
        store_poll_interval: timedelta = STORE_POLL_INTERVAL,
    ) -> None:
        self._settings = settings
        self._context = context
        self._refresh_states = refresh_states
        self._on_changed = on_changed
        self._metrics_recorder = metrics_recorder or MetricsRecorder()
        self._poll_interval = poll_interval
        self._retry_delay = retry_delay
        self._store_poll_interval = store_poll_interval
        # Whoever holds it postpones the announcements of changes.
        self.notify_lock = asyncio.Lock()
        self._fetch_slots = asyncio.Semaphore(FETCH_CONCURRENCY)
        self._index_slots = asyncio.Semaphore(INDEX_CONCURRENCY)
        # One source alone keeps the embedding model busy.
        self._fill_slot = asyncio.Lock()
        # By the monotonic clock.
        self._fill_retry_at: dict[str, float] = {}
        self._source_names = stored_sources(settings.sources)
        self._reported_interrupted = set[str]()
        self._wake_events = {name: asyncio.Event() for name in self._source_names}
        self._changed_at: dict[str, datetime | None] = {}
        self._paces: dict[str, Pace] = {}
        # The sources with passages, as far as they were announced. None: the store was not looked at yet.
        self._filled_sources: set[str] | None = None
        self._store_problem = ""
        self._started_at = datetime.now(UTC)
        self._tasks: asyncio.TaskGroup | None = None
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._purges_removed = False

    @property
    def store_problem(self) -> str:
        """Why the passages cannot be read now, or ""."""
        return self._store_problem

    async def states(self) -> Sequence[SourceState]:
        """Return the state of every stored source, in the order of the configuration. Raises `StoreError`."""
        states = await self._refresh_states.get_states()
        listed_states = await asyncio.to_thread(source_states, self._settings, states, self._started_at)
        return [self._with_pace(state) for state in listed_states]

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Request a refresh of the named sources (all when none is named).

        A running refresh is followed by another one.

        The request survives a restart. Raises `UsageError`, `StoreError`.
        """
        source_names = stored_sources(self._settings.sources, names, lists_others=False)
        await self._refresh_states.request_refresh(source_names)
        self._wake(source_names)

    async def pause(self, name: str) -> None:
        """Refresh a source only when asked, until it is resumed. Raises `UsageError`, `StoreError`."""
        await self._set_paused(name, True)

    async def resume(self, name: str) -> None:
        """Refresh a source on schedule again; missed refreshes are made up for once, now.

        Raises `UsageError`, `StoreError`.
        """
        await self._set_paused(name, False)

    @asynccontextmanager
    async def run(self, *, purge_removed: bool = True) -> AsyncIterator[None]:
        """Refresh due sources for as long as the block lasts.

        Leaving it interrupts running refreshes; they continue later.

        `purge_removed` deletes sources that are no longer configured.
        """
        task = asyncio.create_task(self._run(purge_removed))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def purge_passages_for_others(self, settings: Settings, audiences: Audiences) -> Sequence[str]:
        """Delete what is stored for other readers than these; return the sources. Raises `StoreError`."""
        return await purge_passages_for_others(self._context.store, settings, audiences, self._refresh_states)

    async def take_up(self, settings: Settings, audiences: Audiences) -> None:
        """Keep the sources of other settings up to date from now on: new ones are read, removed ones deleted.

        `audiences` are in force, which may keep closed what the settings open: taught answers are chosen for them.
        """
        names = stored_sources(settings.sources)
        removed_names = [name for name in self._source_names if name not in names]
        loops = [self._loops.pop(name) for name in removed_names if name in self._loops]
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        for name in removed_names:
            del self._wake_events[name]
            self._changed_at.pop(name, None)
        self._settings = settings
        self._context = replace(self._context, sources=settings.sources, audiences=audiences)
        self._source_names = names
        for name in names:
            self._wake_events.setdefault(name, asyncio.Event())
        if self._tasks:
            self._start_loops(self._tasks)
            if removed_names and self._purges_removed:
                self._tasks.create_task(self._purge_removed())
        # What changed of a source makes it due.
        self._wake(names)

    async def _run(self, purge_removed: bool) -> None:
        self._purges_removed = purge_removed
        async with task_group() as tasks:
            if purge_removed:
                tasks.create_task(self._purge_removed())
            tasks.create_task(self._watch_store())
            self._tasks = tasks
            self._start_loops(tasks)

    def _start_loops(self, tasks: asyncio.TaskGroup) -> None:
        """Start the refreshes of the sources that have none."""
        for name in self._source_names:
            if name not in self._loops:
                self._loops[name] = tasks.create_task(self._refresh_loop(name))

    async def _purge_removed(self) -> None:
        """Delete the sources that were configured at an earlier start; on failure, the next start tries again."""
        try:
            if purged_names := await purge_removed_sources(
                self._context.store, self._context.data_dir, self._source_names, self._refresh_states
            ):
                await self._notify(purged_names)
        except Exception as error:
            # The configured sources are kept up to date all the same.
            _log_failure(error)

    async def _refresh_loop(self, name: str) -> None:
        """Refresh one source whenever it is due: never two runs of it at once."""
        while True:
            try:
                delay = await self._refresh_if_due(name)
            except Exception as error:
                # Any error: a failed refresh must not end the refreshes of a source.
                _log_failure(error, source=name)
                delay = self._retry_delay
            await wait_for_event(self._wake_events[name], delay.total_seconds())

    async def _refresh_if_due(self, name: str) -> timedelta:
        """Refresh a source that is due, and return how long to wait before the next look.

        It is never long: the time of day may be set meanwhile.
        """
        state = await self._load_state(name)
        await self._detect_change(name, state)
        refresh_at, now = self._next_refresh_at(name, state)
        if refresh_at is None or refresh_at > now:
            if refresh_at is not None and state.unfinished and name not in self._reported_interrupted:
                self._reported_interrupted.add(name)
                wait_s = round((refresh_at - now).total_seconds())
                _log.warning("source.interrupted", source=name, tries=state.failures, retry_s=wait_s)
            delay = min(refresh_at - now, self._poll_interval) if refresh_at else self._poll_interval
            if state.counts.get(UNFILLED):
                return min(delay, await self._fill(name))
            # Another process may have filled it.
            self._paces.pop(name, None)
            return delay
        try:
            async with self._fetch_slots:
                # While it waited, it may have been paused, or refreshed by another process.
                refresh_at, now = self._next_refresh_at(name, await self._refresh_states.get_state(name))
                if refresh_at is not None and refresh_at <= now:
                    await self._refresh(name)
        except StoreLocked as error:
            _log.info("source.busy", source=name, reason=str(error))
            return self._retry_delay
        except (SourceError, EmbeddingError) as error:
            _log.error("source.failed", source=name, error=strip_source_prefix(name, str(error)))
        # At once: the change must be announced, and another refresh may have been requested meanwhile.
        return timedelta()

    async def _fill(self, name: str) -> timedelta:
        """Fill a source when it is its turn, and return when to look for more: a refresh that is due comes first."""
        remaining_s = self._fill_retry_at.get(name, 0.0) - time.monotonic()
        if remaining_s > 0:
            return timedelta(seconds=remaining_s)
        try:
            async with asyncio.timeout(FILL_TURN_DELAY.total_seconds()):
                await self._fill_slot.acquire()
        except TimeoutError:
            return timedelta()
        try:
            coverage = await fill_source(self._context, name, on_progress=self._get_pace(name).note)
            if not coverage.unfilled:
                self._paces.pop(name, None)
        except StoreLocked as error:
            _log.info("source.busy", source=name, reason=str(error))
            self._paces.pop(name, None)
            return self._retry_delay
        except EmbeddingError as error:
            _log.error("source.not_filled", source=name, error=str(error))
            self._paces.pop(name, None)
            self._fill_retry_at[name] = time.monotonic() + FILL_RETRY_DELAY.total_seconds()
            return FILL_RETRY_DELAY
        finally:
            self._fill_slot.release()
        return timedelta()

    def _get_pace(self, name: str) -> Pace:
        return self._paces.setdefault(name, Pace())

    def _with_pace(self, state: SourceState) -> SourceState:
        """Return a state with how far this process is."""
        pace = self._paces.get(state.name)
        if pace is None:
            return state
        read, to_read = pace.documents
        return replace(state, documents_read=read, documents_to_read=to_read, seconds_left=pace.seconds_left)

    def _next_refresh_at(self, name: str, state: RefreshState) -> tuple[datetime | None, datetime]:
        """Return when a source is due, and the current time."""
        source = self._settings.sources[name]
        now = datetime.now(UTC)
        schedule = make_schedule(source, self._settings.knowledge.refresh_minutes)
        fingerprint = self._context.fingerprint(name)
        return next_refresh_at(name, state, schedule, fingerprint, now=now, started_at=self._started_at), now

    async def _refresh(self, name: str) -> None:
        """Refresh a source, and count it whatever the outcome, unless another process is refreshing it."""
        started_at = time.monotonic()
        try:
            report = await refresh_source(
                self._context,
                name,
                on_progress=self._get_pace(name).note,
                on_changed=self._notify,
                read_slots=self._index_slots,
            )
        except (asyncio.CancelledError, StoreLocked):
            raise
        except Exception:
            self._metrics_recorder.record_refresh(name, "failed", time.monotonic() - started_at)
            raise
        finally:
            self._paces.pop(name, None)
        self._metrics_recorder.record_refresh(name, "stale" if report.stale else "succeeded", report.seconds)
        _log_report(report)

    async def _load_state(self, name: str) -> RefreshState:
        """Return a source's recorded state.

        The first time it is compared with the store: its files may have been removed, or passages lost.
        """
        state = await self._refresh_states.get_state(name)
        if name in self._changed_at or not state.documents:
            return state
        manifest = await self._context.store.manifest(name)
        if manifest and not any(document.is_damaged for document in manifest.values()):
            return state
        await self._refresh_states.mark_invalidated([name])
        return await self._refresh_states.get_state(name)

    async def _watch_store(self) -> None:
        """Look what the store holds, again and again: another process may fill it, a server may lose everything."""
        last_error = ""
        while True:
            error_text = ""
            try:
                # First what is recorded: what a refresh writes in between is in the store by then.
                states = await self._refresh_states.get_states()
                await self._compare_with_store(states, set(await self._context.store.filled(self._source_names)))
                self._store_problem = ""
            except Exception as error:
                # Any error: the next look may succeed.
                error_text = str(error) or type(error).__name__
                is_of_store = isinstance(error, StoreError) and not isinstance(error, JournalError)
                self._store_problem = error_text if is_of_store else ""
                if error_text != last_error:
                    _log_failure(error)
            if last_error and not error_text:
                _log.info("store.usable_again")
            last_error = error_text
            await asyncio.sleep(self._store_poll_interval.total_seconds())

    async def _compare_with_store(self, states: Mapping[str, RefreshState], filled_sources: set[str]) -> None:
        """Announce sources that have passages now, and read those again that have lost all of theirs."""
        known_sources = filled_sources if self._filled_sources is None else self._filled_sources
        self._filled_sources = known_sources & filled_sources
        if new_sources := filled_sources - known_sources:
            await self._notify(new_sources)
        for name, state in states.items():
            if name in self._wake_events and state.passages and not state.unfinished and name not in filled_sources:
                _log.warning("source.lost", source=name, passages=state.passages)
                await self._refresh_states.mark_invalidated([name])
                self._wake([name])

    async def _detect_change(self, name: str, state: RefreshState) -> None:
        """Announce a change that was not announced yet, whichever process made it."""
        if self._changed_at.setdefault(name, state.changed_at) != state.changed_at:
            await self._notify([name])
            self._changed_at[name] = state.changed_at

    async def _notify(self, names: Collection[str]) -> None:
        async with self.notify_lock:
            await self._on_changed(names)
        if self._filled_sources is not None:
            self._filled_sources.update(names)

    async def _set_paused(self, name: str, paused: bool) -> None:
        stored_sources(self._settings.sources, [name], lists_others=False)
        await self._refresh_states.set_paused(name, paused)
        self._wake([name])

    def _wake(self, names: Sequence[str]) -> None:
        for name in names:
            self._wake_events[name].set()


def _log_failure(error: Exception, **keys: str) -> None:
    """Log an error, with its traceback if it is no `KimasError`."""
    log = _log.error if isinstance(error, KimasError) else _log.exception
    log("refresh.loop_failed", **keys, error=str(error) or type(error).__name__)


def _log_report(report: SyncReport) -> None:
    counts = {name: getattr(report, name) for name in ("added", "updated", "deleted", "passages")}
    keys = {**counts, "skipped": dict(report.skipped), "seconds": round(report.seconds, 2)}
    _log.info("source.refreshed", source=report.name, **keys)
