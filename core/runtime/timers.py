"""Recurring work and timers, with APScheduler."""

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

_log = get_logger(__name__)


@asynccontextmanager
async def run_periodically(minutes: float, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `work` at once and then every `minutes`, up to a tenth later, until the block ends.

    There is one run at a time; runs that were due during another run or while the machine slept are made up for by
    one. A failed run is logged, and the next one follows. Leaving the block cancels a run. 0 minutes: only one run.
    """
    due_event = asyncio.Event()
    due_event.set()

    async def fire() -> None:
        due_event.set()

    async def run_when_due() -> None:
        while True:
            await due_event.wait()
            due_event.clear()
            try:
                await work()
            except Exception as error:
                # Any error: one failure must not end the recurring work.
                _log.exception("recurring_work.failed", error=str(error) or type(error).__name__)

    # The scheduler only sets an event: at its shutdown it neither awaits nor quietly cancels work that it runs itself.
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
    """Calls a function once at a set time; setting the timer of a name again moves it."""

    def __init__(self, scheduler: AsyncIOScheduler) -> None:
        self._scheduler = scheduler

    def set(self, name: str, run_at: datetime, callback: Callable[[], None]) -> None:
        """Call `callback` at `run_at`, or at once if that has passed, also during the machine's sleep."""
        from apscheduler.triggers.date import DateTrigger

        async def run_callback() -> None:
            # The library runs plain functions in a thread.
            callback()

        # By default the library drops a run that is a second late.
        self._scheduler.add_job(
            run_callback, DateTrigger(run_at), id=name, replace_existing=True, misfire_grace_time=None
        )


@asynccontextmanager
async def open_timers() -> AsyncIterator[Timers]:
    """Open timers that work until the block ends."""
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
