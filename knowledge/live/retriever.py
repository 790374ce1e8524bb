"""The common part of all live sources: a cache of results, shared requests, and a quota for each day."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from core.errors import KimasError, SourceError
from core.runtime.leaving import RequireRights, get_judge, judge_requests_by, require_leave
from core.runtime.locks import blocking_file_lock
from core.settings import LiveSource
from core.types import Passage
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, Response, WebClient, resolve_secret

MAX_CACHED_QUERIES = 256
# "2026-11-20 00000123": always the same length, so that one write replaces the count.
COUNT_DIGITS = 8


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The results of a query; `is_complete` says whether they may be cached."""

    passages: Sequence[Passage]
    is_complete: bool = True


@dataclass(slots=True)
class _PendingRequest:
    """A request in flight, and how many callers wait for it; `judges` say whose words may still leave."""

    task: asyncio.Task[LiveResult] | None = None
    waiter_count: int = 0
    judges: list[RequireRights | None] = field(default_factory=list)

    async def require_leave(self) -> None:
        """Raise why nobody's words may leave any more; while somebody's may, they leave for them."""
        refusal: KimasError | None = None
        for judge in self.judges:
            try:
                if judge:
                    await judge()
            except KimasError as error:
                refusal = error
            else:
                return
        if refusal:
            raise refusal


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
        pending_request = self._pending.get(query)
        if pending_request is None:
            pending_request = self._pending[query] = _PendingRequest()
        pending_request.judges.append(get_judge())
        task = pending_request.task = pending_request.task or asyncio.create_task(
            self._fetch(query, fetch, pending_request)
        )
        pending_request.waiter_count += 1
        try:
            return (await asyncio.shield(task)).passages
        finally:
            pending_request.waiter_count -= 1
            if not pending_request.waiter_count:
                await self._release(query, pending_request, task)

    async def _fetch(
        self, query: str, fetch: Callable[[str], Awaitable[LiveResult]], pending_request: _PendingRequest
    ) -> LiveResult:
        # It is for all callers: what became of the first does not matter to the others.
        judge_requests_by(pending_request.require_leave)
        result = await fetch(query)
        if result.is_complete:
            self._entries[query] = (time.monotonic(), result.passages)
            self._entries.move_to_end(query)
            if len(self._entries) > MAX_CACHED_QUERIES:
                self._entries.popitem(last=False)
        return result

    async def _release(self, query: str, pending_request: _PendingRequest, task: asyncio.Task[LiveResult]) -> None:
        """Drop a request that nobody waits for any more; it is cancelled if it is still in flight."""
        if self._pending.get(query) is pending_request:
            del self._pending[query]
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                # Retrieved, so that asyncio does not warn of an exception that nobody needs.
                task.exception()


class DailyQuota:
    """The requests of one source from midnight to midnight, local time. The count is in `file`."""

    def __init__(self, name: str, file: Path, daily_limit: int, today: Callable[[], date] = date.today) -> None:
        self._name = name
        self._file = file
        self._daily_limit = daily_limit
        self._today = today

    async def reserve(self, request_count: int) -> None:
        """Count requests that are about to be sent. Raises `SourceError`, and counts none, when fewer are left.

        A count that cannot be written is a `SourceError`, too: nobody would know how many were sent.
        """
        await asyncio.to_thread(self._reserve, request_count)

    def _reserve(self, request_count: int) -> None:
        try:
            with (
                # Held for as long as two system calls take.
                blocking_file_lock(self._file.with_name(f"{self._file.name}.lock")),
                os.fdopen(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as counter_file,
            ):
                sent_count = self._parse_count(counter_file.read()) + request_count
                if sent_count > self._daily_limit:
                    raise SourceError(
                        f"source {self._name}: its requests_per_day ({self._daily_limit}) are used up until midnight"
                    )
                counter_file.seek(0)
                counter_file.write(f"{self._today().isoformat()} {sent_count:0{COUNT_DIGITS}}".encode())
        except OSError as error:
            raise SourceError(
                f"source {self._name}: its requests cannot be counted in {self._file}: {error.strerror or error}"
            ) from error

    def _parse_count(self, content: bytes) -> int:
        day, _, count = content.decode("ascii", "replace").partition(" ")
        return int(count) if day == self._today().isoformat() and count.isdecimal() else 0


class LiveRetriever:
    """The base of all live sources, each queried at question time. Call `close` at the end."""

    def __init__(self, name: str, settings: LiveSource, url: str, quota: DailyQuota | None = None) -> None:
        self.name = name
        # The address as messages may show it.
        self.display_url = redact_url(url)
        self._api_key = settings.api_key
        self._quota = quota
        self._client = WebClient(settings.allow_private)
        self._cache = ResultCache(settings.cache_s)

    async def search(self, query: str) -> Sequence[Passage]:
        """Return the results for a query, best first, scored from 0 to 1 by what the service says: its score
        or rank, times the factor.

        Complete results of the same query are cached for `cache_s` seconds, and concurrent callers share the same
        requests. Raises `SourceError` when nothing can be reached, refuses, or answers with something else than what
        is expected, when the key is missing, and when the requests of the day are used up.
        """
        await require_leave()
        return await self._cache.get_or_fetch(query, self._search_uncached)

    def get_factor(self, passage: Passage) -> float:
        """Return the factor (0 to 1) for all scores of a result."""
        return 1.0

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        await self._client.close()

    async def _send(self, request: Request) -> Response:
        """Send a request whose words may still leave: what came before it may have taken a while."""
        await require_leave()
        return await self._client.fetch(request)

    async def _search_uncached(self, query: str) -> LiveResult:
        raise NotImplementedError

    async def _resolve_key(self, owner: str) -> str:
        try:
            return await resolve_secret(self._api_key)
        except SourceError as error:
            raise SourceError(f"{owner}: {error}") from error
