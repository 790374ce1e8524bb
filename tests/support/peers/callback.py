"""A network that speaks our HTTP contract: it posts signed events and takes signed callbacks, strictly.

`callbacks` holds what was taken, in order, each once per idempotency key; `texts` what people see of bots below a
thread, by author, first come first served; where it `compares`, it refuses a comment that comes one too late.
`failures` are used up by the next callbacks, one each: a status to answer with, `drop` (the connection breaks before
anything is taken), `lost` (it is taken, then the connection breaks) or `slow` (nothing ever comes). Signatures are
computed here by the documented rule, not by our own code.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp import web

SECRET = "a secret of thirty-two characters"
US = "us"
STATES = ("started", "partial", "final", "failed", "noted")
FIELDS = {"event_id", "chat", "thread", "state", "text", "citations", "reply_id", "idempotency_key"}


def signed(secret: str, timestamp: str, body: bytes) -> str:
    return "v1=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


class CallbackPeer:
    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.callbacks: list[dict[str, Any]] = []
        # When each of them came, by the monotonic clock.
        self.times: list[float] = []
        self.keys: list[str] = []
        self.violations: list[str] = []
        self.texts: dict[tuple[str, str], list[str]] = defaultdict(list)
        # Called with the state and "before" it is done or "after", before the answer: to wait, or to kill the bot.
        self.watch: Callable[[str, str], Awaitable[None]] | None = None
        self.failures: list[int | str] = []
        self.retry_after = "0.01"
        self.location = ""
        self.own_ids = True
        self.compares = True
        self.tries = 0
        self.port = 0
        self._responses_by_key: dict[str, str] = {}
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> CallbackPeer:
        app = web.Application()
        app.router.add_post("/callback", self._callback)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def send(
        self,
        port: int,
        event: object,
        *,
        secret: str = "",
        timestamp: str = "",
        signature: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Post an event (raw bytes are sent as they are); return the status and the body of the answer."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        timestamp = timestamp or str(int(time.time()))
        sign = signed(secret or self.secret, timestamp, body) if signature is None else signature
        values = {"X-Kimas-Timestamp": timestamp, "X-Kimas-Signature": sign, "Content-Type": "application/json"}
        assert self._session is not None
        url = f"http://127.0.0.1:{port}/v1/events"
        async with self._session.post(url, data=body, headers={**values, **(headers or {})}) as answer:
            return answer.status, await answer.json()

    async def until(self, state: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many callbacks of a state and return them."""
        async with asyncio.timeout(60):
            while len(results := self.of(state)) < count:
                await asyncio.sleep(0.005)
        return results

    def of(self, state: str) -> list[dict[str, Any]]:
        return [callback for callback in self.callbacks if callback["state"] == state]

    def with_times(self, chat: str) -> list[tuple[float, dict[str, Any]]]:
        """Return the callbacks about a chat, each with the time at which it came."""
        pairs = zip(self.times, self.callbacks, strict=True)
        return [(at, callback) for at, callback in pairs if callback["chat"] == chat]

    async def _callback(self, request: web.Request) -> web.StreamResponse:
        self.tries += 1
        body = await request.read()
        reason = self._wrong(request, body)
        if reason:
            self.violations.append(reason)
            return web.json_response({"error": reason}, status=401)
        state = json.loads(body)["state"]
        if self.watch:
            await self.watch(state, "before")
        text = self.failures.pop(0) if self.failures else ""
        if isinstance(text, int):
            return web.Response(status=text, headers={"Retry-After": self.retry_after, "Location": self.location})
        if text == "slow":
            await asyncio.Event().wait()
        if text == "drop":
            return _drop_connection(request)
        answer = self._respond(request.headers["Idempotency-Key"], json.loads(body))
        if self.watch:
            await self.watch(state, "after")
        return _drop_connection(request) if text == "lost" else answer

    def _wrong(self, request: web.Request, body: bytes) -> str:
        timestamp = request.headers.get("X-Kimas-Timestamp", "")
        if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
            return "timestamp"
        if request.headers.get("X-Kimas-Signature") != signed(self.secret, timestamp, body):
            return "signature"
        payload = json.loads(body)
        if not payload["idempotency_key"] or payload["idempotency_key"] != request.headers.get("Idempotency-Key"):
            return "idempotency key"
        if (
            set(payload) - {"bot_replies_below", "offers", "mentions", "private"} != FIELDS
            or payload["state"] not in STATES
        ):
            return f"payload: {payload}"
        return ""

    def _respond(self, key: str, payload: dict[str, Any]) -> web.Response:
        if key not in self._responses_by_key:
            conversation = (payload["chat"], payload["thread"])
            if payload["state"] == "final" and US not in self.texts[conversation]:
                max_replies = payload.get("bot_replies_below")
                if self.compares and max_replies is not None and len(self.texts[conversation]) >= max_replies:
                    return web.json_response({"error": "too many replies"}, status=412)
                self.texts[conversation].append(US)
            self.callbacks.append(payload)
            self.times.append(time.monotonic())
            self.keys.append(key)
            self._responses_by_key[key] = f"r{len(self._responses_by_key)}"
        return web.json_response({"id": self._responses_by_key[key]} if self.own_ids else {})


def _drop_connection(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
