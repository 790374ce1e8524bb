"""`/mcp` on the daemon's server: the SDK of MCP speaks ASGI, and our server is aiohttp's.

Both eras of the protocol are served: up to 2025-11-25 with sessions, and 2026-07-28 without.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from bots.api.mcp.knowledge import JUDGES, OpenKnowledge
from bots.api.streaming import LOOK_S, has_gone
from core.errors import KimasError
from core.observability.logs import get_logger
from core.runtime.leaving import RequireRights

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_log = get_logger(__name__)

# Sessions of all clients; those that nobody uses end after half an hour.
MAX_SESSIONS = 1000
# Proxies must not hold back what an event stream has.
STREAM_HEADERS = {"X-Accel-Buffering": "no"}
VERSION_HEADER = b"mcp-protocol-version"
SESSION_HEADER = b"mcp-session-id"
# As JSON-RPC numbers it.
INTERNAL_ERROR = -32603
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


class McpEndpoint:
    """Answers the requests to `/mcp`. The SDK is loaded by the first of them, which takes a moment."""

    def __init__(self, open_knowledge: OpenKnowledge) -> None:
        self._open_knowledge = open_knowledge
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._owner: asyncio.Task[None] | None = None

    async def handle(
        self, request: web.Request, client: str, body: bytes, headers: dict[str, str]
    ) -> web.StreamResponse:
        """Answer one request of a client, with these headers besides."""
        if self._manager is None:
            self._manager = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._run(self._manager))
        manager = await asyncio.shield(self._manager)
        exchange = _Exchange(request, body, headers)
        scope = _make_scope(request, client, body, exchange.judges)
        await manager.handle_request(scope, exchange.receive, exchange.send)
        return exchange.response

    async def close(self) -> None:
        """End all sessions."""
        if self._owner:
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)

    async def _run(self, started: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Own the sessions: the task that begins them has to end them."""
        try:
            manager = await asyncio.to_thread(_make_manager, self._open_knowledge)
            async with manager.run():
                started.set_result(manager)
                await asyncio.Event().wait()
        except Exception as error:
            # Whoever waits is told; the log has the rest.
            _log.error("mcp.not_started", error=str(error), exc_info=error)
            self._manager = None
            if not started.done():
                started.set_exception(error)


@asynccontextmanager
async def open_endpoint(open_knowledge: OpenKnowledge) -> AsyncIterator[McpEndpoint]:
    """Open the endpoint for the length of the block."""
    endpoint = McpEndpoint(open_knowledge)
    try:
        yield endpoint
    finally:
        await endpoint.close()


def _make_manager(open_knowledge: OpenKnowledge) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from bots.api.mcp.server import make_server

    return StreamableHTTPSessionManager(make_server(open_knowledge), max_sessions=MAX_SESSIONS)


def _make_scope(request: web.Request, client: str, body: bytes, judges: list[RequireRights]) -> dict[str, Any]:
    """Return a request as ASGI describes it, with its judges. A session belongs to the client that began it."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": _route([(name.lower(), value) for name, value in request.raw_headers], body),
        "client": None,
        "server": None,
        "user": AuthenticatedUser(AccessToken(token="", client_id=client, scopes=[])),
        JUDGES: judges,
    }


def _route(headers: list[tuple[bytes, bytes]], body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers by which the SDK finds the era and the session of a request.

    It asks the header alone for the era. A body of the later era that has another version there, or none, has to be
    refused as such: without a version the SDK does so. Who begins anew may still send the session from before a
    restart.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        # The SDK says what is wrong.
        return headers
    if not isinstance(message, dict):
        return headers
    if message.get("method") == "initialize":
        return [header for header in headers if header[0] != SESSION_HEADER]
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    if not isinstance(version, str) or (VERSION_HEADER, version.encode()) in headers:
        return headers
    return [*(header for header in headers if header[0] != VERSION_HEADER), (VERSION_HEADER, b"")]


class _Exchange:
    """The two channels of ASGI: the body of a request, and its response.

    Whoever answers the request adds to `judges` what raises once the answer may not be told any more: between that and
    its bytes the SDK takes its time.
    """

    def __init__(self, request: web.Request, body: bytes, headers: dict[str, str]) -> None:
        self._request = request
        self._body: bytes | None = body
        self._request_body = body
        self._headers = headers
        self.judges: list[RequireRights] = []
        self._is_refused = False
        self.response = web.StreamResponse(status=500)

    async def receive(self) -> dict[str, Any]:
        """Return the body, and afterwards, when the client has gone, that."""
        if self._body is not None:
            body = self._body
            self._body = None
            return {"type": "http.request", "body": body, "more_body": False}
        while not has_gone(self._request):  # noqa: ASYNC110
            # aiohttp says it to nobody.
            await asyncio.sleep(LOOK_S)
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the status and the headers, or a part of the body. A client that has gone misses it."""
        try:
            if message["type"] == "http.response.start":
                self.response = web.StreamResponse(status=message["status"])
                for name, value in message["headers"]:
                    self.response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
                self.response.headers.update({**STREAM_HEADERS, **self._headers})
                # What is sent in place of it has another length.
                self.response.headers.popall("Content-Length", None)
                await self.response.prepare(self._request)
                return
            await self.response.write(await self._judge(message.get("body", b"")))
            if not message.get("more_body", False):
                await self.response.write_eof()
        except ConnectionError as error:
            _log.debug("mcp.client_gone", error=str(error))

    async def _judge(self, body: bytes) -> bytes:
        """Return a part of the response, or an error in its place where its words may not be told any more."""
        try:
            for require_rights in self.judges if body else ():
                await require_rights()
        except KimasError as error:
            refusal = b"" if self._is_refused else self._make_refusal(str(error))
            self._is_refused = True
            return refusal
        return body

    def _make_refusal(self, reason: str) -> bytes:
        identifier = json.loads(self._request_body).get("id")
        error = {"code": INTERNAL_ERROR, "message": reason}
        text = json.dumps({"jsonrpc": "2.0", "id": identifier, "error": error})
        is_stream = self.response.headers.get("Content-Type", "").startswith("text/event-stream")
        return f"event: message\r\ndata: {text}\r\n\r\n".encode() if is_stream else text.encode()
