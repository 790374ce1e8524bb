"""How events arrive, through slack-bolt: over a Socket Mode connection, or as signed requests over HTTP.

Either way middleware handles them, which runs before the acknowledgement: an event that fails there is not
acknowledged, and Slack delivers it again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier

from bots.common.connection import Unreachable
from bots.common.web_server import serve_application
from bots.slack.client import get_quiet_logger, redact_error
from core.errors import PlatformError
from core.observability.logs import get_logger

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

# Makes a payload durable and returns the body of the answer to Slack, if there is one.
HandlePayload = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

MAX_MESSAGE_BYTES = 4 * 2**20
READ_TIMEOUT_S = 10.0
MAX_TIMESTAMP_CHARS = 20


class EventReceiver:
    """Takes the requests of Slack for one app."""

    def __init__(self, client: SlackClient, signing_secret: str, handle_payload: HandlePayload) -> None:
        self._client = client
        self._verifier = SignatureVerifier(signing_secret) if signing_secret else None
        self._app = AsyncApp(
            name="kimas",
            logger=get_quiet_logger(),
            client=client.web,
            signing_secret=signing_secret,
            before_authorize=_DeliverBeforeAck(handle_payload),
        )

    async def run_socket(self, url: str, ping_s: float, on_connected: Callable[[], None]) -> None:
        """Handle the frames of one Socket Mode connection, in order, until it ends or Slack asks for another one.

        Raises `Unreachable` when it breaks, or when Slack has switched Socket Mode off.
        """
        try:
            async with self._client.session.ws_connect(url, heartbeat=ping_s, max_msg_size=MAX_MESSAGE_BYTES) as socket:
                async for frame in socket:
                    if frame.type is aiohttp.WSMsgType.TEXT and not await self._handle_frame(
                        socket, frame.data, on_connected
                    ):
                        return
                if socket.close_code not in (None, 1000, 1001):
                    raise Unreachable(f"Slack closed the connection ({socket.close_code})")
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the connection to Slack broke: {redact_error(error)}") from error

    @asynccontextmanager
    async def serve(self, host: str, port: int, path: str) -> AsyncIterator[int]:
        """Listen for requests over HTTP inside the block; its value is the port. Raises `PlatformError`."""
        application = web.Application(client_max_size=MAX_MESSAGE_BYTES)
        application.router.add_post(path, self._handle_request)
        async with serve_application(application, host, port, section="slack", error_class=PlatformError) as bound_port:
            yield bound_port

    async def _handle_frame(
        self, socket: aiohttp.ClientWebSocketResponse, text: str, on_connected: Callable[[], None]
    ) -> bool:
        """Handle one frame; return whether to continue."""
        envelope = _parse_frame(text)
        match envelope.get("type"):
            case "hello":
                on_connected()
                connection_count = envelope.get("num_connections")
                if isinstance(connection_count, int) and connection_count > 1:
                    explanation = "each gets a part of the events: is a second daemon running?"
                    _log.warning("slack.several_connections", connections=connection_count, why=explanation)
            case "disconnect":
                reason = envelope.get("reason")
                if reason == "link_disabled":
                    raise Unreachable("Socket Mode is switched off in the app's settings")
                _log.debug("slack.connection_replaced", reason=reason)
                return False
            case _ if isinstance(envelope.get("envelope_id"), str):
                await self._handle_envelope(socket, envelope)
            case kind:
                _log.warning("slack.frame_skipped", kind=str(kind)[:100])
        return True

    async def _handle_envelope(self, socket: aiohttp.ClientWebSocketResponse, envelope: Mapping[str, Any]) -> None:
        payload = envelope.get("payload")
        acknowledgement: dict[str, Any] = {"envelope_id": envelope["envelope_id"]}
        if isinstance(payload, dict):
            response = await self._dispatch({"mode": "socket_mode", "body": payload})
            if response.status != 200:
                return
            if response.body and envelope.get("accepts_response_payload"):
                acknowledgement["payload"] = json.loads(response.body)
        else:
            _log.warning("slack.payload_malformed", kind=str(envelope.get("type"))[:100])
        await socket.send_str(json.dumps(acknowledgement))

    async def _handle_request(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                content = await request.read()
        except TimeoutError:
            return web.Response(status=408)
        # Nothing is parsed, and no character set is taken from a header, before it is known to come from Slack.
        if not self._is_signed(content, request.headers):
            _log.warning("slack.signature_refused", hint="check slack.signing_secret and this clock")
            return web.Response(status=401)
        response = await self._dispatch({"body": content.decode("utf-8"), "headers": dict(request.headers)})
        content_type = response.first_headers().get("content-type", "text/plain").split(";")[0]
        return web.Response(status=response.status, text=response.body or "", content_type=content_type)

    def _is_signed(self, content: bytes, headers: Mapping[str, str]) -> bool:
        timestamp = headers.get("X-Slack-Request-Timestamp", "")
        signature = headers.get("X-Slack-Signature", "")
        if self._verifier is None or not timestamp.isdecimal() or len(timestamp) > MAX_TIMESTAMP_CHARS:
            return False
        try:
            return self._verifier.is_valid(content, timestamp, signature)
        except (UnicodeError, TypeError):
            # Not UTF-8, or a signature that is not ASCII.
            return False

    async def _dispatch(self, request: dict[str, Any]) -> BoltResponse:
        try:
            bolt_request = AsyncBoltRequest(**request)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            _log.warning("slack.payload_malformed", error=str(error)[:200])
            # To deliver it again would not help.
            return BoltResponse(status=200 if request.get("mode") else 400, body="")
        return await self._app.async_dispatch(bolt_request)


class _DeliverBeforeAck(AsyncMiddleware):
    """Handles a payload before any other part of slack_bolt; only Slack's handshake goes further."""

    def __init__(self, handle_payload: HandlePayload) -> None:
        self._handle_payload = handle_payload

    async def async_process(
        self, *, req: AsyncBoltRequest, resp: BoltResponse, next: Callable[[], Awaitable[BoltResponse]]
    ) -> BoltResponse | None:
        if req.body.get("type") == "url_verification":
            return await next()
        try:
            response_payload = await self._handle_payload(req.body)
        except Exception as error:
            # Any error: a message that is not saved must not be confirmed.
            _log.error("slack.event_not_recorded", error=str(error), hint="Slack delivers it again")
            return BoltResponse(status=500, body="")
        return BoltResponse(status=200, body=json.dumps(response_payload) if response_payload else "")


def _parse_frame(text: str) -> Mapping[str, Any]:
    try:
        envelope = json.loads(text)
    except ValueError:
        envelope = None
    return envelope if isinstance(envelope, dict) else {"type": "malformed"}
