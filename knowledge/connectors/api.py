"""The API of a service as connectors call it: they wait where it asks to wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from core.settings.connectors import ConnectorOptions
from knowledge.sources.forge.api import ApiLimits, ForgeApi, RateLimited
from knowledge.web.client import ResponseTooLarge, WebClient

# A service that asks for a longer pause is left alone until the next refresh.
MAX_PAUSE_S = 60.0
MAX_PAUSES = 20
TIMEOUT_S = 20.0
MAX_REPLY_KB = 16_384
# All replies together from which one document is made.
MAX_DOCUMENT_BYTES = 16 * 2**20


class TimeUp(Exception):
    """The time of a refresh is used up."""


class ConnectorApi:
    """Sends requests, and again after the pause that the service asks for, as long as there is time until `deadline`
    (in seconds since 1970). Raises `TimeUp` then, `RateLimited` for a longer pause, and `SourceError` for all else.
    `reply_count` counts the requests that were not refused. Within `document` it raises `ResponseTooLarge` where all
    replies together are more than one document may take.
    """

    def __init__(self, api: ForgeApi, deadline: float) -> None:
        self.reply_count = 0
        self._api = api
        self._deadline = deadline
        self._max_received_bytes: int | None = None

    @property
    def now(self) -> float:
        """The time by the clock of the service, in seconds since 1970; by ours before it said so."""
        return self._api.replied_at or time.time()

    @contextmanager
    def document(self) -> Iterator[None]:
        """Read one document in this block."""
        self._max_received_bytes = self._api.received_bytes + MAX_DOCUMENT_BYTES
        try:
            yield
        finally:
            self._max_received_bytes = None

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return what is at a path."""
        return await self._wait_and_call(lambda: self._api.get(path, params))

    async def get_content(self, path: str, params: Mapping[str, str]) -> bytes:
        """Return the file at a path."""
        content: bytes = await self._wait_and_call(lambda: self._api.get_content(path, params))
        return content

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what the service answers to a body, which changes nothing there."""
        return await self._wait_and_call(lambda: self._api.change("POST", path, body))

    async def _wait_and_call(self, call: Callable[[], Awaitable[Any]]) -> Any:
        for _ in range(MAX_PAUSES):
            if time.time() >= self._deadline:
                raise TimeUp
            try:
                reply = await call()
            except RateLimited as error:
                pause_s = error.until - time.time()
                if pause_s > MAX_PAUSE_S or time.time() + pause_s > self._deadline:
                    raise
                await asyncio.sleep(max(pause_s, 0.0))
            else:
                self.reply_count += 1
                if self._max_received_bytes is not None and self._api.received_bytes > self._max_received_bytes:
                    raise ResponseTooLarge(f"it is larger than {MAX_DOCUMENT_BYTES // 2**20} MB")
                return reply
        return await call()


@asynccontextmanager
async def open_api(
    options: ConnectorOptions, base: str, headers: Mapping[str, str], seconds: float
) -> AsyncIterator[ConnectorApi]:
    """Yield the API below an address, which may be used for so many seconds. Each request carries the headers."""
    async with WebClient(options.allow_private) as client:
        api = ForgeApi(client, base, headers, ApiLimits(TIMEOUT_S, MAX_REPLY_KB), etags={})
        yield ConnectorApi(api, time.time() + seconds)
