"""The operator's page over a journal of 100,000 answered questions: how long each page takes over HTTP."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy import Table, insert

from bots.cli.browser_setup import BrowserSetup
from core.storage.engine import Database
from core.storage.tables import answers, feedback, messages, spending
from tests.lab.benchmarks.figures import Figure, median
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
    async with operator_page(folder, os.environ, setup=BrowserSetup(configuration)) as page:
        await _fill(page.context.reports._database)
        async with aiohttp.ClientSession(page.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
            await client.post("/sign-in", data={"token": OWNER})
            for name, path in PAGES.items():
                times = [await _open(client, path) for _ in range(ROUNDS + 1)]
                limit = None if "rare" in name else LIMIT_MS
                figures.append(Figure(f"operator page: {name}, first", times[0], "ms"))
                figures.append(Figure(f"operator page: {name}, p50", median(times[1:]), "ms", limit))
    return figures


async def _open(client: aiohttp.ClientSession, path: str) -> float:
    started_at = time.perf_counter()
    async with client.get(path) as response:
        response.raise_for_status()
        await response.read()
    return 1000 * (time.perf_counter() - started_at)


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
