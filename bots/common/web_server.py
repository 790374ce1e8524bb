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


class _NewConnections:
    """Connections that have not sent a request yet; each is closed after `HEADER_TIMEOUT_S` seconds.

    aiohttp would wait for their headers for ever, until every file descriptor is taken.
    """

    def __init__(self) -> None:
        self._waiting: set[RequestHandler] = set()

    def accept(self, server: web.Server) -> RequestHandler:
        """Return the protocol of one more connection."""
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
            server = await asyncio.get_running_loop().create_server(
                lambda: connections.accept(cast("web.Server", runner.server)), host, port
            )
        except OSError as error:
            message = f"{section}.host and {section}.port cannot be listened on: {host}:{port}: {error}"
            raise error_class(message) from error
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        await runner.cleanup()


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
