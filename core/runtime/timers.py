"""Recurring work. It counts the time that passes (the monotonic clock): the time of day may be set at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from core.observability.logs import get_logger

_log = get_logger(__name__)


@asynccontextmanager
async def run_periodically(minutes: float, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `work` at once and then every `minutes`, until the block ends.

    There is one run at a time; what was due during another run is made up for by one. A failed run is logged, and the
    next one follows. Leaving the block cancels a run. 0 minutes: only one run.
    """
    worker = asyncio.create_task(_repeat(minutes * 60, work))
    try:
        yield
    finally:
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker


async def wait_for_event(event: asyncio.Event, timeout_s: float) -> None:
    """Wait until an event is set, for so long at most, and clear it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
    event.clear()


async def _repeat(interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        next_at = loop.time() + interval_s
        try:
            await work()
        except Exception as error:
            # Any error: one failure must not end the recurring work.
            _log.exception("recurring_work.failed", error=str(error) or type(error).__name__)
        if not interval_s:
            return
        await asyncio.sleep(max(0.0, next_at - loop.time()))
