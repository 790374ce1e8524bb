"""The requests of one account: errors of the platform, ETags of the last round, a pause between changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from bots.forges.connection import ForgeIntervals, Moved, platform_errors
from knowledge.sources.forge.api import MAX_PAGES, PER_PAGE, ApiLimits, ForgeApi, format_iso8601, parse_timestamp
from knowledge.sources.forge.github import get_graphql_url
from knowledge.web.client import WebClient
from knowledge.web.values import dig

Json = Mapping[str, Any]
MAX_PAGE_KB = 16_384


class ForgeTransport:
    """Calls raise a `PlatformError` (`bots/forges/connection.py`); redirects are not followed.

    The token goes to `api_url` alone; `web` may have it instead of the headers.
    """

    def __init__(
        self, api_url: str, headers: Mapping[str, str], intervals: ForgeIntervals, web: WebClient | None = None
    ) -> None:
        self._web = web or WebClient([urlsplit(api_url).hostname or ""])
        self._etags: dict[str, str] = {}
        limits = ApiLimits(intervals.timeout_s, MAX_PAGE_KB)
        self._api = ForgeApi(self._web, api_url, headers, limits, etags=self._etags, check_redirect=_refuse_redirect)
        self._graphql_url = get_graphql_url(api_url)
        self._intervals = intervals
        self._write_lock = asyncio.Lock()
        self._last_write_at = 0.0
        self._next_turn_at = 0.0

    @property
    def replied_at(self) -> float:
        """When the forge sent its last reply, by its own clock, in seconds since 1970; 0 where it does not say."""
        return self._api.replied_at or 0.0

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._web.close()

    def forget_older_etags(self) -> None:
        """End a round: the next one compares with what this one received."""
        self._etags.clear()
        self._etags.update(self._api.received_etags)
        self._api.received_etags.clear()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return what is at a path."""
        with platform_errors():
            return await self._api.get(path, params)

    async def pages(self, path: str, params: Mapping[str, str], *, is_conditional: bool = False) -> AsyncIterator[Any]:
        """Yield the objects of a list; with `is_conditional` nothing if the first page is as in the last round."""
        with platform_errors():
            async for item in self._api.pages(path, params, conditional=is_conditional, skips_large=True):
                yield item

    async def changes(self, path: str, params: Mapping[str, str], since_name: str, since: int) -> AsyncIterator[Any]:
        """Yield what changed since a time, the earliest change first.

        Further pages are asked for by time: what is changed or deleted meanwhile would move others to earlier pages.
        """
        seen = set[str]()
        for _ in range(MAX_PAGES):
            newest = since
            count = 0
            async for item in self.pages(path, {**params, since_name: format_iso8601(since)}):
                count += 1
                updated_at = dig(item, "updated_at")
                newest = max(newest, int(parse_timestamp(updated_at)))
                version = f"{dig(item, 'id')} {updated_at}"
                if version not in seen:
                    seen.add(version)
                    yield item
                # Of what changed within one second there may be more than a page.
                if count >= PER_PAGE and newest > since:
                    break
            else:
                return
            since = newest

    async def query(self, text: str, variables: Json) -> Json:
        """Return the data that a GraphQL query is about."""
        with platform_errors():
            data: Json = await self._api.query(self._graphql_url, text, variables)
            return data

    async def wait_to_write(self) -> None:
        """Wait for a turn to change something: what is judged afterwards is not held up by the pauses any more."""
        now = time.monotonic()
        turn_at = max(now, self._next_turn_at, self._last_write_at + self._intervals.write_s)
        self._next_turn_at = turn_at + self._intervals.write_s
        await asyncio.sleep(turn_at - now)

    async def change(self, method: str, path: str, body: Json) -> Any:
        """Send a request that changes something: one at a time, with a pause before the next one."""
        async with self._pace():
            return await self._api.change(method, path, body)

    async def mutate(self, text: str, variables: Json) -> Json:
        """Send a GraphQL mutation, with the same pauses, and return its data."""
        async with self._pace():
            data: Json = await self._api.mutate(self._graphql_url, text, variables)
            return data

    @asynccontextmanager
    async def _pace(self) -> AsyncIterator[None]:
        async with self._write_lock:
            await asyncio.sleep(max(0.0, self._last_write_at + self._intervals.write_s - time.monotonic()))
            try:
                with platform_errors():
                    yield
            finally:
                self._last_write_at = time.monotonic()


def _refuse_redirect(url: str) -> None:
    raise Moved("it has moved to another place, which is not followed")
