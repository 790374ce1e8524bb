"""Serving an application over HTTP: connections that send no request end, and other sites' names are refused."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from core.errors import KimasError
from core.observability.logs import get_logger
from core.settings.base import is_loopback

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = get_logger(__name__)

HEADER_TIMEOUT_S = 10.0
# Between two requests, and for the response to be read. Proxies keep their connections for about as long.
IDLE_TIMEOUT_S = 75.0
LOOK_S = 1.0
# Open connections to one port: strangers must leave descriptors for everything else (1,024 without systemd).
MAX_CONNECTIONS = 400
# How many names of refused hosts are logged.
MAX_LOGGED_HOSTS = 20
# How many connections the kernel keeps until they are accepted.
BACKLOG = 128


class _Connections:
    """Connections that send no request are closed: after `HEADER_TIMEOUT_S` seconds, or `IDLE_TIMEOUT_S` after one.

    aiohttp would wait for headers for ever, until every file descriptor is taken. Beyond `MAX_CONNECTIONS`, new
    connections are closed at once.
    """

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._deadlines: dict[RequestHandler, float] = {}

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of one more connection."""
        return _Refused() if len(self._server.connections) >= MAX_CONNECTIONS else self._server()

    def begin_request(self, connection: RequestHandler) -> None:
        """Take note that the headers of a request are complete."""
        self._deadlines[connection] = math.inf

    def end_request(self, connection: RequestHandler) -> None:
        """Take note that the response can be sent, and the next request may come."""
        self._deadlines[connection] = time.monotonic() + IDLE_TIMEOUT_S

    async def close_silent(self) -> None:
        """Close connections whose time is over, until cancelled."""
        while True:
            now = time.monotonic()
            # Of those that have ended nothing is kept.
            self._deadlines = {
                connection: self._deadlines.get(connection, now + HEADER_TIMEOUT_S)
                for connection in self._server.connections
            }
            for connection, deadline in self._deadlines.items():
                if deadline < now and connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(LOOK_S)


class _Refused(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


class _NoRequests(logging.Filter):
    """Leaves out of the log what was no request: a stranger could fill it with such errors, each of twenty lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        from aiohttp.http_exceptions import HttpProcessingError

        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_NO_REQUESTS = _NoRequests()


@asynccontextmanager
async def serve_application(
    application: web.Application, host: str, port: int, *, section: str, error_class: type[KimasError]
) -> AsyncIterator[int]:
    """Listen inside the block, whose value is the port.

    Raises `error_class` for an address that cannot be listened on; it names the keys of the configuration's `section`.
    """
    from aiohttp import web

    @web.middleware
    async def note_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        connections.begin_request(request.protocol)
        try:
            return await handler(request)
        finally:
            connections.end_request(request.protocol)

    application.middlewares.insert(0, note_request)
    # Nobody sends compressed bodies: what they unpack to would take memory and time before anybody is asked who it is.
    logging.getLogger("aiohttp.server").addFilter(_NO_REQUESTS)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=2, auto_decompress=False)
    await runner.setup()
    connections = _Connections(cast("web.Server", runner.server))
    closing = asyncio.create_task(connections.close_silent())
    try:
        try:
            # asyncio tries `backlog` times to accept each time a connection waits, and each time that no descriptor is
            # left, it begins as many more tries a second later: soon the loop would do nothing else.
            server = await asyncio.get_running_loop().create_server(connections.accept, host, port, backlog=1)
            _lengthen_backlog(server)
        except OSError as error:
            reason = str(error)
            if error.errno == errno.EADDRINUSE:
                reason = "another program listens there; end it, or choose another port"
            message = f"{section}.host and {section}.port cannot be listened on: {host}:{port}: {reason}"
            raise error_class(message) from error
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        closing.cancel()
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

    if not is_loopback(listen_host):
        return

    logged_names: set[str] = set()

    @web.middleware
    async def check_host(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            name = request.url.host or ""
        except ValueError:
            # A header that names no host: without an answer of ours it would write an error into the log.
            name = ""
        if not (is_loopback(name) or name in allowed_hosts):
            # Once each: behind a proxy every request is refused so, and a stranger could fill the log.
            if name not in logged_names and len(logged_names) < MAX_LOGGED_HOSTS:
                logged_names.add(name)
                _log.warning("http.host_refused", host=name[:100], setting=f"{section}.allowed_hosts")
            raise web.HTTPMisdirectedRequest(
                text=f"the host {name[:100]!r} is not allowed: see {section}.allowed_hosts\n"
            )
        return await handler(request)

    application.middlewares.append(check_host)
