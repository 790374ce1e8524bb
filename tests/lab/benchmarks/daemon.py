"""The daemon with a repository of 500 files: from start to ready, and its memory after some answers."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import psutil

from tests.lab.benchmarks.corpus import ingested
from tests.lab.benchmarks.figures import Figure, median
from tests.support.deployment import Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer

STARTS = 3
QUESTIONS = 20
CHAT = 4711


async def measure(folder: Path) -> list[Figure]:
    source_settings = await asyncio.to_thread(ingested, folder)
    async with TelegramPeer() as telegram, LanguageModelPeer(reply="It retries [p1].") as model:
        deployment = Deployment(
            folder,
            {
                **source_settings,
                # After each start somebody else puts the same questions: what is known already shows no memory.
                "cache": {"enabled": False},
                "models": {"main": {"base_url": model.base_url, "model": "peer"}},
                "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
            },
            {"BOT_TOKEN": telegram.token, "NOTIFY_SOCKET": str(folder / "notify")},
        )
        ready: list[float] = []
        memory = 0.0
        for start in range(STARTS):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
                (folder / "notify").unlink(missing_ok=True)
                notify.bind(str(folder / "notify"))
                started_at = time.monotonic()
                async with deployment.daemon() as process:
                    await asyncio.to_thread(notify.recv, 100)
                    ready.append(time.monotonic() - started_at)
                    for number in range(QUESTIONS):
                        telegram.say(CHAT + start, f"How does client {number} retry a request that timed out?")
                    await telegram.wait_until(lambda: len(model.requests) >= QUESTIONS, 60)
                    await asyncio.sleep(3)
                    memory = max(memory, psutil.Process(process.pid).memory_info().rss / 2**20)
                    model.requests.clear()
    return [
        Figure("daemon: start to ready", median(ready), "s", 3),
        Figure("daemon: resident memory", memory, "MiB", 400),
    ]
