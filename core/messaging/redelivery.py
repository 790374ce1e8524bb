"""Answers that a platform does not take now: how long they are worth delivering, and what waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime

from core.errors import JournalError, PlatformUnavailable
from core.ports import ConnectionStatus
from core.runtime.tasks import wait_for

# How long an answer that nobody asked for is worth delivering, and the least time for any.
UNPROMPTED_S = 600.0
MIN_REDELIVERY_S = 120.0

# How long what was asked later waits for an answer that is held up while the platform is there: as if this one answer
# could not be shown.
MAX_HOLD_S = 600.0


class Undelivered(Exception):
    """A platform did not take an answer now: it waits in the journal. `cause` says why.

    `due_at` is when the answer was wanted: when the question was sent, or when a team let its draft be posted.
    """

    def __init__(self, cause: PlatformUnavailable, due_at: datetime, *, is_unprompted: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.due_at = due_at
        self.is_unprompted = is_unprompted


def redelivery_time_s(error: Undelivered, max_hours: float) -> float:
    """Return for how many seconds from now an answer is worth delivering.

    That is until `max_hours` after it was wanted, or some minutes if nobody asked. Two minutes remain in any case: the
    question itself may have waited through the outage.
    """
    limit_s = min(3600 * max_hours, UNPROMPTED_S) if error.is_unprompted else 3600 * max_hours
    age_s = max(0.0, time.time() - error.due_at.timestamp())
    return max(limit_s - age_s, min(limit_s, MIN_REDELIVERY_S))


TakeTurn = Callable[[], AbstractAsyncContextManager[None]]


class LeftToNextStart(Exception):
    """A message waited for an earlier one when the daemon stopped."""


class Conversation:
    """Lets the messages of a conversation come one after the other.

    Where one is held up, because its platform is away or the journal cannot be written, those after it wait. Once
    `stopping` is set, they do not come any more.
    """

    def __init__(self, stopping: asyncio.Event, max_hold_s: float = MAX_HOLD_S) -> None:
        self._stopping = stopping
        self._max_hold_s = max_hold_s
        self._lock = asyncio.Lock()
        self._count = 0
        self._held_since: dict[int, float] = {}
        self._changed = asyncio.Event()

    def join(self) -> int:
        """Return the number of a new message, which is to `leave` at its end."""
        self._count += 1
        return self._count

    def leave(self, number: int) -> None:
        """Let those that waited for this message go on."""
        if not self._stopping.is_set() and self._held_since.pop(number, None) is not None:
            self.wake()

    def wake(self) -> None:
        """Let those that wait look again."""
        previous_event = self._changed
        self._changed = asyncio.Event()
        previous_event.set()

    @asynccontextmanager
    async def turn(self, number: int, connection: ConnectionStatus | None) -> AsyncIterator[None]:
        """Process a message in the block, when it is its turn. What fails in a way that passes holds up the others.

        Raises `LeftToNextStart`.
        """
        while True:
            await self._wait_for_earlier(number)
            async with self._lock:
                if self._get_hold_s(number) > 0:
                    continue
                try:
                    yield
                except (Undelivered, JournalError):
                    if number not in self._held_since or (connection and not connection.is_connected):
                        self._held_since[number] = asyncio.get_running_loop().time()
                    raise
                return

    async def _wait_for_earlier(self, number: int) -> None:
        while (hold_s := self._get_hold_s(number)) > 0:
            if self._stopping.is_set():
                raise LeftToNextStart
            # A little longer: what is left after it would be a rounding error.
            await wait_for(self._changed, hold_s + 0.01)

    def _get_hold_s(self, number: int) -> float:
        """Return for how long an earlier message may still hold up this one."""
        held_since = [since for other, since in self._held_since.items() if other < number]
        return max(held_since) + self._max_hold_s - asyncio.get_running_loop().time() if held_since else 0.0
