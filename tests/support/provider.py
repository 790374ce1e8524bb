"""A provider that replays what it is told, over a real socket: streams, pauses, refusals, broken connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

DONE = b"data: [DONE]\n\n"
ABORT = "abort"
# As `ABORT`, and nobody listens any more.
END = "end"
# Bytes to send, seconds to wait, `ABORT` or `END`.
Step = bytes | float | str


@dataclass(frozen=True, slots=True)
class Response:
    """A response that is no stream: a status, a JSON body or text, headers."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


Answer = Sequence[Step] | Response


def event(text: str | None = None, finish: object = None, **fields: Any) -> bytes:
    """Return one event of a streamed chat completion; `fields` are added to it, or replace what it has."""
    delta = {} if text is None else {"content": text}
    body = {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


class Provider:
    """What arrived is in `requests`; `reply` is replayed for each, or makes the reply from the request's body."""

    def __init__(self, reply: Answer | Callable[[dict[str, Any]], Answer]) -> None:
        self.reply = reply
        self.base_url = ""
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self.handle)
        self.runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        self._port = 0

    async def start(self) -> None:
        """Listen, where it listened before."""
        await web.TCPSite(self.runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self.runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{self._port}/v1"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.paths.append(request.path)
        body = await request.json() if request.can_read_body else {}
        if body:
            self.requests.append(body)
        answer = self.reply(body) if callable(self.reply) else self.reply
        if isinstance(answer, Response):
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            return web.Response(
                text=text, status=answer.status, headers=answer.headers, content_type=answer.content_type
            )
        if answer[:1] in ([ABORT], [END]):
            for site in [*self.runner.sites] if answer[0] == END else ():
                await site.stop()
            assert request.transport is not None
            request.transport.abort()
            raise asyncio.CancelledError
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for step in answer:
            if isinstance(step, bytes):
                await response.write(step)
            elif step == ABORT:
                assert request.transport is not None
                request.transport.abort()
                raise asyncio.CancelledError
            else:
                await asyncio.sleep(float(step))
        await response.write_eof()
        return response


@asynccontextmanager
async def replaying(reply: Answer | Callable[[dict[str, Any]], Answer]) -> AsyncIterator[Provider]:
    """Serve a provider for the length of a block, at every path."""
    provider = Provider(reply)
    await provider.runner.setup()
    await provider.start()
    try:
        yield provider
    finally:
        await provider.runner.cleanup()
