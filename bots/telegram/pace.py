"""How fast things go: the intervals of polling, streaming and retrying."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """All intervals in seconds. The defaults keep within the limits of Telegram's own servers.

    A group takes about 20 messages and edits a minute from one bot, which is what `edit_s` is made for; drafts in
    private chats are cheaper. The typing notice fades after 5 s. `patience_s` bounds how long a final reply is retried,
    `parting_s` how long a message on its way holds up a stop.
    """

    poll_s: int = 25
    edit_s: float = 3.0
    draft_s: float = 1.0
    typing_s: float = 4.5
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
