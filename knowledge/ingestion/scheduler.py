"""What keeps the stored sources up to date while the daemon runs: a task for each, rung by the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core.errors import EmbeddingError, KimasError, SourceError, StoreLocked
from core.observability.logs import logger
from core.observability.recorder import Meter, Unmetered
from core.runtime.tasks import task_group
from core.runtime.timers import Alarms, open_alarms
from core.settings import Settings
from core.types import SourceState
from knowledge.ingestion.garbage_collection import forget_removed
from knowledge.ingestion.refresh import News, Refreshing, refresh_source
from knowledge.ingestion.schedule import due, source_states, timetable
from knowledge.ingestion.stored_sources import made_by, stored

if TYPE_CHECKING:
    from core.storage.refresh_state import Entry, UpkeepRecord
    from knowledge.ingestion.sync import SyncReport

# Sources that are listed at the same time (fetching waits for servers), and those that are read and embedded.
FETCHING, READING = 8, 2
# How soon it is seen that another process has asked for a refresh, paused a source or refreshed it.
LOOK_AGAIN = timedelta(minutes=1)
# While another process is at a source, or when the database or the store refuses.
LATER = timedelta(seconds=15)


class Keeper:
    """Implements `core.ports.Upkeep`. Refreshes sources when they are due for as long as `keeping` lasts.

    `work` notes down what it does in the same `record`. `news` is awaited with the names of the sources whose knowledge
    has changed, whoever changed it, and never twice at the same time. `meter` counts the refreshes made here.
    """

    def __init__(
        self,
        settings: Settings,
        work: Refreshing,
        record: UpkeepRecord,
        news: News,
        *,
        meter: Meter | None = None,
        look_again: timedelta = LOOK_AGAIN,
        later: timedelta = LATER,
    ) -> None:
        self._settings = settings
        self._work = work
        self._record = record
        self._news = news
        self._meter = meter or Unmetered()
        self._look_again = look_again
        self._later = later
        self._telling = asyncio.Lock()
        self._fetching = asyncio.Semaphore(FETCHING)
        self._reading = asyncio.Semaphore(READING)
        self._names = stored(settings.sources)
        self._rung = {name: asyncio.Event() for name in self._names}
        self._changed_at: dict[str, datetime | None] = {}
        self._started = datetime.now(UTC)

    async def states(self) -> Sequence[SourceState]:
        """Return how every stored source stands, in the order of the configuration. Raises `StoreError`."""
        entries = await self._record.entries()
        return await asyncio.to_thread(source_states, self._settings, entries, self._started)

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Ask for a refresh of the named sources (all when none is named); one that is on is followed by one more.

        What was asked for survives a restart. Raises `UsageError`, `StoreError`.
        """
        chosen = stored(self._settings.sources, names)
        await self._record.ask(chosen)
        self._ring(chosen)

    async def pause(self, name: str) -> None:
        """Refresh a source only when asked, until it is resumed. Raises `UsageError`, `StoreError`."""
        await self._set_paused(name, True)

    async def resume(self, name: str) -> None:
        """Refresh a source by its plan again; what was missed comes once, now. Raises `UsageError`, `StoreError`."""
        await self._set_paused(name, False)

    @asynccontextmanager
    async def keeping(self, *, forgetting: bool = True) -> AsyncIterator[None]:
        """Refresh what is due for as long as the block lasts; leaving it breaks off what is on, which goes on later.

        `forgetting` says whether sources that are configured no more are forgotten.
        """
        async with open_alarms() as alarms:
            keeping = asyncio.create_task(self._keep(alarms, forgetting))
            try:
                yield
            finally:
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping

    async def _keep(self, alarms: Alarms, forgetting: bool) -> None:
        async with task_group() as tasks:
            if forgetting:
                tasks.create_task(self._forget_removed())
            for name in self._names:
                tasks.create_task(self._tend(name, alarms))

    async def _forget_removed(self) -> None:
        """Forget the sources that were configured at an earlier start; when it fails, the next start tries again."""
        try:
            if gone := await forget_removed(self._work.store, self._work.data_dir, self._names, self._record):
                await self._tell(gone)
        except KimasError as fault:
            logger(__name__).error("upkeep.failed", error=str(fault))
        except Exception as fault:
            # The sources that are configured are to be kept up to date all the same.
            logger(__name__).exception("upkeep.failed", error=str(fault) or type(fault).__name__)

    async def _tend(self, name: str, alarms: Alarms) -> None:
        """Refresh one source whenever it is due: never two runs of it at once."""
        ring = self._rung[name]
        while True:
            try:
                later = await self._look(name)
            except KimasError as fault:
                logger(__name__).error("upkeep.failed", source=name, error=str(fault))
                later = datetime.now(UTC) + self._later
            except Exception as fault:
                # Whatever it is: a source must not stay as it is for good because its refresh went wrong once.
                logger(__name__).exception("upkeep.failed", source=name, error=str(fault) or type(fault).__name__)
                later = datetime.now(UTC) + self._later
            alarms.set(name, later, ring.set)
            await ring.wait()
            ring.clear()

    async def _look(self, name: str) -> datetime:
        """Refresh a source that is due, and return when to look again."""
        entry = await self._entry(name)
        await self._hear(name, entry)
        when, now = self._due(name, entry)
        if when is None or when > now:
            return min(when or now + self._look_again, now + self._look_again)
        try:
            async with self._fetching:
                # While it waited, somebody may have paused it or another process refreshed it.
                when, now = self._due(name, await self._record.entry(name))
                if when is not None and when <= now:
                    await self._refresh(name)
        except StoreLocked as fault:
            logger(__name__).info("source.busy", source=name, reason=str(fault))
            return datetime.now(UTC) + self._later
        except (SourceError, EmbeddingError) as fault:
            logger(__name__).error("source.failed", source=name, error=str(fault))
        # At once: what changed is to be told, and somebody may have asked for it again meanwhile.
        return datetime.now(UTC)

    def _due(self, name: str, entry: Entry) -> tuple[datetime | None, datetime]:
        """Return when a source is due, and what time it is."""
        source, now = self._settings.sources[name], datetime.now(UTC)
        table = timetable(source, self._settings.knowledge.refresh_minutes)
        reads = made_by(source, self._work.chunk_tokens)
        return due(name, entry, table, reads, now=now, started=self._started), now

    async def _refresh(self, name: str) -> None:
        """Refresh a source, and count that however it ends; one that another process is at was not refreshed."""
        started = time.monotonic()
        try:
            report = await refresh_source(self._work, name, news=self._tell, turn=self._reading)
        except (asyncio.CancelledError, StoreLocked):
            raise
        except Exception:
            self._meter.refreshed(name, "failed", time.monotonic() - started)
            raise
        self._meter.refreshed(name, "stale" if report.stale else "succeeded", report.seconds)
        _log(report)

    async def _entry(self, name: str) -> Entry:
        """Return a source's record, at the first look compared with the store, whose files somebody may remove."""
        entry = await self._record.entry(name)
        if name in self._changed_at or not entry.documents or await self._work.store.manifest(name):
            return entry
        await self._record.emptied([name])
        return await self._record.entry(name)

    async def _hear(self, name: str, entry: Entry) -> None:
        """Tell of a change that was not told yet, whichever process made it."""
        if self._changed_at.setdefault(name, entry.changed_at) != entry.changed_at:
            await self._tell([name])
            self._changed_at[name] = entry.changed_at

    async def _tell(self, names: Collection[str]) -> None:
        async with self._telling:
            await self._news(names)

    async def _set_paused(self, name: str, paused: bool) -> None:
        stored(self._settings.sources, [name])
        await self._record.pause(name, paused)
        self._ring([name])

    def _ring(self, names: Sequence[str]) -> None:
        for name in names:
            self._rung[name].set()


def _log(report: SyncReport) -> None:
    logger(__name__).info(
        "source.refreshed",
        source=report.name,
        added=report.added,
        updated=report.updated,
        deleted=report.deleted,
        passages=report.passages,
        skipped=dict(report.skipped),
        seconds=round(report.seconds, 2),
    )
