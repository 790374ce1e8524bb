"""When recurring work is due, and what rings then, over APScheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from core.observability.logs import get_logger
from core.settings.cron import DEFAULT_JITTER

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler


@asynccontextmanager
async def run_periodically(minutes: float, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `work` now and then every `minutes`, up to a tenth later, for as long as the block lasts.

    One run at a time; a run that falls due while another is on, or while the machine slept, happens once, later.
    A run that fails is logged and the next one comes all the same. Leaving the block cancels a run that is still on.
    0 minutes means once, now.
    """
    due = asyncio.Event()
    due.set()

    async def fire() -> None:
        due.set()

    async def run_when_due() -> None:
        while True:
            await due.wait()
            due.clear()
            try:
                await work()
            except Exception as error:
                # Whatever it is: what recurs must not end for good because it went wrong once.
                get_logger(__name__).exception("recurring_work.failed", error=str(error) or type(error).__name__)

    # The scheduler only rings: work that it ran itself would be neither awaited nor quietly cancelled at its shutdown.
    scheduler = _start_scheduler() if minutes else None
    if scheduler:
        from apscheduler.triggers.interval import IntervalTrigger

        trigger = IntervalTrigger(seconds=minutes * 60, jitter=minutes * 60 * DEFAULT_JITTER)
        scheduler.add_job(fire, trigger, coalesce=True, misfire_grace_time=None)
    worker = asyncio.create_task(run_when_due())
    try:
        yield
    finally:
        if scheduler:
            scheduler.shutdown(wait=False)
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker


class Timers:
    """Rings once at a time that is set by name; setting a name again moves its alarm."""

    def __init__(self, scheduler: AsyncIOScheduler) -> None:
        self._scheduler = scheduler

    def set(self, name: str, run_at: datetime, callback: Callable[[], None]) -> None:
        """Call `ring` at `when`, at once where that is past. A machine that slept through it rings when it wakes up."""
        from apscheduler.triggers.date import DateTrigger

        async def run_callback() -> None:
            # The library runs plain functions in a thread.
            callback()

        # The library's default drops a run that is a second late.
        self._scheduler.add_job(
            run_callback, DateTrigger(run_at), id=name, replace_existing=True, misfire_grace_time=None
        )


@asynccontextmanager
async def open_timers() -> AsyncIterator[Timers]:
    """Open alarms that ring for as long as the block lasts."""
    scheduler = _start_scheduler()
    try:
        yield Timers(scheduler)
    finally:
        scheduler.shutdown(wait=False)


def _start_scheduler() -> AsyncIOScheduler:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.start()
    return scheduler
