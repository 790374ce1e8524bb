"""One call on several endpoints: the next one when one fails, a second one when one is slow, one retry when alone."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.errors import ModelError, ServiceError
from core.llm.circuit_breaker import Circuit
from core.llm.client import Endpoint
from core.observability.logs import logger
from core.observability.recorder import CallOutcome, Meter, Unmetered
from core.ports import CallBudget
from core.runtime.tasks import task_group
from core.settings.models import FallbackSettings, ModelSettings

T = TypeVar("T")
# An endpoint is not blamed for a silence shorter than this, seconds.
FAIR_CHANCE_S = 1.0
# The wait before the only endpoint is asked again where it names none, seconds.
RETRY_S = 0.25
# How many hedges may be saved up while everything is fast.
SAVED_HEDGES = 5.0
# Refusals of the request: another endpoint may take it, but this one is well.
REQUEST_REFUSED = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint with its settings and the state of its health. Calls are counted by the `meter`."""

    endpoint: Endpoint
    settings: FallbackSettings
    circuit: Circuit
    meter: Meter = field(default_factory=Unmetered)

    def begin(self, patience_s: float, budget: CallBudget) -> Attempt:
        """Start a call on it. A silence that `patience_s` (or `FAIR_CHANCE_S`) does not cover is held against it."""
        ends = time.monotonic() + min(self.settings.timeout_s, budget.remaining())
        return Attempt(self, self.circuit.begin(), ends, min(FAIR_CHANCE_S, patience_s))

    def fault(self, text: str) -> ModelError:
        """Return an error that names this endpoint."""
        return ModelError(f"{self.endpoint.base_url}: {self.settings.model} {text}")


@dataclass(slots=True)
class Attempt:
    """One call on one endpoint, to be ended exactly once; what it says about the endpoint goes to its circuit.

    `ends` is when the whole call has to be over, on the monotonic clock.
    """

    target: Target
    probe: bool
    ends: float
    fair_s: float
    started: float = field(default_factory=time.monotonic)

    def excuse(self) -> None:
        """Hold no silence against the endpoint: it was not given up, another one was faster."""
        self.fair_s = math.inf

    def succeeded(self) -> None:
        """The reply is whole."""
        self.target.circuit.succeeded()
        self._ended("ok")

    def failed(self, fault: ModelError) -> None:
        """The endpoint refused or broke off."""
        if fault.status in REQUEST_REFUSED:
            self.target.circuit.released(self.probe)
            self._ended("refused")
        else:
            self.target.circuit.failed(self.probe)
            self._ended("failed")

    def given_up(self) -> None:
        """Nobody waits any longer: after a fair chance that is a failure."""
        if time.monotonic() - self.started >= self.fair_s:
            self.target.circuit.failed(self.probe)
            self._ended("timeout")
        else:
            self.released()

    def released(self) -> None:
        """The call ended for reasons of the caller's."""
        self.target.circuit.released(self.probe)
        self._ended("cancelled")

    def _ended(self, outcome: CallOutcome) -> None:
        settings = self.target.settings
        self.target.meter.called(settings.model, settings.base_url, outcome, time.monotonic() - self.started)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """What is asked: `start` makes a good start of it or raises, `drop` lets go of one that is not wanted any more.

    `patience_s` is how long a start may take while another endpoint is left to try. `cut_when_slow` says that whoever
    cancels the call does so because it takes too long.
    """

    start: Callable[[Attempt], Awaitable[T]]
    drop: Callable[[T], Awaitable[None]]
    patience_s: float
    cut_when_slow: bool = True


@dataclass(frozen=True, slots=True)
class _Good(Generic[T]):
    start: T


@dataclass(frozen=True, slots=True)
class _Failed:
    faults: list[ModelError]


