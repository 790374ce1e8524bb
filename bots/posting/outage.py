"""A row of failures: said once, waited out, and its end said too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bots.posting.failures import RetryLater, Unreachable
from bots.posting.line import Line
from bots.posting.pace import BasicPace
from core.logs import logger

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
