"""Serving an application over HTTP: connections that never send a request end, and other sites' names are refused."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from core.errors import KimasError

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADER_TIMEOUT_S = 10.0
# Open connections to one port: strangers must leave descriptors for everything else (1,024 without systemd).
MAX_CONNECTIONS = 400
# How many connections the kernel keeps until they are accepted.
BACKLOG = 128


class _NewConnections:
    """Connections that have not sent a request yet; each is closed after `HEADER_TIMEOUT_S` seconds.

    aiohttp would wait for their headers for ever, until every file descriptor is taken. Beyond `MAX_CONNECTIONS`, new
    ones are closed at once.
    """

    def __init__(self) -> None:
        self._waiting: set[RequestHandler] = set()

    def accept(self, server: web.Server) -> asyncio.Protocol:
        """Return the protocol of one more connection."""
        if len(server.connections) >= MAX_CONNECTIONS:
            return _Refused()
        connection = server()
        self._waiting.add(connection)
        asyncio.get_running_loop().call_later(HEADER_TIMEOUT_S, self._close_if_waiting, connection)
        return connection

    def note_request(self, connection: RequestHandler) -> None:
        """Take note that the headers of a request are complete."""
        self._waiting.discard(connection)

    def _close_if_waiting(self, connection: RequestHandler) -> None:
        if connection in self._waiting:
            self._waiting.discard(connection)
            if connection.transport is not None:
                connection.transport.abort()


class _Refused(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


@asynccontextmanager
async def serve_application(
    application: web.Application, host: str, port: int, *, section: str, error_class: type[KimasError]
) -> AsyncIterator[int]:
    """Listen inside the block, whose value is the port.

    Raises `error_class` for an address that cannot be listened on; it names the keys of the configuration's `section`.
    """
    from aiohttp import web

    connections = _NewConnections()

    @web.middleware
    async def note_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        connections.note_request(request.protocol)
        return await handler(request)

    application.middlewares.insert(0, note_request)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=2)
    await runner.setup()
    try:
        try:
            # asyncio tries `backlog` times to accept each time a connection waits, and each time that no descriptor is
            # left, it begins as many more tries a second later: soon the loop would do nothing else.
            server = await asyncio.get_running_loop().create_server(
                lambda: connections.accept(cast("web.Server", runner.server)), host, port, backlog=1
            )
            _lengthen_backlog(server)
        except OSError as error:
            message = f"{section}.host and {section}.port cannot be listened on: {host}:{port}: {error}"
            raise error_class(message) from error
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        await runner.cleanup()


def _lengthen_backlog(server: asyncio.Server) -> None:
    """Let the kernel keep more connections than asyncio accepts at once."""
    for listening_socket in server.sockets:
        # The copy is the same socket to the kernel; asyncio's own does not let itself be changed.
        with listening_socket.dup() as same_socket:
            same_socket.listen(BACKLOG)


def refuse_other_hosts(
    application: web.Application, listen_host: str, allowed_hosts: Collection[str], *, section: str = "metrics"
) -> None:
    """Refuse requests for other hosts where only this machine is listened to.

    A web page of a stranger could otherwise read the answers: its name may lead to 127.0.0.1 a moment later. The
    refusal names the keys of the configuration's `section`.
    """
    from aiohttp import web

    if not _is_loopback(listen_host):
        return

    @web.middleware
    async def check_host(request: web.Request, handler: Handler) -> web.StreamResponse:
        name = request.url.host or ""
        if not (_is_loopback(name) or name in allowed_hosts):
            raise web.HTTPMisdirectedRequest(
                text=f"the host {name[:100]!r} is not allowed: see {section}.allowed_hosts\n"
            )
        return await handler(request)

    application.middlewares.append(check_host)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
