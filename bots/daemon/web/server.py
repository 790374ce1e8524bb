"""Where metrics and health are asked for, over plain HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web

from core.errors import UsageError
from core.observability.logs import logger
from core.observability.metrics import CONTENT_TYPE, Metrics


class Monitored(Protocol):
    """What the server shows of a daemon."""

    @property
    def stage(self) -> str:
        """`starting`, `ready` or `stopping`."""
        ...

    async def text(self, metrics: Metrics) -> bytes:
        """Return all metrics in the Prometheus text format."""
        ...

    def faults(self) -> Iterable[str]:
        """Return why the daemon is not well, one sentence each."""
        ...


@asynccontextmanager
async def serving(monitor: Monitored, metrics: Metrics, host: str, port: int) -> AsyncIterator[int]:
    """Answer `/metrics`, `/healthz` and `/readyz` inside the block; its value is the port.

    Raises `UsageError` for an address that cannot be listened on.
    """

    async def numbers(request: web.Request) -> web.Response:
        return web.Response(body=await monitor.text(metrics), headers={"Content-Type": CONTENT_TYPE})

    async def health(request: web.Request) -> web.Response:
        return _told(list(monitor.faults()))

    async def readiness(request: web.Request) -> web.Response:
        return _told([] if monitor.stage == "ready" else [monitor.stage])

    application = web.Application()
    application.router.add_get("/metrics", numbers)
    application.router.add_get("/healthz", health)
    application.router.add_get("/readyz", readiness)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            told = f"metrics.host and metrics.port cannot be listened on: {host}:{port}: {error}"
            raise UsageError(told) from error
        bound = int(runner.addresses[0][1])
        logger(__name__).info("metrics.listening", host=host, port=bound)
        yield bound
    finally:
        await runner.cleanup()


def _told(faults: list[str]) -> web.Response:
    return web.json_response({"state": "unwell" if faults else "ok", "reasons": faults}, status=503 if faults else 200)
