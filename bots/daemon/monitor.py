"""The daemon's metrics and health, and the HTTP endpoints that serve them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bots.common.web_server import refuse_other_hosts, serve_application
from core.errors import StoreError, UsageError
from core.observability.logs import get_logger
from core.observability.metrics import MetricsRecorder
from core.ports import Adapter, AnswerFunction, ConnectionStatus
from core.runtime.clock import ClockWatch
from core.runtime.tasks import task_group
from core.settings import MetricsSettings, Settings
from core.types import SourceState

if TYPE_CHECKING:
    from core.llm.model_sets import ModelSets
    from core.messaging.inbox import Inbox
    from core.observability.metrics import PrometheusMetrics
    from knowledge.ingestion.scheduler import RefreshScheduler

_log = get_logger(__name__)

LAG_SAMPLE_INTERVAL_S = 0.25
# The reported lag is the longest within so many seconds.
LAG_WINDOW_S = 60.0
# A loop that was blocked for so long within that time is unhealthy.
MAX_LAG_S = 5.0

Stage = Literal["starting", "ready", "stopping"]


@dataclass(frozen=True, slots=True)
class MonitoredParts:
    """The monitored parts of an open daemon."""

    connections: Mapping[str, ConnectionStatus]
    inbox: Inbox
    source_refresher: RefreshScheduler
    models: ModelSets


class EventLoopLag:
    """How late the event loop runs what is due, measured while `watch` runs."""

    def __init__(self) -> None:
        self._delays: deque[float] = deque([0.0], maxlen=round(LAG_WINDOW_S / LAG_SAMPLE_INTERVAL_S))

    @property
    def max_s(self) -> float:
        """The longest delay of the last minute, in seconds."""
        return max(self._delays)

    async def watch(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            expected_at = loop.time() + LAG_SAMPLE_INTERVAL_S
            await asyncio.sleep(LAG_SAMPLE_INTERVAL_S)
            self._delays.append(max(0.0, loop.time() - expected_at))


class Monitor:
    """The daemon's state for metrics and health. Without `metrics` nothing is counted."""

    def __init__(self, metrics: PrometheusMetrics | None = None) -> None:
        self._metrics = metrics
        self._monitored: MonitoredParts | None = None
        self.stage: Stage = "starting"
        self.lag = EventLoopLag()
        self.clock = ClockWatch()
        # By the label of an adapter that has ended while the daemon goes on: why.
        self.platform_failures: dict[str, str] = {}
        self.metrics_recorder: MetricsRecorder = metrics or MetricsRecorder()

    def instrument_answer(self, answer: AnswerFunction) -> AnswerFunction:
        """Return the answer function with its calls counted, where metrics are on."""
        return self._metrics.answering(answer) if self._metrics else answer

    def attach(
        self, adapters: Sequence[Adapter], inbox: Inbox, source_refresher: RefreshScheduler, models: ModelSets
    ) -> None:
        """Monitor these from now on."""
        connections = {adapter.label: adapter.connection for adapter in adapters if adapter.connection}
        self._monitored = MonitoredParts(connections, inbox, source_refresher, models)

    def record_failure(self, label: str, reason: str) -> None:
        """Record why an adapter has ended for good while the daemon goes on."""
        self.platform_failures[label] = reason
        if self._monitored and (connection := self._monitored.connections.get(label)):
            connection.mark_disconnected(f"has stopped: {reason}")

    def get_problems(self) -> Sequence[str]:
        """Return the problems, one line each."""
        if self._monitored is None:
            return ["starting"]
        connections = self._monitored.connections
        problems = [
            f"{name} {connections[name].problem}" for name, is_well in self.get_connections().items() if not is_well
        ]
        failures = self.platform_failures.items()
        problems += [f"{name} has stopped: {reason}" for name, reason in failures if name not in connections]
        if store_problem := self._monitored.source_refresher.store_problem:
            problems.append(store_problem)
        if self.lag.max_s >= MAX_LAG_S:
            problems.append(f"the event loop stood still for {self.lag.max_s:.1f} s within the last minute")
        return problems

    def get_warnings(self) -> Sequence[str]:
        """Return what is wrong although the daemon is well, one line each."""
        connections = self._monitored.connections if self._monitored else {}
        return [f"{name} {connection.warning}" for name, connection in connections.items() if connection.warning]

    def get_obstacles(self) -> Sequence[str]:
        """Return why no question can be answered now, one line each."""
        if self.stage != "ready" or self._monitored is None:
            return [self.stage]
        store_problem = self._monitored.source_refresher.store_problem
        return [store_problem] if store_problem else []

    async def get_source_states(self) -> Sequence[SourceState]:
        """Return the state of every stored source. Raises `StoreError`."""
        return await self._monitored.source_refresher.states() if self._monitored else ()

    def get_connections(self) -> Mapping[str, bool]:
        """Return whether each platform is connected, here or by another daemon, by the label of its adapter."""
        connections = self._monitored.connections if self._monitored else {}
        return {name: connection.is_connected or connection.is_standby for name, connection in connections.items()}

    def get_endpoints(self) -> Mapping[str, bool]:
        """Return whether each model is called, or skipped because it failed too often."""
        deployments = self._monitored.models.deployments() if self._monitored else ()
        return {
            f"{deployment.settings.model} at {deployment.settings.base_url}": not deployment.circuit_breaker.is_open
            for deployment in deployments
        }

    async def render_metrics(self, metrics: PrometheusMetrics) -> bytes:
        """Return all metrics as text."""
        from core.observability.metrics import CircuitState, DaemonStatus, PlatformState

        is_ready = self.stage == "ready"
        lag_s = self.lag.max_s
        monitored = self._monitored
        if monitored is None:
            return await asyncio.to_thread(metrics.render, DaemonStatus(is_ready, lag_s))
        sources: Sequence[SourceState] = ()
        try:
            sources = await monitored.source_refresher.states()
        except StoreError as error:
            _log.error("metrics.sources_unavailable", error=str(error))
            metrics.record_scrape_error()
        platforms = [
            PlatformState(name, connection.is_connected, connection.outages)
            for name, connection in monitored.connections.items()
        ]
        circuits = [
            CircuitState(deployment.settings.model, deployment.settings.base_url, deployment.circuit_breaker.is_open)
            for deployment in monitored.models.deployments()
        ]
        daemon_state = DaemonStatus(is_ready, lag_s, monitored.inbox.in_flight, platforms, circuits, sources)
        # Writing hundreds of lines takes milliseconds, and the numbers of the process come from files.
        return await asyncio.to_thread(metrics.render, daemon_state)


