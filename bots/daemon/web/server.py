"""Where metrics and health are asked for, over plain HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web

from core.errors import UsageError
from core.observability.logs import get_logger
from core.observability.metrics import CONTENT_TYPE, PrometheusMetrics


class Monitored(Protocol):
    """What the server shows of a daemon."""

    @property
    def stage(self) -> str:
        """`starting`, `ready` or `stopping`."""
        ...

    async def render_metrics(self, metrics: PrometheusMetrics) -> bytes:
        """Return all metrics in the Prometheus text format."""
        ...

    def get_problems(self) -> Iterable[str]:
        """Return why the daemon is not well, one sentence each."""
        ...


@asynccontextmanager
async def serve_metrics(monitor: Monitored, metrics: PrometheusMetrics, host: str, port: int) -> AsyncIterator[int]:
    """Answer `/metrics`, `/healthz` and `/readyz` inside the block; its value is the port.

    Raises `UsageError` for an address that cannot be listened on.
    """

    async def handle_metrics(request: web.Request) -> web.Response:
        return web.Response(body=await monitor.render_metrics(metrics), headers={"Content-Type": CONTENT_TYPE})

    async def handle_health(request: web.Request) -> web.Response:
        return _health_response(list(monitor.get_problems()))

    async def handle_readiness(request: web.Request) -> web.Response:
        return _health_response([] if monitor.stage == "ready" else [monitor.stage])

    application = web.Application()
    application.router.add_get("/metrics", handle_metrics)
    application.router.add_get("/healthz", handle_health)
    application.router.add_get("/readyz", handle_readiness)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            message = f"metrics.host and metrics.port cannot be listened on: {host}:{port}: {error}"
            raise UsageError(message) from error
        bound_port = int(runner.addresses[0][1])
        get_logger(__name__).info("metrics.listening", host=host, port=bound_port)
        yield bound_port
    finally:
        await runner.cleanup()


def _health_response(problems: list[str]) -> web.Response:
    return web.json_response(
        {"state": "unwell" if problems else "ok", "reasons": problems}, status=503 if problems else 200
    )
