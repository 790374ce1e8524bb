"""How the Slack peer delivers events: in Socket Mode envelopes or in signed requests, again until they are taken."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

Json = dict[str, Any]


@dataclass(slots=True)
class Envelope:
    """One delivery. `attempts` holds the time of each try; `response` what came with the acknowledgement.

    `on_acknowledged` is told the response to the first acknowledgement.
    """

    id: str
    kind: str
    payload: object
    attempts: list[float] = field(default_factory=list)
    acknowledged: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged_after: float = 0.0
    response: Json = field(default_factory=dict)
    on_acknowledged: Callable[[Json], None] | None = None

    @property
    def answer(self) -> str:
        """The text that came with the acknowledgement."""
        return str(self.response.get("text", ""))

    def acknowledge(self, response: Json) -> None:
        """Note the acknowledgement."""
        self.response = response
        self.acknowledged_after = time.monotonic() - self.attempts[-1]
        if self.on_acknowledged is not None and not self.acknowledged.is_set():
            self.on_acknowledged(response)
        self.acknowledged.set()


class Deliveries:
    """Delivers payloads. With `target` they go to that URL, signed; otherwise through the open connections.

    What is not acknowledged within `patience_s` is delivered again, at most three times, as Slack does.
    """

    def __init__(self, signing_secret: str) -> None:
        self.signing_secret = signing_secret
        self.target = ""
        self.patience_s = 3.0
        self.envelopes: list[Envelope] = []
        self.connections: list[web.WebSocketResponse] = []
        self.opened = 0
        self.refused: list[int] = []
        self.unknown_acknowledgements: list[str] = []
        self._connected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def deliver(self, kind: str, payload: object, on_acknowledged: Callable[[Json], None] | None = None) -> Envelope:
        """Start to deliver a payload."""
        envelope = Envelope(f"envelope-{len(self.envelopes) + 1}", kind, payload, on_acknowledged=on_acknowledged)
        self.envelopes.append(envelope)
        task = asyncio.create_task(self._insist(envelope))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return envelope

    async def close(self) -> None:
        """Give up what is on its way and close the connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.disconnect()

    async def disconnect(self, reason: str = "") -> None:
        """Close all connections, with a request to come back first when there is a reason."""
        for socket in list(self.connections):
            if reason:
                await socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "peer"}})
            else:
                await socket.close()

    def abort(self) -> None:
        """Break all connections without a word."""
        for socket in self.connections:
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()

    async def connect(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection."""
        socket = web.WebSocketResponse(heartbeat=5)
        await socket.prepare(request)
        self.connections.append(socket)
        self.opened += 1
        count = len(self.connections)
        await socket.send_json({"type": "hello", "num_connections": count, "connection_info": {"app_id": "A1"}})
        self._connected.set()
        try:
            async for frame in socket:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    self._acknowledge(json.loads(frame.data))
        finally:
            self.connections.remove(socket)
            if not self.connections:
                self._connected.clear()
        return socket

    def _acknowledge(self, frame: Json) -> None:
        envelopes = [envelope for envelope in self.envelopes if envelope.id == frame.get("envelope_id")]
        if not envelopes or set(frame) - {"envelope_id", "payload"}:
            self.unknown_acknowledgements.append(json.dumps(frame))
            return
        envelopes[0].acknowledge(frame.get("payload", {}))

    async def _insist(self, envelope: Envelope) -> None:
        for attempt in range(4):
            if self.target:
                await self._send_request(envelope, attempt)
            else:
                await self._send_envelope(envelope, attempt)
            if envelope.acknowledged.is_set():
                return

    async def _send_envelope(self, envelope: Envelope, attempt: int) -> None:
        await self._connected.wait()
        frame = {"type": envelope.kind, "envelope_id": envelope.id, "payload": envelope.payload}
        frame["accepts_response_payload"] = envelope.kind != "events_api"
        if envelope.kind == "events_api":
            frame |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
        envelope.attempts.append(time.monotonic())
        try:
            await self.connections[-1].send_json(frame)
            async with asyncio.timeout(self.patience_s):
                await envelope.acknowledged.wait()
        except TimeoutError:
            return
        except ConnectionError:
            await asyncio.sleep(self.patience_s)

    async def _send_request(self, envelope: Envelope, attempt: int) -> None:
        retry: dict[str, Any] = (
            {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": "http_timeout"} if attempt else {}
        )
        envelope.attempts.append(time.monotonic())
        body = json.dumps(envelope.payload)
        if envelope.kind == "slash_commands" and isinstance(envelope.payload, dict):
            body = urlencode(envelope.payload)
        elif envelope.kind == "interactive":
            body = urlencode({"payload": body})
        kind = "application/json" if envelope.kind == "events_api" else "application/x-www-form-urlencoded"
        status, answer = await self.request(body, **{"Content-Type": kind, **retry})
        if status == 200:
            envelope.acknowledge(json.loads(answer) if answer.startswith("{") else {"text": answer} if answer else {})
        else:
            self.refused.append(status)
            await asyncio.sleep(self.patience_s)

    async def request(self, body: str, *, secret: str = "", at: int | None = None, **headers: str) -> tuple[int, str]:
        """Send one signed request to the target, and return the status and the text of the answer; 0 for none."""
        stamp = str(int(time.time()) if at is None else at)
        digest = hmac.new((secret or self.signing_secret).encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256)
        signed = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest.hexdigest()}"}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.patience_s)) as session,
                session.post(self.target, data=body.encode(), headers={**signed, **headers}) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return 0, ""
