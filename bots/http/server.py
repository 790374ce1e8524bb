"""How events arrive: signed requests, checked before anything of them is read, safe before they are confirmed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from bots.common.web_server import serve_application
from bots.http.convert import MalformedEvent, parse_event_key
from bots.http.signing import MAX_CLOCK_SKEW_S, OWN_CLOCK, SIGNATURE, TIMESTAMP, EventKey, IdempotencyKeys, verify
from core.errors import PlatformError
from core.observability.logs import get_logger
from core.ports import ConnectionStatus
from core.settings import HttpSettings

_log = get_logger(__name__)

# Makes an event durable. Raises `MalformedEvent`, and whatever prevented it from being saved.
HandleEvent = Callable[[object], Awaitable[None]]

READ_TIMEOUT_S = 10.0
# A timestamp may lie this far ahead as well as behind.
REPLAY_WINDOW_S = 2.0 * MAX_CLOCK_SKEW_S


NOT_TAKEN_REASON = "the event could not be kept; send it again"
RETRY_HEADERS = {"Retry-After": "5"}


class RequestRejected(Exception):
    """A request that is answered with an error: the status, a word for programs and a reason for people."""

    def __init__(self, status: int, code: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason
        self.headers = headers


class EventServer:
    """Handles the requests of one network."""

    def __init__(
        self, settings: HttpSettings, secret: str, handle_event: HandleEvent, connection: ConnectionStatus
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._secret = secret
        self._handle_event = handle_event
        self._idempotency_keys = IdempotencyKeys(REPLAY_WINDOW_S)
        self._first_tries: dict[EventKey, asyncio.Event] = {}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        """Listen inside the block; its value is the port. Raises `PlatformError` for an address that cannot be used."""
        host = self._settings.host
        port = self._settings.port
        application = web.Application(client_max_size=self._settings.max_kb * 1024, middlewares=[_errors_as_json])
        application.router.add_post("/v1/events", self._handle_request)
        application.router.add_get("/health", _health)
        async with serve_application(application, host, port, section="http", error_class=PlatformError) as bound_port:
            yield bound_port

    async def _handle_request(self, request: web.Request) -> web.Response:
        event = _parse_json(await self._read_verified_body(request))
        try:
            event_key = parse_event_key(event)
            await self._take_once(event_key, event)
        except MalformedEvent as error:
            raise RequestRejected(422, "malformed", str(error)) from error
        return web.json_response({"state": "taken", "event_id": event_key[1]}, status=202)

    async def _take_once(self, event_key: EventKey, event: object) -> None:
        """Make an event durable. Raises `RequestRejected` for one that is so already, and as `HandleEvent` does."""
        if earlier_try := self._first_tries.get(event_key):
            # Its outcome says whether the event is safe.
            await earlier_try.wait()
            if not self._idempotency_keys.contains(event_key, time.monotonic()):
                raise RequestRejected(503, "not_taken", NOT_TAKEN_REASON, RETRY_HEADERS)
        if self._idempotency_keys.contains(event_key, time.monotonic()):
            raise RequestRejected(409, "replayed", f"the event {event_key[1][:64]} was taken already")
        first_try = asyncio.Event()
        self._first_tries[event_key] = first_try
        try:
            await self._handle_event(event)
            self._idempotency_keys.add(event_key, time.monotonic())
        finally:
            del self._first_tries[event_key]
            first_try.set()

    async def _read_verified_body(self, request: web.Request) -> bytes:
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise RequestRejected(415, "encoded", "the body must not be compressed")
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                body = await request.read()
        except TimeoutError as error:
            raise RequestRejected(408, "slow", f"the body did not arrive within {READ_TIMEOUT_S:g} s") from error
        timestamp = request.headers.get(TIMESTAMP, "")
        signature = request.headers.get(SIGNATURE, "")
        reason = verify(self._secret, timestamp, signature, body, time.time())
        if reason:
            _log.warning("http.signature_refused", reason=reason, peer=request.remote)
            if OWN_CLOCK in reason:
                # Its sender has the secret. A recorded event looks the same: the next one that is right ends it.
                self._connection.warning = f"refuses events: {reason}"
            raise RequestRejected(401, "unsigned", reason)
        self._connection.warning = ""
        return body


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"state": "ready"})


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer every failure as JSON with its reason; the details of internal errors go to the log alone."""
    try:
        return await handler(request)
    except RequestRejected as error:
        return _error_response(error.status, error.code, error.reason, error.headers)
    except web.HTTPRequestEntityTooLarge:
        return _error_response(413, "too_large", "the event is larger than http.max_kb allows")
    except web.HTTPException as error:
        return _error_response(error.status, "refused", error.reason)
    except Exception as error:
        # Any error: an event that is not saved must not be confirmed.
        _log.error("http.event_not_recorded", error=str(error), hint="the network is told to send it again")
        return _error_response(503, "not_taken", NOT_TAKEN_REASON, RETRY_HEADERS)


def _error_response(status: int, code: str, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": code, "reason": reason}, status=status, headers=headers)


def _parse_json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestRejected(400, "no_json", "the body is not JSON in UTF-8") from error
