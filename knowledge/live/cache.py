"""Results that are used again for a while, and requests on their way that several askers share."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from core.types import Passage

MAX_CACHED_QUERIES = 256


@dataclass(frozen=True, slots=True)
class LiveResult:
    """What was found for a query; `whole` says whether it may be used again."""

    passages: Sequence[Passage]
    is_complete: bool = True


@dataclass(slots=True)
class _PendingRequest:
    """A request on its way, and how many wait for it."""

    task: asyncio.Task[LiveResult]
    waiter_count: int = 0


class ResultCache:
    """The results of one source, each for `seconds`; with 0 nothing is kept and nothing is shared."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._entries: OrderedDict[str, tuple[float, Sequence[Passage]]] = OrderedDict()
        self._pending: dict[str, _PendingRequest] = {}

    async def get_or_fetch(self, query: str, fetch: Callable[[str], Awaitable[LiveResult]]) -> Sequence[Passage]:
        """Return what is kept for a query, else what `ask` finds: once for all who want it at the same time.

        Raises what `ask` does, for each of them. Whoever is cancelled leaves the others their answer; with the last one
        the request goes, too.
        """
        entry = self._entries.get(query)
        if entry is not None and time.monotonic() - entry[0] < self._ttl_s:
            return entry[1]
        if self._ttl_s <= 0:
            return (await fetch(query)).passages
        pending = self._pending.get(query)
        if pending is None:
            pending = self._pending[query] = _PendingRequest(asyncio.create_task(self._fetch(query, fetch)))
        pending.waiter_count += 1
        try:
            return (await asyncio.shield(pending.task)).passages
        finally:
            pending.waiter_count -= 1
            if not pending.waiter_count:
                await self._release(query, pending)

    async def _fetch(self, query: str, fetch: Callable[[str], Awaitable[LiveResult]]) -> LiveResult:
        result = await fetch(query)
        if result.is_complete:
            self._entries[query] = (time.monotonic(), result.passages)
            self._entries.move_to_end(query)
            if len(self._entries) > MAX_CACHED_QUERIES:
                self._entries.popitem(last=False)
        return result

    async def _release(self, query: str, pending: _PendingRequest) -> None:
        """Forget a request that nobody waits for any more; one that is still on its way is broken off."""
        if self._pending.get(query) is pending:
            del self._pending[query]
        if not pending.task.done():
            pending.task.cancel()
            await asyncio.wait([pending.task])
            if not pending.task.cancelled():
                # Seen, so that asyncio does not complain of a failure that nobody wants to hear of.
                pending.task.exception()
