"""What keeps the stored sources up to date while the daemon runs: a task for each, rung by the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core.errors import EmbeddingError, KimasError, SourceError, StoreLocked
from core.observability.logs import get_logger
from core.observability.recorder import MetricsRecorder, NullMetrics
from core.runtime.tasks import task_group
from core.runtime.timers import Timers, open_timers
from core.settings import Settings
from core.types import SourceState
from knowledge.ingestion.refresh import ChangeCallback, RefreshContext, purge_removed_sources, refresh_source
from knowledge.ingestion.schedule import (
    index_fingerprint,
    make_schedule,
    next_refresh_at,
    source_states,
    stored_sources,
)

if TYPE_CHECKING:
    from core.storage.refresh_state import RefreshState, RefreshStateRepository
    from knowledge.ingestion.sync import SyncReport

# Sources that are listed at the same time (fetching waits for servers), and those that are read and embedded.
FETCH_CONCURRENCY, INDEX_CONCURRENCY = 8, 2
# How soon it is seen that another process has asked for a refresh, paused a source or refreshed it.
POLL_INTERVAL = timedelta(minutes=1)
# While another process is at a source, or when the database or the store refuses.
RETRY_DELAY = timedelta(seconds=15)


class RefreshScheduler:
    """Implements `core.ports.Upkeep`. Refreshes sources when they are due for as long as `keeping` lasts.

    `work` notes down what it does in the same `record`. `news` is awaited with the names of the sources whose knowledge
    has changed, whoever changed it, and never twice at the same time. `meter` counts the refreshes made here.
    """

    def __init__(
        self,
        settings: Settings,
        context: RefreshContext,
        refresh_states: RefreshStateRepository,
        on_changed: ChangeCallback,
        *,
        meter: MetricsRecorder | None = None,
        poll_interval: timedelta = POLL_INTERVAL,
        retry_delay: timedelta = RETRY_DELAY,
    ) -> None:
        self._settings = settings
        self._context = context
        self._refresh_states = refresh_states
        self._on_changed = on_changed
        self._meter = meter or NullMetrics()
        self._poll_interval = poll_interval
        self._retry_delay = retry_delay
        self._notify_lock = asyncio.Lock()
        self._fetch_slots = asyncio.Semaphore(FETCH_CONCURRENCY)
        self._index_slots = asyncio.Semaphore(INDEX_CONCURRENCY)
        self._source_names = stored_sources(settings.sources)
        self._wake_events = {name: asyncio.Event() for name in self._source_names}
        self._changed_at: dict[str, datetime | None] = {}
        self._started_at = datetime.now(UTC)

    async def states(self) -> Sequence[SourceState]:
        """Return how every stored source stands, in the order of the configuration. Raises `StoreError`."""
        states = await self._refresh_states.get_states()
        return await asyncio.to_thread(source_states, self._settings, states, self._started_at)

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Ask for a refresh of the named sources (all when none is named); one that is on is followed by one more.

        What was asked for survives a restart. Raises `UsageError`, `StoreError`.
        """
        source_names = stored_sources(self._settings.sources, names)
        await self._refresh_states.request_refresh(source_names)
        self._wake(source_names)

    async def pause(self, name: str) -> None:
        """Refresh a source only when asked, until it is resumed. Raises `UsageError`, `StoreError`."""
        await self._set_paused(name, True)

    async def resume(self, name: str) -> None:
        """Refresh a source by its plan again; what was missed comes once, now. Raises `UsageError`, `StoreError`."""
        await self._set_paused(name, False)

    @asynccontextmanager
    async def run(self, *, purge_removed: bool = True) -> AsyncIterator[None]:
        """Refresh what is due for as long as the block lasts; leaving it breaks off what is on, which goes on later.

        `forgetting` says whether sources that are configured no more are forgotten.
        """
        async with open_timers() as timers:
            task = asyncio.create_task(self._run(timers, purge_removed))
            try:
                yield
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _run(self, timers: Timers, purge_removed: bool) -> None:
        async with task_group() as tasks:
            if purge_removed:
                tasks.create_task(self._purge_removed())
            for name in self._source_names:
                tasks.create_task(self._refresh_loop(name, timers))

    async def _purge_removed(self) -> None:
        """Forget the sources that were configured at an earlier start; when it fails, the next start tries again."""
        try:
            if purged_names := await purge_removed_sources(
                self._context.store, self._context.data_dir, self._source_names, self._refresh_states
            ):
                await self._notify(purged_names)
        except KimasError as error:
            get_logger(__name__).error("upkeep.failed", error=str(error))
        except Exception as error:
            # The sources that are configured are to be kept up to date all the same.
            get_logger(__name__).exception("upkeep.failed", error=str(error) or type(error).__name__)

    async def _refresh_loop(self, name: str, timers: Timers) -> None:
        """Refresh one source whenever it is due: never two runs of it at once."""
        wake_event = self._wake_events[name]
        while True:
            try:
                next_check_at = await self._refresh_if_due(name)
            except KimasError as error:
                get_logger(__name__).error("upkeep.failed", source=name, error=str(error))
                next_check_at = datetime.now(UTC) + self._retry_delay
            except Exception as error:
                # Whatever it is: a source must not stay as it is for good because its refresh went wrong once.
                get_logger(__name__).exception("upkeep.failed", source=name, error=str(error) or type(error).__name__)
                next_check_at = datetime.now(UTC) + self._retry_delay
            timers.set(name, next_check_at, wake_event.set)
            await wake_event.wait()
            wake_event.clear()

    async def _refresh_if_due(self, name: str) -> datetime:
        """Refresh a source that is due, and return when to look again."""
        state = await self._load_state(name)
        await self._detect_change(name, state)
        refresh_at, now = self._next_refresh_at(name, state)
        if refresh_at is None or refresh_at > now:
            return min(refresh_at or now + self._poll_interval, now + self._poll_interval)
        try:
            async with self._fetch_slots:
                # While it waited, somebody may have paused it or another process refreshed it.
                refresh_at, now = self._next_refresh_at(name, await self._refresh_states.get_state(name))
                if refresh_at is not None and refresh_at <= now:
                    await self._refresh(name)
        except StoreLocked as error:
            get_logger(__name__).info("source.busy", source=name, reason=str(error))
            return datetime.now(UTC) + self._retry_delay
        except (SourceError, EmbeddingError) as error:
            get_logger(__name__).error("source.failed", source=name, error=str(error))
        # At once: what changed is to be told, and somebody may have asked for it again meanwhile.
        return datetime.now(UTC)

    def _next_refresh_at(self, name: str, state: RefreshState) -> tuple[datetime | None, datetime]:
        """Return when a source is due, and what time it is."""
        source, now = self._settings.sources[name], datetime.now(UTC)
        schedule = make_schedule(source, self._settings.knowledge.refresh_minutes)
        fingerprint = index_fingerprint(source, self._context.chunk_tokens)
        return next_refresh_at(name, state, schedule, fingerprint, now=now, started_at=self._started_at), now

    async def _refresh(self, name: str) -> None:
        """Refresh a source, and count that however it ends; one that another process is at was not refreshed."""
        started_at = time.monotonic()
        try:
            report = await refresh_source(self._context, name, on_changed=self._notify, read_slots=self._index_slots)
        except (asyncio.CancelledError, StoreLocked):
            raise
        except Exception:
            self._meter.record_refresh(name, "failed", time.monotonic() - started_at)
            raise
        self._meter.record_refresh(name, "stale" if report.stale else "succeeded", report.seconds)
        _log(report)

    async def _load_state(self, name: str) -> RefreshState:
        """Return a source's record, at the first look compared with the store, whose files somebody may remove."""
        state = await self._refresh_states.get_state(name)
        if name in self._changed_at or not state.documents or await self._context.store.manifest(name):
            return state
        await self._refresh_states.mark_invalidated([name])
        return await self._refresh_states.get_state(name)

    async def _detect_change(self, name: str, state: RefreshState) -> None:
        """Tell of a change that was not told yet, whichever process made it."""
        if self._changed_at.setdefault(name, state.changed_at) != state.changed_at:
            await self._notify([name])
            self._changed_at[name] = state.changed_at

    async def _notify(self, names: Collection[str]) -> None:
        async with self._notify_lock:
            await self._on_changed(names)

    async def _set_paused(self, name: str, paused: bool) -> None:
        stored_sources(self._settings.sources, [name])
        await self._refresh_states.set_paused(name, paused)
        self._wake([name])

    def _wake(self, names: Sequence[str]) -> None:
        for name in names:
            self._wake_events[name].set()


def _log(report: SyncReport) -> None:
    get_logger(__name__).info(
        "source.refreshed",
        source=report.name,
        added=report.added,
        updated=report.updated,
        deleted=report.deleted,
        passages=report.passages,
        skipped=dict(report.skipped),
        seconds=round(report.seconds, 2),
    )
