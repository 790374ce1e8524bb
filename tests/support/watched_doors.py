"""Ways by which words leave other than replies in chats: programs and the page that ask, the log, spans and metrics."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import generate_latest

from bots.api import server
from bots.api.mcp import knowledge, server as mcp_server
from core.observability import tracing
from core.observability.logs import configure_logs
from core.observability.metrics import PrometheusMetrics
from core.settings.base import PAGE_CLIENT
from core.settings.messaging import LogSettings
from tests.support.interleaving import PLACE, Interruptions, Watch
from tests.support.recording_bot import Sender

TOKENS = {name: f"a-token-of-the-client-{name}" for name in ("webui", "team")}
PROGRAMS = tuple(Sender(name, name, "api") for name in (*TOKENS, PAGE_CLIENT))
# The version of MCP that has no sessions, and what each of its requests says.
MCP_VERSION = "2026-07-28"
MCP_META = {
    "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
WAYS = ("ask", "whole", "stream", "search", "mcp", "list", "read")


@dataclass(frozen=True)
class Doors:
    """The programs with a token, and the visitors of the page. What they get is judged where it is sent."""

    url: str

    async def ask(self, program: Sender, way: str, text: str, source: str) -> str:
        """Ask in a way, and return the body of the response."""
        if program.chat == PAGE_CLIENT:
            return await self._ask_on_the_page(text, is_streaming=way == "stream")
        question = {"messages": [{"role": "user", "content": text}]}
        headers = {"Authorization": f"Bearer {TOKENS[program.chat]}"}
        match way:
            case "ask":
                return await self._post("/ask", {"question": text}, headers)
            case "whole" | "stream":
                return await self._post("/v1/chat/completions", {**question, "stream": way == "stream"}, headers)
            case "search":
                return await self._call("tools/call", "search", headers, arguments={"query": text})
            case "mcp":
                return await self._call("tools/call", "ask", headers, arguments={"question": text})
            case "list":
                return await self._call("resources/list", "", headers)
        uri = f"kimas://sources/{source}"
        return await self._call("resources/read", uri, headers, uri=uri)

    async def _ask_on_the_page(self, text: str, *, is_streaming: bool) -> str:
        body = {"messages": [{"role": "user", "content": text}], "stream": is_streaming}
        answer = await self._post("/ask/answer", body, {"Origin": self.url})
        if answer.startswith("{") and (answer_id := json.loads(answer).get("id")):
            await self._post("/ask/rating", {"id": answer_id, "verdict": "up"}, {"Origin": self.url})
        return answer

    async def _call(self, method: str, name: str, headers: Mapping[str, str], **params: Any) -> str:
        arguments = {"name": name} if method == "tools/call" else {}
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**arguments, **params, "_meta": MCP_META}}
        names = {"MCP-Protocol-Version": MCP_VERSION, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
        accept = {"Accept": "application/json, text/event-stream"}
        return await self._post("/mcp", call, {**headers, **names, **accept})

    async def _post(self, path: str, body: object, headers: Mapping[str, str]) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url + path, json=body, headers=headers) as response,
        ):
            return await response.text()


def watch_doors(monkeypatch: pytest.MonkeyPatch, watch: Watch, interruptions: Interruptions) -> None:
    """Let the words for programs and visitors be judged when they are sent; requests of theirs know whose they are."""
    for name, token in TOKENS.items():
        monkeypatch.setenv(f"KIMAS_API_{name.upper()}", token)
    guard = server.ApiServer.guard
    write = web.StreamResponse.write
    write_end = web.Response.write_eof

    @web.middleware
    async def watched_guard(self: Any, request: web.Request, handler: Any) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        name = next((each for each, own_token in TOKENS.items() if own_token == token), PAGE_CLIENT)
        PLACE.set(Sender(name, name, "api"))
        return await guard(self, request, handler)

    async def watched_write(self: web.StreamResponse, data: Any) -> None:
        see_sent(self, bytes(data))
        await write(self, data)
        # A slow client.
        await interruptions.reach("try")

    async def watched_end(self: web.Response, data: bytes = b"") -> None:
        if isinstance(self.body, bytes):
            see_sent(self, self.body)
        await write_end(self, data)

    def see_sent(response: web.StreamResponse, data: bytes) -> None:
        request = response._req
        if isinstance(request, web.Request) and server.CLIENT in request:
            client = request[server.CLIENT]
            # What a client asked for by its name is no news to it.
            text = re.sub("there is no source '[a-z]*'", "", data.decode())
            watch.see_told(Sender(client, client, "api"), text, f"{request.method} {request.path}")

    monkeypatch.setattr(server.ApiServer, "guard", watched_guard)
    monkeypatch.setattr(web.StreamResponse, "write", watched_write)
    monkeypatch.setattr(web.Response, "write_eof", watched_end)
    # Between the last look at an answer and its words: they are written as JSON in a thread.
    for module in (server, knowledge, mcp_server):
        monkeypatch.setattr(module, "asyncio", _Interrupted(interruptions), raising=False)


class _Interrupted:
    """Stands for `asyncio` in a module, where something may happen while a thread works."""

    def __init__(self, interruptions: Interruptions) -> None:
        self._interruptions = interruptions

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def to_thread(self, function: Any, *arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        await self._interruptions.reach("look")
        return result


@dataclass
class _Lines(io.TextIOBase):
    """A stream of a log, each of whose lines is looked through."""

    watch: Watch

    def write(self, text: str) -> int:
        """Look through a line."""
        if words := self.watch.judge.find_in_records(text):
            self.watch.leaks.append(f"the log has {words}: {text[:300]}")
        return len(text)


@dataclass
class _Spans(SpanExporter):
    """Takes spans, and looks through all that they hold."""

    watch: Watch

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Look through some spans."""
        for span in spans:
            text = f"{span.name} {dict(span.attributes or {})} {span.events} {span.status.description}"
            if words := self.watch.judge.find_in_records(text):
                self.watch.leaks.append(f"a span has {words}: {text[:300]}")
        return SpanExportResult.SUCCESS


def watch_records(monkeypatch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Let lines of the log at all levels, and spans, be looked through."""
    configure_logs(LogSettings(level="debug", format="json"), _Lines(watch))  # type: ignore[arg-type]
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(_Spans(watch)))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("kimas"))


def read_metrics(metrics: PrometheusMetrics) -> str:
    """Return what `/metrics` shows, without the states of sources and platforms."""
    return generate_latest(metrics._registry).decode()
