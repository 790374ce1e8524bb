"""Open loop: questions arrive at a fixed rate, whether or not earlier ones are answered, as people ask.

A closed loop waits for its answers, and so hides an overload. The questions come at random moments (Poisson), the model
is the peer of the other suites. An answer is good when its first token comes within twice the model's own time plus the
time that one question alone needs; goodput is the rate of good answers.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from bots.daemon.bootstrap import App, open_app
from core.answering.pipeline import answer
from core.settings.loader import load_settings
from core.types import Question
from tests.lab.benchmarks.corpus import ingested
from tests.lab.benchmarks.crowd import REPLY
from tests.lab.benchmarks.figures import Figure, percentile
from tests.lab.benchmarks.line import TTFT_S, StopWatch, model_process
from tests.support.deployment import Deployment

RATES = (2, 5, 10, 20, 40)
SECONDS = 15.0
SEED = 20261122


async def measure(folder: Path) -> list[Figure]:
    source_settings = await asyncio.to_thread(ingested, folder)
    async with model_process("--reply", REPLY) as base_url:
        model = {"base_url": base_url, "model": "peer"}
        settings = load_settings([Deployment(folder, {**source_settings, "models": {"main": model}}).config])
        async with open_app(settings) as app:
            await app.warm_up()
            for number in range(5):
                alone_ms = await _answer(app, number)
            return [figure for rate in RATES for figure in (await _run(app, rate, alone_ms)).figures()]


@dataclass
class Run:
    """What one rate showed: the time to each first token, and how many answers were good."""

    rate: int
    good_ms: float
    seconds: float = 0.0
    first_ms: list[float] = field(default_factory=list)

    def figures(self) -> list[Figure]:
        good_count = sum(first_ms <= self.good_ms for first_ms in self.first_ms)
        name = f"open loop, {self.rate} questions a second"
        return [
            Figure(f"{name}: goodput", good_count / self.seconds, "answers/s"),
            Figure(f"{name}: share of good answers", good_count / len(self.first_ms), ""),
            Figure(f"{name}: first token p95", percentile(self.first_ms, 0.95), "ms"),
        ]


async def _run(app: App, rate: int, alone_ms: float) -> Run:
    dice = random.Random(SEED + rate)
    run = Run(rate, 2 * 1000 * TTFT_S + alone_ms)
    started_at = time.perf_counter()
    due = 0.0
    tasks: list[asyncio.Task[float]] = []
    while (due := due + dice.expovariate(rate)) < SECONDS:
        await asyncio.sleep(max(0.0, started_at + due - time.perf_counter()))
        tasks.append(asyncio.create_task(_answer(app, len(tasks))))
    run.seconds = SECONDS
    run.first_ms = list(await asyncio.gather(*tasks))
    return run


async def _answer(app: App, number: int) -> float:
    """Return the milliseconds to the first token."""
    watch = StopWatch()
    question = f"How does conversation {number} handle the retries of a request that timed out?"
    reply = await answer(Question(question), watch, app.deps)
    assert not reply.is_extractive, reply.trace
    return watch.first_ms
