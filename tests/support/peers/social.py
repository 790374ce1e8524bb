"""What the peers of social networks share: a server whose calls fail as told, and whose rate limit is kept.

`fail` makes the next calls of a name fail, such as `POST statuses`; `watch` is called with the name of a call and
"before" or "after" it is done.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from aiohttp import web


class SocialPeer(ABC):
    def __init__(self) -> None:
        self.redirects_to = ""
        self.calls: list[str] = []
        self.violations: list[str] = []
        # Texts of answers, and what is sent in place of them: what no program here could write.
        self.raw: dict[str, str] = {}
        # Calls that are done, and answered with null.
        self.nulls: list[str] = []
        self.watch: Callable[[str, str], Awaitable[None]] | None = None
        # What is left of a rate limit, None without one, and when it is reset.
        self.calls_left: int | None = None
        self.reset_s = 1.0
        self._limited_until = 0.0
        self._failures: dict[str, list[tuple[int, str, dict[str, str], str]]] = defaultdict(list)
        self._is_away = False
        self._runner: web.AppRunner | None = None
        self.port = 0

    @abstractmethod
    def add_routes(self, router: web.UrlDispatcher) -> None: ...

    @abstractmethod
    def name_call(self, request: web.Request) -> str: ...

    @abstractmethod
    def check_access(self, request: web.Request) -> web.Response | None: ...

    @abstractmethod
    def make_limit_headers(self, reset: datetime) -> dict[str, str]: ...

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._check])
        self.add_routes(app.router)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await self.listen()
        return self

    async def listen(self) -> None:
        """Listen, on the same port again after `away`."""
        assert self._runner is not None
        self._is_away = False
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def away(self) -> None:
        """Refuse connections, and end those that there are."""
        assert self._runner is not None
        self._is_away = True
        for site in list(self._runner.sites):
            await site.stop()

    async def __aexit__(self, *exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fail(
        self, name: str, status: int = 0, *, times: int = 1, error: str = "failed", drop: str = "", **headers: str
    ) -> None:
        self._failures[name] += [(status, error, headers, drop)] * times

    @web.middleware
    async def _check(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._is_away:
            return _drop_connection(request)
        name = self.name_call(request)
        self.calls.append(name)
        if self.redirects_to:
            return web.Response(status=301, headers={"Location": self.redirects_to + request.path})
        if refusal := self._check_limit(name) or self.check_access(request):
            return refusal
        if self.watch:
            await self.watch(name, "before")
        status, error, headers, drop = self._failures[name].pop(0) if self._failures[name] else (0, "", {}, "")
        if drop == "before":
            return _drop_connection(request)
        if status:
            header_names = {key.replace("_", "-"): value for key, value in headers.items()}
            return make_error(status, error, header_names)
        answer = await handler(request)
        if self.watch:
            await self.watch(name, "after")
        if name in self.nulls:
            self.nulls.remove(name)
            return web.json_response(None)
        for text, other in self.raw.items():
            answer.body = answer.body.replace(text.encode(), other.encode())  # type: ignore[attr-defined]
        return _drop_connection(request) if drop == "after" else answer

    def _check_limit(self, name: str) -> web.Response | None:
        """Count a call; the first one too many is told when the limit is reset, and further ones are violations."""
        now = time.monotonic()
        if now < self._limited_until:
            self.violations.append(f"{name} while the rate limit is used up")
        elif self.calls_left is None or self.calls_left > 0:
            self.calls_left = None if self.calls_left is None else self.calls_left - 1
            return None
        else:
            self._limited_until = now + self.reset_s
            self.calls_left = None
        headers = self.make_limit_headers(datetime.now(UTC) + timedelta(seconds=self._limited_until - now))
        return make_error(429, "Too many requests", headers)


def make_error(status: int, text: str, headers: dict[str, str] | None = None, **fields: Any) -> web.Response:
    return web.json_response({"error": text, **fields}, status=status, headers=headers)


def _drop_connection(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
