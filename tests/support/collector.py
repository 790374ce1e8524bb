"""A collector of spans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Takes spans as an OpenTelemetry collector does: protobuf over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[str | None] = []
        self.raw = b""
        self.endpoint = ""

    @property
    def spans(self) -> list[Any]:
        groups = [
            scope for request in self.requests for resource in request.resource_spans for scope in resource.scope_spans
        ]
        return [item for group in groups for item in group.spans]

    def get_spans(self, name: str) -> list[Any]:
        return [item for item in self.spans if item.name == name]

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.raw += body
        self.headers.append(request.headers.get("X-Token"))
        self.requests.append(ExportTraceServiceRequest.FromString(body))
        return web.Response(body=b"", content_type="application/x-protobuf")


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    application = web.Application()
    application.router.add_post("/v1/traces", collector._take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    try:
        yield collector
    finally:
        await runner.cleanup()
