"""The daemon answers in time while hostile sources of every kind are refreshed, or asked beside the question."""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from bots.daemon.runner import run
from core.settings.loader import load_settings
from tests.support.bombs import author_feed, wide_docx
from tests.support.deployment import README, Deployment, make_repository
from tests.support.peers.forge import PROJECT, REPOSITORY, ForgePeer, Ticket
from tests.support.peers.telegram import TelegramPeer
from tests.support.peers.web import Page, WebPeer
from tests.support.waiting import until

pytestmark = [pytest.mark.serial, pytest.mark.timeout(300)]
GROUP = -100200300
# All but those that are asked beside a question.
STORED_SOURCES = 9
# Far below the deadline of an answer (10 s here), far above what a busy machine takes: what froze the loop took 30 s.
MAX_ANSWER_S = 10.0
MAX_LAG_S = 3.0
# Read in the loop, what grows with the square of these would stop it for seconds. All of it is embedded in the end.
MARKDOWN_BOMB = "# " + "`" * 30_000 + "\n\n" + "> " * 10_000
JSON_BOMB = '{"results": [' + "[]," * 300_000 + "[]]}"


def fill(web: WebPeer, forge: ForgePeer) -> None:
    """Put onto the servers what was made to hurt."""
    odd = {"Content-Type": "text/plain; charset=punycode"}
    web.pages["/robots.txt"] = Page(b"a" * 400_000, headers=odd)
    web.pages["/sitemap.xml"] = Page(gzip.compress(b"<urlset>" + b"<a/>" * (2 << 18)))
    web.pages["/"] = Page(b"<br>y" * 150_000)
    web.pages["/feed"] = Page(author_feed("\n" * 50_000 + "(" * 50_000))
    for path in ("/api", "/search", "/rag/bases/a/search"):
        web.pages[path] = Page(JSON_BOMB, headers=odd)
    web.pages["/tool"] = Page(JSON_BOMB, headers={"Content-Type": "application/json"})
    forge.tickets[1] = Ticket(1, "A bomb", MARKDOWN_BOMB)


def make_sources(folder: Path, web: WebPeer, forge: ForgePeer) -> dict[str, Any]:
    """Return a harmless source, and a hostile one of every kind."""
    for name in ("docs", "bombs"):
        (folder / name).mkdir()
    (folder / "docs" / "rocket.md").write_text(README, "utf-8")
    (folder / "bombs" / "a.docx").write_bytes(wide_docx())
    (folder / "faq.yaml").write_text("- {q: a, a: b}\n" * 50_000)
    make_repository(folder / "repository", {"README.md": MARKDOWN_BOMB})
    ours = {"allow_private": ["127.0.0.1"]}
    issues = {"take": ["issues"]}
    return {
        "rocket": {"kind": "files", "path": "docs"},
        "files": {"kind": "files", "path": "bombs"},
        "faq": {"kind": "faq", "path": "faq.yaml"},
        "git": {"kind": "git", "url": str(folder / "repository")},
        "site": {"kind": "website", "url": web.url("/"), **ours},
        "feed": {"kind": "feed", "url": web.url("/feed"), **ours},
        "forge": {"kind": "github", "repository": REPOSITORY, "api_url": forge.url("/api/v3"), **issues, **ours},
        "lab": {"kind": "gitlab", "project": PROJECT, "api_url": forge.url("/api/v4"), **issues, **ours},
        "api": {"kind": "http_api", "url": web.url("/api"), **ours},
        "web": {"kind": "search_api", "provider": "searxng", "base_url": web.url(), **ours},
        "rag": {"kind": "remote_rag", "base_url": web.url("/rag"), "bases": {"a": 1}, **ours},
        "tool": {"kind": "mcp", "url": web.url("/tool"), "tool": "search", **ours},
        "standing": {"kind": "standing", "of": "api", "queries": ["rocket"]},
    }


@asynccontextmanager
async def measured_lag() -> AsyncIterator[list[float]]:
    """Collect by how much a pause of the event loop was longer than it should be."""
    lags = [0.0]

    async def measure() -> None:
        while True:
            started_at = time.perf_counter()
            await asyncio.sleep(0.02)
            lags.append(time.perf_counter() - started_at - 0.02)

    task = asyncio.create_task(measure())
    try:
        yield lags
    finally:
        task.cancel()


def read_attempted(database: Path) -> set[str]:
    """Return the sources whose first refresh has ended, in whichever way."""
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        return {row[0] for row in connection.execute("SELECT source FROM refreshes WHERE ended_at IS NOT NULL")}


async def test_the_daemon_answers_in_time_while_hostile_sources_are_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(TelegramPeer())
        web = await stack.enter_async_context(WebPeer())
        forge = await stack.enter_async_context(ForgePeer())
        fill(web, forge)
        monkeypatch.setenv("BOT_TOKEN", telegram.token)
        settings = {
            "sources": make_sources(tmp_path, web, forge),
            "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
            "budget": {"deadline_s": 10},
            "cache": {"enabled": False},
            # Low, so that the test ends soon: what exceeds these is refused.
            "knowledge": {"parsing": {"cpu_s": 1, "wall_s": 20}},
        }
        deployment = Deployment(tmp_path, settings)
        await asyncio.to_thread(deployment.call, "ingest", "rocket")
        lags = await stack.enter_async_context(measured_lag())
        daemon_task = asyncio.create_task(run(load_settings([deployment.config])))
        stack.push_async_callback(asyncio.gather, daemon_task, return_exceptions=True)
        stack.callback(daemon_task.cancel)
        # The first question waits for the start as well.
        await ask(telegram, 0)
        seconds = [0.0]
        async with asyncio.timeout(240):
            while len(await asyncio.to_thread(read_attempted, tmp_path / "data" / "journal.db")) < STORED_SOURCES:
                seconds.append(await ask(telegram, len(seconds)))
                # Between them the refreshes go on: what the loop does meanwhile is in its pauses.
                await asyncio.sleep(0.3)
    assert len(seconds) > 1, "a fast machine has read them all before a second question"
    assert max(seconds) < MAX_ANSWER_S
    assert max(lags) < MAX_LAG_S
    fetched = {request.path for request in web.requests}
    assert fetched >= {"/robots.txt", "/feed", "/api", "/search", "/rag/bases/a/search", "/tool"}


async def ask(telegram: TelegramPeer, number: int) -> float:
    """Ask in a group of its own, and return after how many seconds the whole answer is there."""
    started_at = time.perf_counter()
    telegram.say(GROUP - number, "@kimas_bot How do I change the signing key?")
    await until(lambda: any("rotate_keys" in message.text for message in telegram.messages(GROUP - number)))
    return time.perf_counter() - started_at