class Fallback:
    """The endpoints of one role, in the order in which they are tried."""

    def __init__(self, targets: Sequence[Target], settings: ModelSettings) -> None:
        self.targets = targets
        self._settings = settings
        self._hedges = 1.0

    async def first_good(self, call: Call[T], budget: CallBudget) -> T:
        """Return the first good start. Raises `ModelError` with what every endpoint tried had to say.

        Endpoints whose circuit is open come last, the one that failed longest ago first.
        """
        self._hedges = min(SAVED_HEDGES, self._hedges + self._settings.hedge_share)
        untried, faults, retried, hedged = list(self.targets), list[ModelError](), False, False
        while untried and (not faults or budget.remaining() > 0):
            target, others = _chosen(untried)
            if hedged or self._settings.hedge_after_s is None:
                tried, outcome = [target], await self._attempted(call, target, others, budget, [])
            else:
                tried, outcome = await self._hedged(call, target, others, budget, self._settings.hedge_after_s)
            if isinstance(outcome, _Good):
                return outcome.start
            hedged = hedged or len(tried) > 1
            faults += outcome.faults
            untried = [other for other in untried if other not in tried]
            if len(self.targets) == 1 and not retried and await _waited(faults[-1], budget):
                untried, faults, retried = list(self.targets), [], True
            elif untried:
                logger(__name__).warning("model.moved_on", error=str(faults[-1]))
        raise _joined(faults)

    async def _hedged(
        self, call: Call[T], target: Target, others: Sequence[Target], budget: CallBudget, wait_s: float
    ) -> tuple[list[Target], _Good[T] | _Failed]:
        """Make one attempt, and a second one beside it when it is slow. Return who was tried, and what came of it."""
        tried, attempts = [target], list[Attempt]()
        started: list[asyncio.Task[_Good[T] | _Failed]] = []
        kept: _Good[T] | _Failed | None = None
        try:
            async with task_group() as tasks:
                started.append(tasks.create_task(self._attempted(call, target, others, budget, attempts)))
                done, _ = await asyncio.wait(started, timeout=wait_s)
                if not done and self._may_hedge():
                    rival = others[0] if others else target
                    logger(__name__).info("model.hedged", endpoint=rival.endpoint.base_url, model=rival.settings.model)
                    tried.append(rival)
                    started.append(tasks.create_task(self._attempted(call, rival, others[1:], budget, attempts)))
                won = await _first_good(started)
                for attempt in attempts:
                    attempt.excuse()
                for task in started:
                    task.cancel()
            kept = won
        finally:
            await _drop_others(started, kept, call)
        return tried, won

    def _may_hedge(self) -> bool:
        """Take one hedge from what was saved up, a share of one per call: so a crowd cannot double its own load."""
        if self._hedges < 1:
            return False
        self._hedges -= 1
        return True

    async def _attempted(
        self, call: Call[T], target: Target, others: Sequence[Target], budget: CallBudget, attempts: list[Attempt]
    ) -> _Good[T] | _Failed:
        """Make one attempt, and put it with the `attempts` for whoever wants to excuse it."""
        # Begun in here: a task that is cancelled before its first step begins nothing that somebody had to end.
        attempt = target.begin(call.patience_s, budget)
        attempts.append(attempt)
        limit = max(0.0, attempt.ends - time.monotonic())
        # Each of those left to try gets as much of the time as this one.
        patience = min(call.patience_s, limit / (len(others) + 1)) if others else limit
        try:
            async with asyncio.timeout(patience):
                return _Good(await call.start(attempt))
        except TimeoutError:
            attempt.given_up()
            said = f"did not answer within {patience:.1f} s" if others else "did not answer in time"
            return _Failed([target.fault(said)])
        except ServiceError as fault:
            known = fault if isinstance(fault, ModelError) else ModelError(str(fault))
            known.__cause__ = fault.__cause__
            attempt.failed(known)
            return _Failed([known])
        except asyncio.CancelledError:
            if call.cut_when_slow:
                attempt.given_up()
            else:
                attempt.released()
            raise
        except BaseException:
            attempt.released()
            raise


def _chosen(untried: Sequence[Target]) -> tuple[Target, Sequence[Target]]:
    """Return whom to try now, and who could still take over."""
    ready = [target for target in untried if target.circuit.ready()]
    order = ready or sorted(untried, key=lambda target: target.circuit.failed_at)
    return order[0], order[1:]


async def _waited(fault: ModelError, budget: CallBudget) -> bool:
    """Wait as long as an endpoint asks for, or a moment, if it is overloaded and at least as much time is left then."""
    if fault.status is None or not (fault.status == 429 or fault.status >= 500):
        return False
    wait_s = RETRY_S if fault.retry_after is None else max(0.0, fault.retry_after)
    if 2 * wait_s > budget.remaining():
        return False
    await asyncio.sleep(wait_s)
    return True


async def _first_good(started: Sequence[asyncio.Task[_Good[T] | _Failed]]) -> _Good[T] | _Failed:
    """Return the first good outcome, or all failures together."""
    running, faults = set(started), list[ModelError]()
    while running:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done, key=started.index):
            outcome = task.result()
            if isinstance(outcome, _Good):
                return outcome
            faults += outcome.faults
    return _Failed(faults)


async def _drop_others(
    started: Sequence[asyncio.Task[_Good[T] | _Failed]], kept: _Good[T] | _Failed | None, call: Call[T]
) -> None:
    """Let go of good starts that came too late, or that nobody is left to take."""
    for task in started:
        if task.done() and not task.cancelled() and task.exception() is None:
            outcome = task.result()
            if outcome is not kept and isinstance(outcome, _Good):
                await call.drop(outcome.start)


def _joined(faults: Sequence[ModelError]) -> ModelError:
    if len(faults) == 1:
        return faults[0]
    said = "; ".join(dict.fromkeys(str(fault) for fault in faults))
    joined = ModelError(said, status=faults[-1].status, retry_after=faults[-1].retry_after)
    joined.__cause__ = faults[-1]
    return joined
