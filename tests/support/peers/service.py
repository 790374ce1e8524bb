"""What the peers of connectors share: refusals of unknown parameters, wrong tokens and too many requests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.support.peers.web import WebPeer

TOKEN = "service-secret-token"


class ServicePeer(WebPeer):
    """`limits` are the `Retry-After` of the next requests below `limited_path`, "" for a 429 without it. `broken` has
    statuses by path, `odd` what is replied in place of what was asked for; after `broken_after` requests (0: never) all
    others answer 500.
    """

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[str] = []
        self.limited_path = ""
        self.broken: dict[str, int] = {}
        self.odd: dict[str, Any] = {}
        self.broken_after = 0

    def paths(self) -> list[str]:
        """Return what was asked for, and forget it."""
        paths = [request.path for request in self.requests]
        self.requests.clear()
        return paths

    def answer(self, request: web.Request) -> web.Response:
        """Return what the service answers."""
        raise NotImplementedError

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.json() if request.can_read_body else None)
        if self.failure_mode:
            return await self._misbehave(request)
        if self.limits and request.path.startswith(self.limited_path):
            wait = self.limits.pop(0)
            return reply({"errors": ["slow down"]}, 429, {"Retry-After": wait} if wait else {})
        if 0 < self.broken_after < len(self.requests):
            return reply({"message": "broken"}, 500)
        if status := self.broken.get(request.path, self.status):
            return reply({"message": "refused"}, status)
        return reply(self.odd[request.path]) if request.path in self.odd else self.answer(request)


def reply(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=json.dumps(data), content_type="application/json", headers=headers)


def find_unknown(request: web.Request, *names: str) -> str:
    """Return a parameter that is none of these, or an empty text."""
    return next((name for name in request.query if name not in names), "")


def match(pattern: str, request: web.Request) -> list[str] | None:
    """Return the groups of a path that fits a pattern."""
    found = re.fullmatch(pattern, request.path)
    return list(found.groups()) if found else None
