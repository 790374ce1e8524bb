"""Recurring work goes on, whatever a run of it raises."""

from __future__ import annotations

import asyncio
import io
import json

from core.logs import configure_logs
from core.scheduler import every
from core.settings import LogSettings


async def test_a_run_that_fails_unexpectedly_is_logged_and_the_next_one_comes() -> None:
    log = io.StringIO()
    configure_logs(LogSettings(format="json"), log)
    runs: list[int] = []
    third = asyncio.Event()

    async def work() -> None:
        runs.append(1)
        if len(runs) == 3:
            third.set()
        raise RecursionError("too deep")

    async with every(0.02 / 60, work):
        await asyncio.wait_for(third.wait(), 10)
    event = json.loads(log.getvalue().splitlines()[0])
    assert (event["event"], event["error"], event["level"]) == ("recurring_work.failed", "too deep", "error")
    assert "Traceback" in event["exception"]
