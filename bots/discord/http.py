"""discord.py's HTTP client, made to wait where we want it to.

The library's own sleeps inside a call: until a limit has passed, even after Discord took a message and before its id is
returned, and through half a minute of retries. An answer in the making must know at once what happened. So a call here
is one request: a limit that is known or told is raised as `RateLimited`, and everything has a time limit.
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

from bots.common.downloads import content_of
from bots.discord.connection import Pace, Unreachable

ANSWER_TIMEOUT_S = 20
HANDSHAKE_TIMEOUT_S = 20
FAREWELL_S = 2.0
CHUNK = 65536


class Limits:
    """What is known of Discord's limits: how many requests a bucket takes still, and when it is full again."""

    def __init__(self) -> None:
        self._buckets: dict[str, str] = {}
        self._left: dict[str, tuple[int, float]] = {}
        self._closed_until = 0.0

    def take(self, route: Route) -> float:
        """Count a request; return the seconds to wait before it instead, when there are any."""
        now = time.monotonic()
        if self._closed_until > now:
            return self._closed_until - now
        key = self._key(route)
        left, full_again = self._left.get(key, (1, 0.0))
        if full_again <= now:
            self._left.pop(key, None)
            return 0.0
        if left <= 0:
            return full_again - now
        self._left[key] = (left - 1, full_again)
        return 0.0

    def learn(self, route: Route, response: aiohttp.ClientResponse) -> None:
        """Note what the headers of an answer say about the route's bucket."""
        headers = response.headers
        if "X-RateLimit-Bucket" in headers:
            self._buckets[route.key] = headers["X-RateLimit-Bucket"]
        try:
            left, wait_s = int(headers["X-RateLimit-Remaining"]), float(headers["X-RateLimit-Reset-After"])
        except (KeyError, ValueError):
            return
        known, until = self._left.get(self._key(route), (left, 0.0))
        # Answers overtake each other: of two counts of one period the lower one is the later one.
        same = abs(until - time.monotonic() - wait_s) < 0.5
        self._left[self._key(route)] = (min(left, known) if same else left, time.monotonic() + wait_s)
        if len(self._left) > 1000:
            now = time.monotonic()
            self._left = {key: value for key, value in self._left.items() if value[1] > now}

    def refused(self, route: Route, wait_s: float, *, everywhere: bool) -> None:
        """Note that a request came too early: for its bucket, or for all of them."""
        until = time.monotonic() + wait_s
        if everywhere:
            self._closed_until = max(self._closed_until, until)
        else:
            self._left[self._key(route)] = (0, until)

    def _key(self, route: Route) -> str:
        return f"{self._buckets.get(route.key, route.key)}:{route.major_parameters}"


class Http(HTTPClient):
    """The connection to one server: REST calls and the handshake of the gateway's WebSocket.

    `api_url` is where the routes begin, `gateway_url` where the WebSocket is when discord.py asks for the default one.
    """

    def __init__(self, token: str, api_url: str, pace: Pace, gateway_url: str = "") -> None:
        super().__init__(asyncio.get_running_loop())
        self.token = token
        self._api_url = api_url.rstrip("/")
        self._gateway_url = gateway_url
        self._pace = pace
        self._limits = Limits()
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._connected_at = 0.0
        self._short_lived = 0

    async def request(self, route: Route, *, files: Any = None, form: Any = None, **options: Any) -> Any:
        """Make one request. Raises discord.py's `HTTPException` and `RateLimited`, aiohttp's errors, `TimeoutError`."""
        wait_s = self._limits.take(route)
        if wait_s > 0:
            raise discord.RateLimited(wait_s)
        headers = {"User-Agent": self.user_agent, "Authorization": f"Bot {self.token}"}
        url = self._api_url + route.url.removeprefix(Route.BASE)
        given = {"params": options.get("params"), **({"json": options["json"]} if "json" in options else {})}
        async with (
            asyncio.timeout(ANSWER_TIMEOUT_S),
            self._opened().request(route.method, url, headers=headers, **given) as response,
        ):
            data: Any = await (response.json() if response.content_type == "application/json" else response.text())
            self._limits.learn(route, response)
            if response.status == 429:
                raise self._too_fast(route, response, data)
            if response.status < 300:
                return data
            kinds = {403: discord.Forbidden, 404: discord.NotFound}
            fallback = discord.DiscordServerError if response.status >= 500 else discord.HTTPException
            raise kinds.get(response.status, fallback)(response, data)

    async def content(self, url: str, most: int) -> bytes:
        """Return a file. Its address holds its own permission: the token is not sent along, no redirect followed."""
        try:
            async with (
                asyncio.timeout(ANSWER_TIMEOUT_S),
                self._opened().get(url, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    raise Unreachable(f"Discord did not hand over a file: status {response.status}")
                return await content_of(response.content.iter_chunked(CHUNK), most)
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"Discord did not hand over a file: {type(error).__name__}") from error

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        """Open the gateway's WebSocket. Connections that break early are followed by growing pauses."""
        asked = urlsplit(url)
        if self._gateway_url and asked.hostname == discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY.host:
            url = urlsplit(self._gateway_url)._replace(path="/", query=asked.query).geturl()
        lasted_s = time.monotonic() - self._connected_at
        if self._connected_at:
            # discord.py reconnects at once, for ever: a server that drops every connection would see thousands.
            self._short_lived = self._short_lived + 1 if lasted_s < self._pace.steady_s else 0
            if self._short_lived:
                await asyncio.sleep(self._pace.backoff(self._short_lived))
        self._connected_at = time.monotonic()
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            self._socket = await super().ws_connect(url, compress=compress)
        return self._socket

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        socket, self._socket = self._socket, None
        if socket is not None:
            # discord.py loses sight of one whose first exchange failed. Nobody waits long for the farewell.
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    await socket.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        await super().close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _too_fast(self, route: Route, response: aiohttp.ClientResponse, data: Any) -> discord.RateLimited:
        told = data.get("retry_after") if isinstance(data, dict) else response.headers.get("Retry-After")
        try:
            wait_s = max(float(told or 1.0), 0.0)
        except (TypeError, ValueError):
            wait_s = 1.0
        # An answer that is no JSON comes from the front servers, which have shut us out altogether.
        everywhere = not isinstance(data, dict) or bool(data.get("global"))
        self._limits.refused(route, wait_s, everywhere=everywhere)
        return discord.RateLimited(wait_s)
