"""Many conversations at once: throughput against what the model's own times permit, first tokens, event-loop stalls."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

import psutil

from bots.daemon.bootstrap import App, open_app
from core.answering.pipeline import answer
from core.settings.loader import load_settings
from core.types import Question
from tests.lab.benchmarks.corpus import ingested
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.lab.benchmarks.line import RATE, TTFT_S, StopWatch, model_process
from tests.support.deployment import Deployment

SPREAD_S = 2.0
# What the first passage says, so that no second call has to judge the citation, and nothing twice, which is stopped.
REPLY = "Timeout is the number of seconds to wait before giving up on returning a connection; it defaults to 30.0 [p1]."
TOKENS = len(REPLY.split())


async def measure(folder: Path) -> list[Figure]:
    source_settings = await asyncio.to_thread(ingested, folder)
    async with model_process("--reply", REPLY) as base_url:
        model = {"base_url": base_url, "model": "peer"}
        settings = load_settings([Deployment(folder, {**source_settings, "models": {"main": model}}).config])
        async with open_app(settings) as app:
            await app.warm_up()
            await _crowd(app, 4)
            alone_ms = (await _crowd(app, 1)).first_ms[0]
            return [
                *(await _crowd(app, 64)).figures(alone_ms, 0.85, 300),
                *(await _crowd(app, 200)).figures(alone_ms, None, None),
                Figure(
                    "crowd: peak resident memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB", 400
                ),
            ]


class Crowd:
    """What one run with so many conversations showed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.first_ms: list[float] = []
        self.stall_ms = 0.0
        self.wall_s = 0.0
        self.cpu_ms = 0.0

    def figures(self, alone_ms: float, share: float | None, above: float | None) -> list[Figure]:
        ideal = SPREAD_S + TTFT_S + TOKENS / RATE
        person = f"crowd of {self.size}"
        return [
            Figure(f"{person}: time over what the model permits", self.wall_s / ideal, "x", share and 1 / share),
            Figure(f"{person}: first token p95 above one's", percentile(self.first_ms, 0.95) - alone_ms, "ms", above),
            Figure(f"{person}: first token p50", median(self.first_ms), "ms"),
            Figure(f"{person}: longest event-loop stall", self.stall_ms, "ms", 50),
            Figure(f"{person}: CPU per answer", self.cpu_ms / self.size, "ms", 60),
        ]


async def _crowd(app: App, size: int) -> Crowd:
    crowd = Crowd(size)
    watch_task = asyncio.create_task(_watch(crowd))
    process = psutil.Process(os.getpid())
    cpu = sum(process.cpu_times()[:2])
    started_at = time.perf_counter()

    async def ask_once(number: int) -> None:
        await asyncio.sleep(SPREAD_S * number / size)
        watch = StopWatch()
        question = f"How does conversation {number} of {size} handle the retries of a request that timed out?"
        reply = await answer(Question(question), watch, app.deps)
        assert not reply.is_extractive, reply.trace
        crowd.first_ms.append(watch.first_ms)

    await asyncio.gather(*map(ask_once, range(size)))
    crowd.wall_s = time.perf_counter() - started_at
    crowd.cpu_ms = (sum(process.cpu_times()[:2]) - cpu) * 1000
    watch_task.cancel()
    return crowd


async def _watch(crowd: Crowd) -> None:
    while True:
        started_at = time.perf_counter()
        await asyncio.sleep(0.005)
        crowd.stall_ms = max(crowd.stall_ms, (time.perf_counter() - started_at - 0.005) * 1000)
