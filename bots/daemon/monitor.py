"""What the daemon shows of itself to those who watch it: numbers, and whether it is well."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bots.common.connection import Line, Watched
from core.errors import StoreError
from core.messaging.multi_bot import label_of
from core.messaging.processor import Answer, Intake
from core.observability.logs import logger
from core.observability.recorder import Meter, Unmetered
from core.ports import Adapter, Upkeep
from core.runtime.tasks import task_group
from core.settings import Settings

if TYPE_CHECKING:
    from core.llm.role_models import RoleModels
    from core.observability.metrics import Metrics
    from core.types import SourceState

TICK_S = 0.25
# The lag that is shown is the longest of so many seconds.
REMEMBERED_S = 60.0
# A loop that stood still for so long within that time is not well.
STILL_S = 5.0

Stage = Literal["starting", "ready", "stopping"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What of an open daemon is looked at."""

    lines: Mapping[str, Line]
    intake: Intake
    upkeep: Upkeep
    models: RoleModels | None


class Lag:
    """How late the event loop comes to what is due. Measured while `watch` runs."""

    def __init__(self) -> None:
        self._late: deque[float] = deque([0.0], maxlen=round(REMEMBERED_S / TICK_S))

    @property
    def longest_s(self) -> float:
        """The longest delay of the last minute, in seconds."""
        return max(self._late)

    async def watch(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            self._late.append(max(0.0, loop.time() - due))


class Monitor:
    """What the daemon tells of itself. Without `metrics` nothing is counted, and nobody is listening."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._seen: Seen | None = None
        self.stage: Stage = "starting"
        self.lag = Lag()
        self.meter: Meter = metrics or Unmetered()

    def answering(self, answer: Answer) -> Answer:
        """Return what answers in the same way, and is counted where anything is."""
        return self._metrics.answering(answer) if self._metrics else answer

    def look_at(self, adapters: Sequence[Adapter], intake: Intake, upkeep: Upkeep, models: RoleModels | None) -> None:
        """Look at these from now on."""
        lines = {label_of(adapter): adapter.line for adapter in adapters if isinstance(adapter, Watched)}
        self._seen = Seen(lines, intake, upkeep, models)

    def faults(self) -> Sequence[str]:
        """Return what is wrong, one line for each."""
        if self._seen is None:
            return ["starting"]
        lost = [f"{name} is not connected" for name, line in self._seen.lines.items() if not line.connected]
        if self.lag.longest_s >= STILL_S:
            lost.append(f"the event loop stood still for {self.lag.longest_s:.1f} s within the last minute")
        return lost

    async def text(self, metrics: Metrics) -> bytes:
        """Return all metrics as text."""
        from core.observability.metrics import CircuitState, PlatformState, Standing

        ready, lag_s, seen = self.stage == "ready", self.lag.longest_s, self._seen
        if seen is None:
            return await asyncio.to_thread(metrics.text, Standing(ready, lag_s))
        sources: Sequence[SourceState] = ()
        try:
            sources = await seen.upkeep.states()
        except StoreError as fault:
            logger(__name__).error("metrics.sources_unread", error=str(fault))
            metrics.unread()
        platforms = [PlatformState(name, line.connected, line.outages) for name, line in seen.lines.items()]
        targets = seen.models.targets() if seen.models else ()
        circuits = [CircuitState(one.settings.model, one.settings.base_url, one.circuit.is_open) for one in targets]
        standing = Standing(ready, lag_s, seen.intake.in_hand, platforms, circuits, sources)
        # Writing hundreds of lines takes milliseconds, and the numbers of the process come from files.
        return await asyncio.to_thread(metrics.text, standing)


@asynccontextmanager
async def monitoring(settings: Settings) -> AsyncIterator[Monitor]:
    """Watch and be asked for as long as the block lasts, where `metrics.port` is set.

    Raises `UsageError` for an address that cannot be listened on.
    """
    host, port = settings.metrics.host, settings.metrics.port
    if port is None:
        yield Monitor()
        return
    from bots.daemon.web.server import serving
    from core.observability.metrics import Metrics

    # Its package takes a moment to load.
    metrics = await asyncio.to_thread(Metrics, settings.budget.deadline_s)
    monitor = Monitor(metrics)
    async with task_group() as tasks, serving(monitor, metrics, host, port):
        watching = tasks.create_task(monitor.lag.watch())
        try:
            yield monitor
        finally:
            watching.cancel()
