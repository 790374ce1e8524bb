"""How events arrive, through slack-bolt: over a Socket Mode connection, or as signed requests over HTTP.

Either way the one thing that handles them is middleware, which runs before Slack is told "received": what fails there
is not acknowledged, and Slack delivers it again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bots.slack.client import quiet, without_secrets
from bots.slack.errors import Unreachable
from core.errors import PlatformError
from core.observability.logs import logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bots.slack.client import Client

# Makes a payload durable and returns what Slack is answered beyond that, or nothing.
Take = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

LONGEST_MESSAGE = 4 * 2**20


class Events:
    """Takes the requests of Slack for one app."""

    def __init__(self, client: Client, signing_secret: str, take: Take) -> None:
        self._client = client
        self._app = AsyncApp(
            name="kimas",
            logger=quiet(),
            client=client.web,
            signing_secret=signing_secret,
            before_authorize=_Journalled(take),
        )

    async def follow(self, url: str, ping_s: float, opened: Callable[[], None]) -> None:
        """Take what one Socket Mode connection brings, in order, until it ends or Slack asks for another one.

        Raises `Unreachable` when it breaks, or when Slack has switched Socket Mode off.
        """
        try:
            async with self._client.session.ws_connect(url, heartbeat=ping_s, max_msg_size=LONGEST_MESSAGE) as socket:
                async for frame in socket:
                    if frame.type is aiohttp.WSMsgType.TEXT and not await self._frame(socket, frame.data, opened):
                        return
                if socket.close_code not in (None, 1000, 1001):
                    raise Unreachable(f"Slack closed the connection ({socket.close_code})")
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the connection to Slack broke: {without_secrets(error)}") from error

    @asynccontextmanager
    async def serving(self, host: str, port: int, path: str) -> AsyncIterator[int]:
        """Listen for requests over HTTP inside the block; its value is the port. Raises `PlatformError`."""
        application = web.Application(client_max_size=LONGEST_MESSAGE)
        application.router.add_post(path, self._request)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=2)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            yield int(runner.addresses[0][1])
        except OSError as error:
            raise PlatformError(f"slack.host and slack.port cannot be listened on: {host}:{port}: {error}") from error
        finally:
            await runner.cleanup()

    async def _frame(self, socket: aiohttp.ClientWebSocketResponse, text: str, opened: Callable[[], None]) -> bool:
        """Take one frame; say whether to go on."""
        envelope = _read(text)
        match envelope.get("type"):
            case "hello":
                opened()
                others = envelope.get("num_connections")
                if isinstance(others, int) and others > 1:
                    why = "each gets a part of the events: is a second daemon running?"
                    logger(__name__).warning("slack.several_connections", connections=others, why=why)
            case "disconnect":
                reason = envelope.get("reason")
                if reason == "link_disabled":
                    raise Unreachable("Socket Mode is switched off in the app's settings")
                logger(__name__).debug("slack.connection_replaced", reason=reason)
                return False
            case _ if isinstance(envelope.get("envelope_id"), str):
                await self._envelope(socket, envelope)
            case kind:
                logger(__name__).warning("slack.frame_skipped", kind=str(kind)[:100])
        return True

    async def _envelope(self, socket: aiohttp.ClientWebSocketResponse, envelope: Mapping[str, Any]) -> None:
        payload = envelope.get("payload")
        acknowledgement: dict[str, Any] = {"envelope_id": envelope["envelope_id"]}
        if isinstance(payload, dict):
            answer = await self._dispatched({"mode": "socket_mode", "body": payload})
            if answer.status != 200:
                return
            if answer.body and envelope.get("accepts_response_payload"):
                acknowledgement["payload"] = json.loads(answer.body)
        else:
            logger(__name__).warning("slack.payload_malformed", kind=str(envelope.get("type"))[:100])
        await socket.send_str(json.dumps(acknowledgement))

    async def _request(self, request: web.Request) -> web.Response:
        if not request.headers.get("X-Slack-Request-Timestamp", "").isdecimal():
            # slack_bolt would take this for a fault of its own.
            return web.Response(status=401)
        try:
            body = await request.text()
        except (UnicodeDecodeError, LookupError):
            return web.Response(status=400)
        answer = await self._dispatched({"body": body, "headers": dict(request.headers)})
        if answer.status == 401:
            logger(__name__).warning("slack.signature_refused", hint="check slack.signing_secret and this clock")
        kind = answer.first_headers().get("content-type", "text/plain").split(";")[0]
        return web.Response(status=answer.status, text=answer.body or "", content_type=kind)

    async def _dispatched(self, request: dict[str, Any]) -> BoltResponse:
        try:
            read = AsyncBoltRequest(**request)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            logger(__name__).warning("slack.payload_malformed", error=str(error)[:200])
            # Delivered again it would be no better; over HTTP nothing says yet that it is Slack's.
            return BoltResponse(status=200 if request.get("mode") else 400, body="")
        return await self._app.async_dispatch(read)


class _Journalled(AsyncMiddleware):
    """Hands a payload on before anything else of slack_bolt sees it; only its own handshake goes further."""

    def __init__(self, take: Take) -> None:
        self._take = take

    async def async_process(
        self, *, req: AsyncBoltRequest, resp: BoltResponse, next: Callable[[], Awaitable[BoltResponse]]
    ) -> BoltResponse | None:
        if req.body.get("type") == "url_verification":
            return await next()
        try:
            answer = await self._take(req.body)
        except Exception as error:
            # Whatever it is: a message that is not safe must not be confirmed.
            logger(__name__).error("slack.event_not_taken", error=str(error), hint="Slack delivers it again")
            return BoltResponse(status=500, body="")
        return BoltResponse(status=200, body=json.dumps(answer) if answer else "")


def _read(text: str) -> Mapping[str, Any]:
    try:
        envelope = json.loads(text)
    except ValueError:
        envelope = None
    return envelope if isinstance(envelope, dict) else {"type": "malformed"}
