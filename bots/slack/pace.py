"""How fast things go: the intervals of streaming and retrying, and the turns that all replies share."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """All intervals in seconds. The defaults keep within the limits of Slack's own servers.

    Slack counts calls per method and workspace: some 50 edits and 100 appended pieces a minute are always allowed,
    and about one post a second in a channel. `patience_s` bounds how long a final reply is retried, `parting_s` how
    long a post on its way holds up a stop, `ping_s` how often a silent connection is tried, `answer_s` how long a call
    may take.
    """

    post_s: float = 1.0
    edit_s: float = 1.2
    append_s: float = 0.6
    ping_s: float = 10.0
    answer_s: float = 20.0
    retry_s: float = 1.0
    longest_retry_s: float = 60.0
    patience_s: float = 120.0
    parting_s: float = 4.0

    def backoff(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row: doubling, with jitter, bounded."""
        longest = min(self.longest_retry_s, self.retry_s * 2.0 ** min(failures - 1, 16))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


class Turns:
    """Calls that share a limit take turns, one every so many seconds by name."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def take(self, name: str, interval_s: float) -> float:
        """Reserve the next turn and return the seconds until it comes."""
        now = time.monotonic()
        if len(self._next) > 1000:
            self._next = {one: at for one, at in self._next.items() if at > now}
        turn = max(now, self._next.get(name, 0.0))
        self._next[name] = turn + interval_s
        return turn - now


async def wait_for(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until the event is set, at most so long (None: for ever); say whether it is."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
