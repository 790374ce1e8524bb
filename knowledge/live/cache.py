"""Caches results for a while, and shares requests in flight between callers."""

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
    """The results of a query; `is_complete` says whether they may be cached."""

    passages: Sequence[Passage]
    is_complete: bool = True


@dataclass(slots=True)
class _PendingRequest:
    """A request in flight, and how many callers wait for it."""

    task: asyncio.Task[LiveResult]
    waiter_count: int = 0


class ResultCache:
    """The results of one source, each for `ttl_s` seconds; with 0 nothing is cached or shared."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._entries: OrderedDict[str, tuple[float, Sequence[Passage]]] = OrderedDict()
        self._pending: dict[str, _PendingRequest] = {}

    async def get_or_fetch(self, query: str, fetch: Callable[[str], Awaitable[LiveResult]]) -> Sequence[Passage]:
        """Return the cached results of a query, else those of `fetch`, which runs once for all concurrent callers.

        Raises what `fetch` raises, for every caller. A cancelled caller does not affect the others; when the last one
        is cancelled, so is the request.
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
        """Drop a request that nobody waits for any more; it is cancelled if it is still in flight."""
        if self._pending.get(query) is pending:
            del self._pending[query]
        if not pending.task.done():
            pending.task.cancel()
            await asyncio.wait([pending.task])
            if not pending.task.cancelled():
                # Retrieved, so that asyncio does not warn of an exception that nobody needs.
                pending.task.exception()
