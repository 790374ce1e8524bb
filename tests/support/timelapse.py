"""A clock for tests that wait: it stands still while there is work, and runs fast while everybody waits.

Retries, rests of a circuit breaker, deadlines and intervals keep their lengths and cost a fraction of them. How fast
the machine is makes no difference, because work takes no time. It is for tests whose peers live in the loop of the
test: another process keeps the time of the world.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Any

import aiosqlite
import pytest

SPEED = 20.0
# Of real time: so long nothing may have arrived before the clock goes on.
STEP_S = 0.002


class TimeLapse:
    """The clock and the selector of one event loop."""

    def __init__(self, selector: selectors.BaseSelector, speed: float = SPEED) -> None:
        self._selector = selector
        self._speed = speed
        self._now = time.monotonic()
        self._threads = 0

    def monotonic(self) -> float:
        return self._now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as a selector does, in steps that are shorter than what the clock says of them."""
        end = None if timeout is None else self._now + timeout
        events = self._selector.select(0)
        while not events and (end is None or self._now < end):
            # A thread at work needs real time; what waits for it must not be late for that.
            speed = 1.0 if self._threads else self._speed
            step = STEP_S if end is None else min(STEP_S, (end - self._now) / speed)
            events = self._selector.select(step)
            if not events:
                # A little more, as of any clock: nobody wakes up before the time.
                self._now += step * speed + 1e-6
        return events

    @contextmanager
    def thread(self) -> Iterator[None]:
        """Count a thread that works for the loop."""
        self._threads += 1
        try:
            yield
        finally:
            self._threads -= 1


class WallClock:
    """The time of day of the product's code: it passes with the monotonic clock, and `offset_s` sets it."""

    def __init__(self, start: datetime) -> None:
        self.offset_s = start.timestamp() - time.monotonic()

    def time(self) -> float:
        return time.monotonic() + self.offset_s

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = self

        class SetDatetime(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.fromtimestamp(clock.time(), UTC).astimezone(tz).replace(tzinfo=tz)

        monkeypatch.setattr(time, "time", self.time)
        for name, module in list(sys.modules.items()):
            if name.startswith(("bots.", "core.", "knowledge.")) and getattr(module, "datetime", None) is datetime:
                monkeypatch.setattr(module, "datetime", SetDatetime)


def run_fast(monkeypatch: pytest.MonkeyPatch, speed: float = SPEED) -> None:
    """Let the clock of the running loop, and of all code that reads the monotonic clock, run fast from now on."""
    loop: Any = asyncio.get_running_loop()
    clock = TimeLapse(loop._selector, speed)
    run_in_executor = loop.run_in_executor
    execute = aiosqlite.Connection._execute

    def counted_job(*arguments: Any) -> asyncio.Future[Any]:
        working = clock.thread()
        working.__enter__()
        future: asyncio.Future[Any] = run_in_executor(*arguments)
        future.add_done_callback(lambda _: working.__exit__(None, None, None))
        return future

    async def counted_query(*arguments: Any, **keywords: Any) -> Any:
        with clock.thread():
            return await execute(*arguments, **keywords)

    monkeypatch.setattr(loop, "_selector", clock)
    monkeypatch.setattr(loop, "run_in_executor", counted_job)
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(aiosqlite.Connection, "_execute", counted_query)
