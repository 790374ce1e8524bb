"""A web server over real HTTP that behaves and misbehaves: pages, search services, redirects, lies.

    async with WebPeer() as web:
        web.pages["/docs"] = Page("<html>...</html>")
        ...  # talk to web.url("/docs"); what arrived is in web.requests

`hits` are what its search services find; each speaks its own shape and refuses what the original would.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KEY = "peer-key"


@dataclass(frozen=True, slots=True)
class Page:
    """What a path answers."""

    body: str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    text: str
    date: str = ""


class WebPeer:
    """`failure_mode` makes every answer `slow` (never comes), `endless`, `short` (less than its length says), `bomb`
    (gzip that grows), `html`, `broken` (JSON cut in half) or `drop` (the connection closes). `status` answers
    with this status. `tagged` pages carry an ETag; `statuses` are what pages were answered with.
    """

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.hits: list[Hit] = []
        self.requests: list[web.Request] = []
        self.bodies: list[Any] = []
        self.failure_mode = ""
        self.status = 0
        self.statuses: list[int] = []
        self.tagged = False
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> WebPeer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def url(self, path: str = "", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.json() if request.can_read_body else None)
        if self.failure_mode:
            return await self._misbehave(request)
        if self.status:
            return web.Response(status=self.status, text="refused")
        service = SERVICES.get(request.path)
        if service is not None:
            return service(self, request)
        page = self.pages.get(request.path_qs) or self.pages.get(request.path)
        if page is None:
            return web.Response(status=404, text="not here")
        body = page.body.encode() if isinstance(page.body, str) else page.body
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if self.tagged and page.status == 200 and request.headers.get("If-None-Match") == tag:
            return self._record_status(web.Response(status=304, headers={**page.headers, "ETag": tag}))
        tags = {"ETag": tag} if self.tagged else {}
        return self._record_status(web.Response(status=page.status, body=body, headers={**page.headers, **tags}))

    def _record_status(self, response: web.Response) -> web.Response:
        self.statuses.append(response.status)
        return response

    async def _misbehave(self, request: web.Request) -> web.StreamResponse:
        if self.failure_mode == "slow":
            await asyncio.Event().wait()
        if self.failure_mode == "html":
            return web.Response(text="<html>Sign in</html>", content_type="text/html")
        if self.failure_mode == "broken":
            return web.Response(text='{"results": [{"title": "x', content_type="application/json")
        if self.failure_mode == "bomb":
            packed = gzip.compress(b"0" * 64 * 2**20)
            return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})
        if self.failure_mode == "drop":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        response = web.StreamResponse(headers={"Content-Length": "1000"} if self.failure_mode == "short" else {})
        await response.prepare(request)
        if self.failure_mode == "short":
            await response.write(b"{}")
            assert request.transport is not None
            request.transport.abort()
            return response
        while True:
            await response.write(b" " * 65536)


def _json(data: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, text=json.dumps(data), content_type="application/json")


def _tavily(peer: WebPeer, request: web.Request) -> web.Response:
    body = peer.bodies[-1]
    if request.method != "POST" or request.headers.get("Authorization") != f"Bearer {KEY}":
        return _json({"detail": {"error": "Unauthorized"}}, 401)
    known_fields = {
        "query": str,
        "max_results": int,
        "search_depth": str,
        "topic": str,
        "include_domains": list,
        "time_range": str,
    }
    if not all(name in known_fields and isinstance(value, known_fields[name]) for name, value in body.items()):
        return _json({"detail": "unprocessable"}, 422)
    if body.get("topic", "general") not in ("general", "news", "finance") or body["search_depth"] not in (
        "basic",
        "advanced",
    ):
        return _json({"detail": "unprocessable"}, 422)
    results = [{"title": hit.title, "url": hit.url, "content": hit.text, "score": 0.9} for hit in peer.hits]
    return _json({"query": body["query"], "results": results[: body["max_results"]], "response_time": 0.1})


def _brave(peer: WebPeer, request: web.Request) -> web.Response:
    if request.headers.get("X-Subscription-Token") != KEY:
        return _json({"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, 422)
    if not 1 <= int(request.query["count"]) <= 20 or not request.query["q"]:
        return _json({"error": {"code": "VALIDATION"}}, 422)
    results = [
        {"title": hit.title, "url": hit.url, "description": f"<strong>{hit.text}</strong>", "extra_snippets": ["More."]}
        for hit in peer.hits
    ]
    if "/news/" in request.path:
        return _json({"type": "news", "results": results})
    return _json({"type": "search", "web": {"type": "search", "results": results}})


def _searxng(peer: WebPeer, request: web.Request) -> web.Response:
    if request.query.get("format") != "json":
        return web.Response(status=403, text="Forbidden")
    if request.query.get("time_range", "day") not in ("day", "week", "month", "year"):
        return web.Response(status=400, text="Invalid settings")
    results = [
        {"title": hit.title, "url": hit.url, "content": hit.text, "publishedDate": hit.date or None}
        for hit in peer.hits
    ]
    return _json({"query": request.query["q"], "results": results, "number_of_results": 0})


def _google(peer: WebPeer, request: web.Request) -> web.Response:
    if request.query.get("key") != KEY or not request.query.get("cx"):
        return _json({"error": {"code": 400, "message": "API key not valid."}}, 400)
    if int(request.query["num"]) > 10:
        return _json({"error": {"code": 400, "message": "Request contains an invalid argument."}}, 400)
    results = [{"title": hit.title, "link": hit.url, "snippet": hit.text} for hit in peer.hits]
    return _json({"items": results} if results else {"searchInformation": {"totalResults": "0"}})


def _bing(peer: WebPeer, request: web.Request) -> web.Response:
    if request.headers.get("Ocp-Apim-Subscription-Key") != KEY:
        return _json({"error": {"code": "401"}}, 401)
    if request.query.get("freshness", "Day") not in ("Day", "Week", "Month"):
        return _json({"error": {"code": "InvalidRequest"}}, 400)
    if "/news/" in request.path:
        articles = [{"name": hit.title, "url": hit.url, "description": hit.text} for hit in peer.hits]
        return _json({"_type": "News", "value": articles})
    results = [{"name": hit.title, "url": hit.url, "snippet": hit.text} for hit in peer.hits]
    return _json({"_type": "SearchResponse", "webPages": {"value": results}})


# Each at the place where its API has it, so that one peer can stand for all of them.
def _mcp(peer: WebPeer, request: web.Request) -> web.Response:
    """A server of MCP without sessions, of the time before 2026-07-28."""
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return _json({"error": "unauthorized"}, 401)
    if request.method != "POST":
        return web.Response(status=405)
    message = peer.bodies[-1]
    if "id" not in message:
        return web.Response(status=202)
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    hits = [{"title": hit.title, "url": hit.url, "text": hit.text} for hit in peer.hits]
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "search", "inputSchema": schema}]},
        "tools/call": {"content": [{"type": "text", "text": json.dumps({"results": hits})}]},
    }
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] not in results:
        return _json({**reply, "error": {"code": -32601, "message": "Method not found"}})
    return _json({**reply, "result": results[message["method"]]})


SERVICES = {
    "/tavily/search": _tavily,
    "/brave/res/v1/web/search": _brave,
    "/brave/res/v1/news/search": _brave,
    "/searxng/search": _searxng,
    "/google/customsearch/v1": _google,
    "/bing/v7.0/search": _bing,
    "/bing/v7.0/news/search": _bing,
    "/mcp": _mcp,
}
