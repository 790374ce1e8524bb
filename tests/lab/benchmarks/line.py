"""The line's own time: first token of an answer less the model's, beside a bare loop over the same client and model."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bots.daemon.bootstrap import open_app
from core.answering.pipeline import answer
from core.llm.client import OpenAIClient
from core.settings.loader import load_settings
from core.types import Question, Reply
from tests.lab.benchmarks.corpus import ingested
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.support.deployment import ROOT, Deployment

QUESTIONS = 40
TTFT_S = 0.3
RATE = 50


class StopWatch:
    """A sink that notes when the first text arrived."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.first_ms = 0.0

    async def open(self) -> None:
        return None

    async def update(self, text: str) -> None:
        self.first_ms = self.first_ms or (time.perf_counter() - self.started) * 1000

    async def finish(self, reply: Reply) -> None:
        return None

    async def fail(self, text: str) -> None:
        raise AssertionError(text)


@asynccontextmanager
async def model_process(*options: str) -> AsyncIterator[str]:
    """The model in a process of its own, so that its work is not counted as ours."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.peers.language_model",
        "--port",
        "0",
        "--ttft",
        str(TTFT_S),
        "--rate",
        str(RATE),
        *options,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def measure(folder: Path) -> list[Figure]:
    source_settings = await asyncio.to_thread(ingested, folder)
    async with model_process() as base_url:
        model = {"base_url": base_url, "model": "peer"}
        deployment = Deployment(folder, {**source_settings, "models": {"main": model}})
        async with open_app(load_settings([deployment.config])) as app:
            await app.warm_up()
            ours: list[float] = []
            for number in range(QUESTIONS):
                watch = StopWatch()
                question = f"How does the session number {number} handle timeouts and retries of requests?"
                await answer(Question(question), watch, app.deps)
                ours.append(watch.first_ms)
        bare_ms = await _measure_bare_calls(base_url)
    direct = TTFT_S * 1000
    return [
        Figure("line: first token less the model's, p50", median(ours[5:]) - direct, "ms", 15),
        Figure("line: the same, p95", percentile(ours[5:], 0.95) - direct, "ms"),
        Figure("line: a bare call of the same client, p50", median(bare_ms[5:]) - direct, "ms"),
        Figure("line: first token less such a call, p50", median(ours[5:]) - median(bare_ms[5:]), "ms"),
    ]


async def _measure_bare_calls(base_url: str) -> list[float]:
    endpoint = OpenAIClient.open(base_url, "", 30)
    times: list[float] = []
    for number in range(QUESTIONS):
        started_at = time.perf_counter()
        request = {"model": "peer", "messages": [{"role": "user", "content": f"Question {number}?"}]}
        async for _ in endpoint.stream(request):
            times.append((time.perf_counter() - started_at) * 1000)
            break
    await endpoint.close()
    return times
