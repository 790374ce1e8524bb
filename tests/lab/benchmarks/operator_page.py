"""The operator's page over a journal of 100,000 answered questions: the processor time of each page over HTTP.

That of the client is in it. The time by the clock would be that of the machine's other work, too.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy import Table, insert

from bots.cli.browser_setup import BrowserSetup
from bots.operator_page.views import find_context_gaps
from core.settings.loader import load_settings
from core.storage.engine import Database
from core.storage.tables import answers, feedback, messages, spending
from knowledge.embedding import open_embedder
from knowledge.ports import Embedder
from knowledge.retrieval.grouping import TextGrouper
from tests.lab.benchmarks.figures import Figure, median
from tests.support.fixtures import InMemoryLibrary
from tests.support.operator_page import ANSWER, OWNER, TRACE, operator_page

QUESTIONS = 100_000
BATCH = 2_000
DAYS = 30
CHATS = 40
WORDS = [
    "install",
    "session",
    "proxy",
    "timeout",
    "key",
    "rotate",
    "server",
    "listen",
    "port",
    "cookie",
    "redis",
    "windows",
    "licence",
    "docker",
    "cost",
    "model",
    "citation",
]
LIMIT_MS = 300
ROUNDS = 5
PAGES = {
    "questions": "/",
    "questions of one chat": "/?chat=c7&days=30",
    "questions with a rare word": "/?text=zebra&days=30",
    "one question": f"/questions/{QUESTIONS // 2}",
    "unanswered": "/unanswered",
    "feedback": "/feedback",
    "usage of 30 days": "/usage?days=30",
    "set up": "/setup",
}


async def measure(folder: Path) -> list[Figure]:
    """Fill a journal, and open each page: the first time in this process, and later ones."""
    figures: list[Figure] = []
    configuration = folder / "kimas.yaml"
    configuration.write_text("name: KIMAs\n", "utf-8")
    embedder = await open_embedder(load_settings([], (), {}).knowledge.embedding, folder / "models")
    setup = BrowserSetup(configuration)
    async with operator_page(folder, os.environ, setup=setup, library=GroupingLibrary(embedder)) as page:
        await _fill(page.context.reports._database)
        figures.append(
            Figure("operator page: what a daemon prepares", await _measure(find_context_gaps(page.context)), "ms")
        )
        async with aiohttp.ClientSession(page.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
            await client.post("/sign-in", data={"token": OWNER})
            for name, path in PAGES.items():
                times = [await _measure(_open(client, path)) for _ in range(ROUNDS + 1)]
                limit = None if "rare" in name else LIMIT_MS
                figures.append(Figure(f"operator page: {name}, first", times[0], "ms", limit))
                figures.append(Figure(f"operator page: {name}, p50", median(times[1:]), "ms", limit))
    await embedder.close()
    return figures


class GroupingLibrary(InMemoryLibrary):
    """A library without passages that groups texts by their meaning, as that of a daemon."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self._grouper = TextGrouper(embedder)

    async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return the groups of texts of one meaning."""
        return await self._grouper.group(texts)


async def _measure(work: Awaitable[object]) -> float:
    """Return the processor time of some work, of all threads, in milliseconds."""
    started_at = time.process_time()
    await work
    return 1000 * (time.process_time() - started_at)


async def _open(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as response:
        response.raise_for_status()
        await response.read()


async def _fill(database: Database) -> None:
    generator = random.Random(1)
    for first in range(0, QUESTIONS, BATCH):
        rows = [_make_row(number, generator) for number in range(first, first + BATCH)]
        for table, values in _to_tables(rows, first):
            async with database.transaction() as connection:
                await connection.execute(insert(table), values)


def _make_row(number: int, generator: random.Random) -> dict[str, Any]:
    received_at = datetime.now(UTC) - timedelta(days=DAYS) * (1 - number / QUESTIONS)
    return {
        "platform": "telegram",
        "bot": "9",
        "chat": f"c{generator.randrange(CHATS)}",
        "thread": "",
        "id": str(number),
        "author_id": str(number % 500),
        "author": "Ann",
        "command": "",
        "reply_to": "",
        "quoted": "",
        "private": False,
        "addressed": True,
        "reference": {},
        "sent_at": received_at,
        "received_at": received_at,
        "state": "answered",
        "reason": "",
        "reply_id": f"r{number}",
        "reply": ANSWER,
        "trace": TRACE.to_json(),
        "text": f"How do I {' '.join(generator.sample(WORDS, 6))}?",
        "citations": [{"n": 1, "passage_id": TRACE.passages[0].id, "source": "docs"}],
        "settled_at": received_at + timedelta(seconds=3),
        "detail": generator.choice(["", "", "", "extractive", "nothing_found"]),
    }


def _to_tables(rows: list[dict[str, Any]], first: int) -> Iterator[tuple[Table, list[Mapping[str, Any]]]]:
    amounts = {"prompt": 3000, "completion": 200, "cost": 0.002}
    column_names = ("platform", "chat", "author_id")
    yield messages, [*rows]
    days = [row["received_at"].date().isoformat() for row in rows]
    yield (
        answers,
        [
            {
                **{name: row[name] for name in column_names},
                "question_id": row["id"],
                "outcome": "answered",
                "day": day,
                **amounts,
            }
            for row, day in zip(rows, days, strict=True)
        ],
    )
    yield (
        spending,
        [
            {"answer": number, "agent": agent, "model": model, "day": day, **amounts}
            for number, day in enumerate(days, first + 1)
            for agent, model in (("answer", "qwen3:32b"), ("rewrite", "qwen3:4b"))
        ],
    )
    yield (
        feedback,
        [
            {
                **{name: row[name] for name in (*column_names, "bot")},
                "question": row["id"],
                "verdict": "up",
                "reason": "",
                "press": row["id"],
                "at": row["received_at"],
            }
            for row in rows[::10]
        ],
    )
