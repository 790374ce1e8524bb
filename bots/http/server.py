"""How events arrive: signed requests, checked before anything of them is read, safe before they are confirmed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from bots.http.convert import Malformed, identity_of
from bots.http.idempotency import Taken
from bots.http.signing import SIGNATURE, TIMESTAMP, WINDOW_S, fault_of
from core.errors import PlatformError
from core.observability.logs import logger
from core.settings import HttpSettings

# Makes an event durable. Raises `Malformed`, and whatever kept it from being safe.
Take = Callable[[object], Awaitable[None]]

READ_S = 10.0
# A timestamp may lie this far ahead as well as behind.
REMEMBERED_S = 2.0 * WINDOW_S


class Refused(Exception):
    """A request that is answered with an error: the status, a word for programs and a reason for people."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.error, self.reason = status, error, reason


class Server:
    """Takes the requests of one network."""

    def __init__(self, settings: HttpSettings, secret: str, take: Take) -> None:
        self._settings = settings
        self._secret = secret
        self._take = take
        self._taken = Taken(REMEMBERED_S)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Listen inside the block; its value is the port. Raises `PlatformError` for an address that cannot be had."""
        host, port = self._settings.host, self._settings.port
        application = web.Application(client_max_size=self._settings.max_kb * 1024, middlewares=[_errors_as_json])
        application.router.add_post("/v1/events", self._event)
        application.router.add_get("/health", _health)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=2)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                raise PlatformError(f"http.host and http.port cannot be listened on: {host}:{port}: {error}") from error
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    async def _event(self, request: web.Request) -> web.Response:
        event = _parsed(await self._verified(request))
        try:
            number = identity_of(event)
            now = time.monotonic()
            if not self._taken.add(number, now):
                raise Refused(409, "replayed", f"the event {number[1][:64]} was taken already")
            try:
                await self._take(event)
            except BaseException:
                self._taken.discard(number)
                raise
        except Malformed as fault:
            raise Refused(422, "malformed", str(fault)) from fault
        return web.json_response({"state": "taken", "event_id": number[1]}, status=202)

    async def _verified(self, request: web.Request) -> bytes:
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise Refused(415, "encoded", "the body must not be compressed")
        try:
            async with asyncio.timeout(READ_S):
                body = await request.read()
        except TimeoutError as fault:
            raise Refused(408, "slow", f"the body did not arrive within {READ_S:g} s") from fault
        timestamp, signature = request.headers.get(TIMESTAMP, ""), request.headers.get(SIGNATURE, "")
        reason = fault_of(self._secret, timestamp, signature, body, time.time())
        if reason:
            logger(__name__).warning("http.signature_refused", reason=reason, peer=request.remote)
            raise Refused(401, "unsigned", reason)
        return body


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"state": "ready"})


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer every failure as JSON with its reason; what went wrong inside is told to the log alone."""
    try:
        return await handler(request)
    except Refused as refused:
        return _told(refused.status, refused.error, refused.reason)
    except web.HTTPRequestEntityTooLarge:
        return _told(413, "too_large", "the event is larger than http.max_kb allows")
    except web.HTTPException as error:
        return _told(error.status, "refused", error.reason)
    except Exception as error:
        # Whatever it is: an event that is not safe must not be confirmed.
        logger(__name__).error("http.event_not_taken", error=str(error), hint="the network is told to send it again")
        return _told(503, "not_taken", "the event could not be kept; send it again", {"Retry-After": "5"})


def _told(status: int, error: str, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": error, "reason": reason}, status=status, headers=headers)


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as fault:
        raise Refused(400, "no_json", "the body is not JSON in UTF-8") from fault
