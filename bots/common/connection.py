"""A row of failures: said once, waited out, and its end said too."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from core.errors import PlatformError
from core.observability.logs import get_logger
from core.ports import ConnectionStatus


class TokenRefused(PlatformError):
    """The credential is wrong or was revoked."""


class Unreachable(PlatformError):
    """The platform could not be reached, or its answer made no sense."""


class RetryLater(PlatformError):
    """The platform took nothing and wants a pause of `seconds` before this call."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class NotAllowed(PlatformError):
    """The bot was removed from the place, blocked, or may not write there."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals in seconds.

    `retry_s` is the first pause after a failure and `longest_retry_s` the longest, `patience_s` bounds how long a final
    reply is retried, `parting_s` how long a post on its way holds up a stop.
    """

    retry_s: float = 1.0
    max_retry_s: float = 60.0
    retry_timeout_s: float = 120.0
    shutdown_grace_s: float = 4.0

    def backoff(self, failure_count: int) -> float:
        """Return how long to wait after so many failures in a row: doubling, with jitter, bounded."""
        max_delay_s = min(self.max_retry_s, self.retry_s * 2.0 ** min(failure_count - 1, 16))
        return max_delay_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


async def wait_for(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until the event is set, at most so long (None: for ever); say whether it is."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


Result = TypeVar("Result")


class RetryLoop:
    """The first failure of a row is logged, each waits longer than the one before, the end is logged.

    The events are `platform.what_stopped` and `platform.what_resumed`; `hint` says what becomes of what was missed.
    `line` is told of both, where messages arrive this way.
    """

    def __init__(
        self,
        platform: str,
        activity: str,
        intervals: Intervals,
        hint: Callable[[Exception], str],
        connection: ConnectionStatus | None = None,
    ) -> None:
        self._event = f"{platform}.{activity}"
        self._intervals = intervals
        self._hint = hint
        self._connection = connection
        self._failure_count = 0
        self._last_error_type: type[Exception] | None = None

    async def wait(self, error: Exception) -> None:
        """Log the failure unless it is the same again, and wait."""
        self._failure_count += 1
        if self._connection:
            self._connection.mark_disconnected()
        wait_s = error.seconds if isinstance(error, RetryLater) else self._intervals.backoff(self._failure_count)
        if type(error) is not self._last_error_type:
            self._last_error_type = type(error)
            hint, rounded_wait_s = self._hint(error), round(wait_s, 2)
            get_logger(__name__).error(f"{self._event}_stopped", error=str(error), hint=hint, retry_in_s=rounded_wait_s)
        await asyncio.sleep(wait_s)

    def mark_recovered(self) -> None:
        """Note that it works, again or at all."""
        if self._connection:
            self._connection.mark_connected()
        if self._failure_count:
            get_logger(__name__).info(f"{self._event}_resumed", failures=self._failure_count)
        self._failure_count, self._last_error_type = 0, None

    async def retry_until_ok(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call until it gets through, patiently: the network may come up later than we do."""
        while True:
            try:
                result = await call()
            except (RetryLater, Unreachable) as error:
                await self.wait(error)
            else:
                self.mark_recovered()
                return result
