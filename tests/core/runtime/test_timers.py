"""Recurring work."""

from __future__ import annotations

import asyncio

from core.runtime.timers import run_periodically


async def test_recurring_work_runs_now_again_and_never_twice_at_once() -> None:
    runs: list[str] = []
    third = asyncio.Event()

    async def work() -> None:
        runs.append("begin")
        await asyncio.sleep(0.05)
        runs.append("end")
        if len(runs) == 6:
            third.set()

    async with run_periodically(0.02 / 60, work):
        await asyncio.wait_for(third.wait(), 60)
    assert runs[:6] == ["begin", "end"] * 3
    count = len(runs)
    await asyncio.sleep(0.1)
    assert len(runs) == count, "nothing runs after the block"


async def test_work_without_an_interval_runs_once() -> None:
    runs: list[int] = []
    first = asyncio.Event()

    async def work() -> None:
        runs.append(1)
        first.set()

    async with run_periodically(0, work):
        await asyncio.wait_for(first.wait(), 60)
        await asyncio.sleep(0.05)
    assert runs == [1]
