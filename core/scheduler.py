"""Recurring work of the daemon, over APScheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC
from typing import TYPE_CHECKING

from core.logs import logger

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

JITTER_SHARE = 0.1


@asynccontextmanager
async def every(minutes: float, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `work` now and then every `minutes`, give or take a tenth, for as long as the block lasts.

    One run at a time; a run that falls due while another is on, or while the machine slept, happens once, later.
    A run that fails is logged and the next one comes all the same. Leaving the block cancels a run that is still on.
    0 minutes means once, now.
    """
    due = asyncio.Event()
    due.set()

    async def ring() -> None:
        due.set()

    async def run_when_due() -> None:
        while True:
            await due.wait()
            due.clear()
            try:
                await work()
            except Exception as fault:
                # Whatever it is: what recurs must not end for good because it went wrong once.
                logger(__name__).exception("recurring_work.failed", error=str(fault) or type(fault).__name__)

    # The scheduler only rings: work that it ran itself would be neither awaited nor quietly cancelled at its shutdown.
    scheduler = _scheduler(minutes * 60, ring) if minutes else None
    worker = asyncio.create_task(run_when_due())
    try:
        yield
    finally:
        if scheduler:
            scheduler.shutdown(wait=False)
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker


def _scheduler(seconds: float, ring: Callable[[], Awaitable[None]]) -> AsyncIOScheduler:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler
    from apscheduler.triggers.interval import IntervalTrigger

    scheduler = AsyncIOScheduler(timezone=UTC)
    # The library's default drops a run that is a second late.
    trigger = IntervalTrigger(seconds=seconds, jitter=seconds * JITTER_SHARE)
    scheduler.add_job(ring, trigger, coalesce=True, misfire_grace_time=None)
    scheduler.start()
    return scheduler
