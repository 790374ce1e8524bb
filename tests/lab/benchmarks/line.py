"""The line's own time: first token of an answer less the model's, beside a bare loop over the same client and model.

And the same daemon asked in turn over Telegram and over its OpenAI-compatible endpoint.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from bots.daemon.bootstrap import open_app
from core.answering.pipeline import answer
from core.llm.client import OpenAIClient
from core.settings.loader import load_settings
from core.types import Question, Reply
from tests.lab.benchmarks.corpus import ingested
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.support.deployment import ROOT, Deployment
from tests.support.free_ports import free_port
from tests.support.peers.telegram import TelegramPeer

QUESTIONS = 40
TTFT_S = 0.3
RATE = 50
API_TOKEN = "a-token-of-the-benchmark"
FIRST_CHAT = 52_000


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
        telegram_ms, endpoint_ms = await _measure_ways_in(folder, {**source_settings, "models": {"main": model}})
    direct = TTFT_S * 1000
    return [
        Figure("line: first token less the model's, p50", median(ours[5:]) - direct, "ms", 15),
        Figure("line: the same, p95", percentile(ours[5:], 0.95) - direct, "ms"),
        Figure("line: a bare call of the same client, p50", median(bare_ms[5:]) - direct, "ms"),
        Figure("line: first token less such a call, p50", median(ours[5:]) - median(bare_ms[5:]), "ms"),
        Figure("line: the same over Telegram, p50", median(telegram_ms[5:]) - direct, "ms"),
        Figure("line: the same over the endpoint, p50", median(endpoint_ms[5:]) - direct, "ms"),
        Figure("line: endpoint less Telegram, p50", median(endpoint_ms[5:]) - median(telegram_ms[5:]), "ms", 5),
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


async def _measure_ways_in(folder: Path, settings: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Return the times of one daemon from a question to the first token, over Telegram and over the endpoint."""
    port = free_port()
    async with TelegramPeer() as telegram:
        ways_in = {
            "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
            "api": {"port": port, "clients": {"lab": {"token": {"env": "API_TOKEN"}}}},
        }
        environment = {"BOT_TOKEN": telegram.token, "API_TOKEN": API_TOKEN}
        deployment = Deployment(folder, {**settings, **ways_in, "cache": {"enabled": False}}, environment)
        client = AsyncOpenAI(api_key=API_TOKEN, base_url=f"http://127.0.0.1:{port}/v1", max_retries=20)
        async with deployment.daemon(), client:
            # It waits until the daemon listens.
            await client.models.list()
            await telegram.wait_until(lambda: bool(telegram.get_calls("getUpdates")), 60)
            telegram_ms: list[float] = []
            endpoint_ms: list[float] = []
            for number in range(QUESTIONS):
                question = f"How does the session number {number} handle timeouts and retries of {{}}?"
                telegram_ms.append(await _ask_telegram(telegram, FIRST_CHAT + number, question.format("requests")))
                endpoint_ms.append(await _ask_endpoint(client, question.format("responses")))
    return telegram_ms, endpoint_ms


async def _ask_telegram(telegram: TelegramPeer, chat: int, question: str) -> float:
    started_at = time.monotonic()
    telegram.say(chat, question)
    # Private chats show drafts while an answer is written. It is whole before the next question comes.
    await telegram.wait_for_reply(chat, 60)
    return 1000 * (next(draft.at for draft in telegram.drafts if draft.chat == chat) - started_at)


async def _ask_endpoint(client: AsyncOpenAI, question: str) -> float:
    started_at = time.monotonic()
    first_at = 0.0
    stream = await client.chat.completions.create(
        model="kimas", messages=[{"role": "user", "content": question}], stream=True
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            first_at = first_at or time.monotonic()
    return 1000 * (first_at - started_at)