@asynccontextmanager
async def open_monitor(settings: Settings) -> AsyncIterator[Monitor]:
    """Monitor for the length of the block, and serve HTTP where `metrics.port` is set.

    Raises `UsageError` for an address that cannot be listened on.
    """
    if settings.metrics.port is None:
        yield Monitor()
        return
    from core.observability.metrics import PrometheusMetrics

    # Its package takes a moment to load.
    metrics = await asyncio.to_thread(PrometheusMetrics, settings.budget.deadline_s)
    monitor = Monitor(metrics)
    async with task_group() as tasks, serve_metrics(monitor, metrics, settings.metrics):
        lag_task = tasks.create_task(monitor.lag.watch())
        try:
            yield monitor
        finally:
            lag_task.cancel()


@asynccontextmanager
async def serve_metrics(monitor: Monitor, metrics: PrometheusMetrics, settings: MetricsSettings) -> AsyncIterator[int]:
    """Answer `/metrics`, `/healthz` and `/readyz` inside the block, which receives the port.

    Raises `UsageError` for an address that cannot be listened on.
    """
    from aiohttp import web

    from core.observability.metrics import CONTENT_TYPE

    def health_response(problems: Sequence[str]) -> web.Response:
        body = {"state": "unwell" if problems else "ok", "reasons": list(problems)}
        return web.json_response(body, status=503 if problems else 200)

    async def handle_metrics(_request: web.Request) -> web.Response:
        return web.Response(body=await monitor.render_metrics(metrics), headers={"Content-Type": CONTENT_TYPE})

    async def handle_health(_request: web.Request) -> web.Response:
        return health_response(monitor.get_problems())

    async def handle_readiness(_request: web.Request) -> web.Response:
        return health_response(monitor.get_obstacles())

    application = web.Application()
    application.router.add_get("/metrics", handle_metrics)
    application.router.add_get("/healthz", handle_health)
    application.router.add_get("/readyz", handle_readiness)
    refuse_other_hosts(application, settings.host, settings.allowed_hosts)
    async with serve_application(
        application, settings.host, settings.port or 0, section="metrics", error_class=UsageError
    ) as bound_port:
        _log.info("metrics.listening", host=settings.host, port=bound_port)
        yield bound_port
