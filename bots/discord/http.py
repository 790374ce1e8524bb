"""discord.py's HTTP client, made to wait where we want it to.

The library's own sleeps inside a call: until a limit has passed, even after Discord took a message and before its id is
returned, and through half a minute of retries. A reply that is being written must know at once what happened. So a call
here is one request: a rate limit is raised as `RateLimited`, and everything has a time limit.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import discord
from discord.http import HTTPClient, Route

from bots.common.bounded_response import BoundedResponse
from bots.common.downloads import download
from bots.discord.connection import DiscordIntervals
from core.runtime.retry_after import parse_retry_after, read_retry_after

RESPONSE_TIMEOUT_S = 20
HANDSHAKE_TIMEOUT_S = 20
CLOSE_TIMEOUT_S = 2.0


class RateLimits:
    """The known state of Discord's rate limits: how many requests a bucket still takes, and when it is refilled."""

    def __init__(self) -> None:
        self._buckets: dict[str, str] = {}
        self._remaining: dict[str, tuple[int, float]] = {}
        self._globally_limited_until = 0.0

    def reserve(self, route: Route) -> float:
        """Count a request and return 0, or return the seconds to wait before it may be made."""
        now = time.monotonic()
        if self._globally_limited_until > now:
            return self._globally_limited_until - now
        key = self._key(route)
        remaining_calls, resets_at = self._remaining.get(key, (1, 0.0))
        if resets_at <= now:
            self._remaining.pop(key, None)
            return 0.0
        if remaining_calls <= 0:
            return resets_at - now
        self._remaining[key] = (remaining_calls - 1, resets_at)
        return 0.0

    def update(self, route: Route, response: aiohttp.ClientResponse) -> None:
        """Note what the headers of an answer say about the route's bucket."""
        headers = response.headers
        if "X-RateLimit-Bucket" in headers:
            self._buckets[route.key] = headers["X-RateLimit-Bucket"]
        try:
            remaining = int(headers["X-RateLimit-Remaining"])
            wait_s = parse_retry_after(headers["X-RateLimit-Reset-After"])
        except (KeyError, ValueError):
            return
        if wait_s is None:
            return
        known_remaining, known_reset_at = self._remaining.get(self._key(route), (remaining, 0.0))
        # Answers overtake each other: of two counts of one period the lower one is the later one.
        is_same_window = abs(known_reset_at - time.monotonic() - wait_s) < 0.5
        self._remaining[self._key(route)] = (
            min(remaining, known_remaining) if is_same_window else remaining,
            time.monotonic() + wait_s,
        )
        if len(self._remaining) > 1000:
            now = time.monotonic()
            self._remaining = {key: value for key, value in self._remaining.items() if value[1] > now}

    def mark_limited(self, route: Route, wait_s: float, *, is_global: bool) -> None:
        """Note that a request came too early: for its bucket, or for all of them."""
        until = time.monotonic() + wait_s
        if is_global:
            self._globally_limited_until = max(self._globally_limited_until, until)
        else:
            self._remaining[self._key(route)] = (0, until)

    def _key(self, route: Route) -> str:
        return f"{self._buckets.get(route.key, route.key)}:{route.major_parameters}"


class DiscordHttp(HTTPClient):
    """The connection to one server: REST calls and the handshake of the gateway's WebSocket.

    `api_url` is where the routes begin, `gateway_url` where the WebSocket is when discord.py asks for the default one.
    """

    def __init__(self, token: str, api_url: str, intervals: DiscordIntervals, gateway_url: str = "") -> None:
        super().__init__(asyncio.get_running_loop())
        self.token = token
        self._api_url = api_url.rstrip("/")
        self._gateway_url = gateway_url
        self._intervals = intervals
        self._rate_limits = RateLimits()
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._connected_at = 0.0
        self._short_lived_count = 0

    async def request(self, route: Route, *, files: Any = None, form: Any = None, **options: Any) -> Any:
        """Make one request. Raises discord.py's `HTTPException` and `RateLimited`, aiohttp's errors, `TimeoutError`."""
        wait_s = self._rate_limits.reserve(route)
        if wait_s > 0:
            raise discord.RateLimited(wait_s)
        headers = {"User-Agent": self.user_agent, "Authorization": f"Bot {self.token}"}
        url = self._api_url + route.url.removeprefix(Route.BASE)
        params = options.get("params")
        json = options.get("json")
        async with (
            asyncio.timeout(RESPONSE_TIMEOUT_S),
            self._get_session().request(route.method, url, headers=headers, params=params, json=json) as response,
        ):
            data: Any = await (response.json() if response.content_type == "application/json" else response.text())
            self._rate_limits.update(route, response)
            if response.status == 429:
                raise self._note_rate_limit(route, response, data)
            if response.status < 300:
                return data
            error_classes = {403: discord.Forbidden, 404: discord.NotFound}
            fallback = discord.DiscordServerError if response.status >= 500 else discord.HTTPException
            raise error_classes.get(response.status, fallback)(response, data)

    async def download(self, url: str, max_bytes: int) -> bytes:
        """Return a file. Its address holds its own permission: the token is not sent along, no redirect followed."""
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            return await download(self._get_session(), url, max_bytes)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        """Open the gateway's WebSocket. Connections that break early are followed by growing pauses."""
        url_parts = urlsplit(url)
        if self._gateway_url and url_parts.hostname == discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY.host:
            url = urlsplit(self._gateway_url)._replace(path="/", query=url_parts.query).geturl()
        connection_age_s = time.monotonic() - self._connected_at
        if self._connected_at:
            # discord.py reconnects at once, for ever: a server that drops every connection would see thousands.
            self._short_lived_count = (
                self._short_lived_count + 1 if connection_age_s < self._intervals.stable_after_s else 0
            )
            if self._short_lived_count:
                await asyncio.sleep(self._intervals.backoff(self._short_lived_count))
        self._connected_at = time.monotonic()
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            self._socket = await super().ws_connect(url, compress=compress)
        return self._socket

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        socket = self._socket
        self._socket = None
        if socket is not None:
            # discord.py loses sight of one whose first exchange failed. Nobody waits long for the farewell.
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await socket.close()
        session = self._session
        self._session = None
        if session is not None:
            await session.close()
        await super().close()

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), response_class=BoundedResponse)
        return self._session

    def _note_rate_limit(self, route: Route, response: aiohttp.ClientResponse, data: Any) -> discord.RateLimited:
        asked_s = parse_retry_after(str(data.get("retry_after"))) if isinstance(data, dict) else None
        asked_s = read_retry_after(response.headers) if asked_s is None else asked_s
        wait_s = 1.0 if asked_s is None else asked_s
        # An answer that is no JSON comes from the front servers, which have shut us out altogether.
        is_global = not isinstance(data, dict) or bool(data.get("global"))
        self._rate_limits.mark_limited(route, wait_s, is_global=is_global)
        return discord.RateLimited(wait_s)
