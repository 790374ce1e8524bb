"""How long to wait for what: the intervals that every platform has. Each adds its own and its own limits."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass


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
