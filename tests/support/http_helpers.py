"""A harness for the HTTP adapter: the network as a peer, the real processor and journal, an answer function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from bots.http.adapter import HttpAdapter
from bots.http.client import HttpIntervals
from core.messaging.inbox import Inbox
from core.ports import AnswerFunction, Library, Sink
from core.settings import HttpSettings, Settings
from core.storage.messages import Journal
from core.types import Citation, Question, Reply
from tests.support.fixtures import settings
from tests.support.peers.callback import SECRET, CallbackPeer
from tests.support.wiring import make_processor, running

QUICK = HttpIntervals(partial_s=0.01, retry_s=0.01, max_retry_s=0.05, retry_timeout_s=30, shutdown_grace_s=0.5)
CITED = (Citation(1, "p", "docs", "Install", "install.md", "https://example.org/install"),)


def event(number: str = "1", **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "chat": "room",
        "author": {"id": "42", "name": "Ann"},
        "text": "How?",
        "kind": "message",
        "addressed": True,
        **changes,
    }


async def echo(question: Question, sink: Sink) -> Reply:
    reply = Reply(f"{len(question.history)}: {question.text} [1]", CITED)
    await sink.open()
    await sink.update("so far")
    await sink.finish(reply)
    return reply


@dataclass
class Harness:
    peer: CallbackPeer
    adapter: HttpAdapter
    processor: Inbox
    journal: Journal

    async def send(self, *events: object) -> list[int]:
        return [(await self.peer.send(self.adapter.port, item))[0] for item in events]

    async def wait_until_finished(self) -> None:
        assert await self.processor.drain(60) == 0

    async def state(self, number: str = "1") -> tuple[str, str]:
        async with self.journal.database.connect() as connection:
            query = text("SELECT state, reason FROM messages WHERE id = :id")
            row = (await connection.execute(query, {"id": number})).one()
        return str(row.state), str(row.reason)


def http_settings(peer: CallbackPeer, folder: Path, **changes: object) -> HttpSettings:
    secret = folder / "secret"
    secret.write_text(SECRET)
    base = {"secret": {"file": secret}, "callback_url": peer.url, "port": 0, "allow_private": ["127.0.0.1"]}
    return HttpSettings.model_validate({**base, **changes})


@asynccontextmanager
async def open_harness(
    folder: Path,
    answer: AnswerFunction = echo,
    *,
    http: dict[str, object] | None = None,
    configuration: Settings | None = None,
    library: Library | None = None,
    peer: CallbackPeer | None = None,
    **changes: object,
) -> AsyncIterator[Harness]:
    journal = await Journal.open(folder / "journal.db")
    try:
        async with peer or CallbackPeer() as network:
            adapter = HttpAdapter(http_settings(network, folder, **(http or {})), QUICK)
            processor = make_processor(configuration or settings(**changes), journal, answer, library)
            async with running(adapter, processor, drain_s=0):
                async with asyncio.timeout(30):
                    await adapter.ready.wait()
                yield Harness(network, adapter, processor, journal)
            assert network.violations == []
    finally:
        await journal.close()
