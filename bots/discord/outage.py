"""A row of failures: said once, waited out, and its end said too."""

from __future__ import annotations

import asyncio

from bots.discord.failures import RetryLater
from bots.discord.pace import Pace
from core.errors import PlatformError
from core.logs import logger


class Outage:
    """The first failure of a row is logged, each waits longer than the one before, the end is logged."""

    def __init__(self, pace: Pace, what: str) -> None:
        self._pace = pace
        self._what = what
        self._failures = 0
        self._kind: type[Exception] | None = None

    async def wait(self, failure: Exception) -> None:
        """Log the failure unless it is the same again, and wait."""
        self._failures += 1
        wait_s = failure.seconds if isinstance(failure, RetryLater) else self._pace.backoff(self._failures)
        if type(failure) is not self._kind:
            self._kind = type(failure)
            outside = isinstance(failure, PlatformError)
            logger(__name__).error(
                f"discord.{self._what}_stopped",
                error=str(failure),
                hint="retrying; what was missed is read afterwards" if outside else "a message could not be made safe",
                retry_in_s=round(wait_s, 2),
            )
        await asyncio.sleep(wait_s)

    def over(self) -> None:
        """Note that it works again."""
        if self._failures:
            logger(__name__).info(f"discord.{self._what}_resumed", failures=self._failures)
        self._failures, self._kind = 0, None
