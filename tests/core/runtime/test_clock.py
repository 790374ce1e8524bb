"""A clock that is set is noticed, and what counts minutes does not care."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from core.runtime import clock
from core.runtime.clock import ClockWatch
from core.runtime.timers import run_periodically, wait_for_event
from tests.support.timelapse import WallClock

pytestmark = pytest.mark.usefixtures("time_lapse")


async def test_a_jump_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    wall_clock = WallClock(datetime(2026, 3, 4, tzinfo=UTC))
    wall_clock.install(monkeypatch)
    monkeypatch.setattr(clock, "REMEMBERED_S", 20)
    watch = ClockWatch()
    wall_clock.offset_s += 30
    await watch.look()
    assert watch.recent_jump is None, "the network corrects clocks"
    wall_clock.offset_s -= 3600
    await watch.look()
    assert watch.recent_jump
    assert watch.recent_jump.seconds == pytest.approx(-3600, abs=1)
    await asyncio.sleep(21)
    await watch.look()
    assert watch.recent_jump is None


async def test_recurring_work_goes_on_while_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    wall_clock = WallClock(datetime(2026, 3, 4, tzinfo=UTC))
    wall_clock.install(monkeypatch)
    loop = asyncio.get_running_loop()
    runs: list[float] = []

    async def work() -> None:
        runs.append(loop.time())
        wall_clock.offset_s -= 3600
        await asyncio.sleep(20)

    started_at = loop.time()
    async with run_periodically(1, work):
        await asyncio.sleep(190)
    assert [run - started_at for run in runs] == pytest.approx([0, 60, 120, 180], abs=2)


async def test_an_event_ends_a_wait_and_is_cleared() -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    started_at = loop.time()
    await wait_for_event(event, 5)
    assert loop.time() - started_at == pytest.approx(5, abs=1)
    event.set()
    await wait_for_event(event, 500)
    assert loop.time() - started_at < 100
    assert not event.is_set()
