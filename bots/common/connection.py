"""A row of failures: said once, waited out, and its end said too."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from core.errors import PlatformError
from core.observability.logs import logger


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


class Line:
    """The connection to one platform. `outages` counts how often it was lost, or could not be made."""

    def __init__(self) -> None:
        self.connected = False
        self.outages = 0
        self._lost = False

    def up(self) -> None:
        """Note that messages can arrive; again and again is once."""
        self.connected, self._lost = True, False

    def interrupted(self) -> None:
        """Note that the connection is being made anew: an outage only where that fails."""
        self.connected = False

    def down(self) -> None:
        """Note that they cannot; again and again is one outage."""
        self.outages += not self._lost
        self.connected, self._lost = False, True


@runtime_checkable
class Watched(Protocol):
    """An adapter that says whether its messages can arrive."""

    line: Line


@dataclass(frozen=True, slots=True)
class BasicPace:
    """Intervals in seconds.

    `retry_s` is the first pause after a failure and `longest_retry_s` the longest, `patience_s` bounds how long a final
    reply is retried, `parting_s` how long a post on its way holds up a stop.
    """

    retry_s: float = 1.0
    longest_retry_s: float = 60.0
    patience_s: float = 120.0
    parting_s: float = 4.0

    def backoff(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row: doubling, with jitter, bounded."""
        longest = min(self.longest_retry_s, self.retry_s * 2.0 ** min(failures - 1, 16))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


async def wait_for(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until the event is set, at most so long (None: for ever); say whether it is."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


Result = TypeVar("Result")


class Outage:
    """The first failure of a row is logged, each waits longer than the one before, the end is logged.

    The events are `platform.what_stopped` and `platform.what_resumed`; `hint` says what becomes of what was missed.
    `line` is told of both, where messages arrive this way.
    """

    def __init__(
        self,
        platform: str,
        what: str,
        pace: BasicPace,
        hint: Callable[[Exception], str],
        line: Line | None = None,
    ) -> None:
        self._event = f"{platform}.{what}"
        self._pace = pace
        self._hint = hint
        self._line = line
        self._failures = 0
        self._kind: type[Exception] | None = None

    async def wait(self, failure: Exception) -> None:
        """Log the failure unless it is the same again, and wait."""
        self._failures += 1
        if self._line:
            self._line.down()
        wait_s = failure.seconds if isinstance(failure, RetryLater) else self._pace.backoff(self._failures)
        if type(failure) is not self._kind:
            self._kind = type(failure)
            hint, rounded = self._hint(failure), round(wait_s, 2)
            logger(__name__).error(f"{self._event}_stopped", error=str(failure), hint=hint, retry_in_s=rounded)
        await asyncio.sleep(wait_s)

    def over(self) -> None:
        """Note that it works, again or at all."""
        if self._line:
            self._line.up()
        if self._failures:
            logger(__name__).info(f"{self._event}_resumed", failures=self._failures)
        self._failures, self._kind = 0, None

    async def outlasted(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call until it gets through, patiently: the network may come up later than we do."""
        while True:
            try:
                result = await call()
            except (RetryLater, Unreachable) as failure:
                await self.wait(failure)
            else:
                self.over()
                return result
