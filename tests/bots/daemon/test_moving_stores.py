"""From the embedded store to a Weaviate server and back, as docs/weaviate.md says, while a daemon answers."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bots.common.store_owner import open_store_owner
from core.settings import WeaviateSettings
from core.settings.loader import load_settings
from knowledge.embedding.local import LOCAL_DIMENSION, LOCAL_NAME
from knowledge.ports import PassageRow
from knowledge.stores import open_store
from tests.support.deployment import Deployment
from tests.support.free_ports import free_ports

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-this-test-alone-123456"
PAGES = 30
START_S = 120.0
QUESTION = "How do I start engine number 7?"


class Moving:
    """A deployment whose daemon is asked over HTTP."""

    def __init__(self, folder: Path, server: WeaviateSettings) -> None:
        self.docs = folder / "docs"
        self.docs.mkdir()
        for number in range(PAGES):
            self.write(number, f"Turn key {number} twice.")
        (self.port,) = free_ports(1)
        self.server = server.model_dump(mode="json", exclude_none=True)
        self.deployment = Deployment(
            folder,
            {
                "sources": {"docs": {"kind": "files", "path": str(self.docs)}},
                "api": {"port": self.port, "clients": {"test": {"token": {"env": "API_TOKEN"}}}},
                "cache": {"enabled": False},
                "knowledge": {"store": {"provider": "sqlite", "weaviate": self.server}},
            },
            {"API_TOKEN": TOKEN},
        )

    def write(self, number: int, text: str) -> None:
        (self.docs / f"{number}.md").write_text(f"# Engine {number}\n\nTo start engine number {number}: {text}\n")

    def use(self, provider: str) -> None:
        self.deployment.settings["knowledge"]["store"]["provider"] = provider

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[None]:
        async with self.deployment.daemon() as process:
            yield
            process.send_signal(signal.SIGTERM)
            await process.wait()

    async def ask(self, expected: str) -> None:
        """Ask until an answer says what is expected."""
        answer: Any = ""
        try:
            async with asyncio.timeout(START_S), aiohttp.ClientSession() as session:
                while expected not in str(answer):
                    answer = await self._ask_once(session)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{answer}\n{self.deployment.log()[-3000:]}") from None

    async def _ask_once(self, session: aiohttp.ClientSession) -> Any:
        url = f"http://127.0.0.1:{self.port}/ask"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        try:
            async with session.post(url, json={"question": QUESTION}, headers=headers) as response:
                return await response.json() if response.status == 200 else await response.text()
        except aiohttp.ClientConnectorError as error:
            return error

    async def ingest(self) -> None:
        """Read what has changed, as soon as the daemon is not just filling the source."""
        async with asyncio.timeout(START_S):
            while True:
                try:
                    await asyncio.to_thread(self.deployment.call, "ingest")
                    return
                except AssertionError as error:
                    if "another process is refreshing" not in str(error):
                        raise
                await asyncio.sleep(0.2)

    async def run(self, *arguments: str) -> Any:
        return await asyncio.to_thread(self.deployment.json, *arguments)

    async def rows(self, provider: str) -> dict[str, PassageRow]:
        """Return what a store holds, by the ids."""
        self.use(provider)
        settings = load_settings([self.deployment.config])
        owner = await open_store_owner(settings)
        store = await open_store(settings.knowledge.store, settings.data_dir, LOCAL_NAME, LOCAL_DIMENSION, owner=owner)
        try:
            rows = await store.rows("docs", list(await store.manifest("docs")))
        finally:
            await store.close()
        assert max(Counter(row.passage.id for row in rows).values()) == 1
        return {row.passage.id: row for row in rows}


def describe(rows: dict[str, PassageRow]) -> dict[str, tuple[str, str, str, bool]]:
    return {
        name: (row.passage.path, row.passage.text, row.fingerprint, row.vector is None) for name, row in rows.items()
    }


@pytest.mark.timeout(600)
async def test_a_daemon_moves_to_a_server_and_back_and_answers_meanwhile(
    tmp_path: Path, weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", TOKEN)
    moving = Moving(tmp_path, weaviate_settings)
    await moving.ingest()
    async with moving.daemon():
        await moving.ask("Turn key 7 twice")
        moving.use("weaviate")
        await moving.run("store", "copy", "--to", "weaviate")
        await moving.ask("Turn key 7 twice")
    assert describe(await moving.rows("weaviate")) == describe(await moving.rows("sqlite"))
    moving.use("weaviate")
    async with moving.daemon():
        await moving.ask("Turn key 7 twice")
        # Only the server gets this.
        moving.write(7, "Push button 7 once.")
        (moving.docs / "1.md").unlink()
        await moving.ingest()
        await moving.ask("Push button 7 once")
        moving.use("sqlite")
        await moving.run("store", "copy", "--to", "sqlite")
        await moving.ask("Push button 7 once")
    rows = describe(await moving.rows("sqlite"))
    assert rows == describe(await moving.rows("weaviate"))
    assert len(rows) == PAGES - 1
    moving.use("sqlite")
    async with moving.daemon():
        await moving.ask("Push button 7 once")


@pytest.mark.timeout(600)
async def test_a_store_that_was_left_is_brought_up_to_date_at_once(
    tmp_path: Path, weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a copy: an empty server is filled while words answer, and the file that waited has old knowledge."""
    monkeypatch.setenv("API_TOKEN", TOKEN)
    moving = Moving(tmp_path, weaviate_settings)
    await moving.ingest()
    moving.use("weaviate")
    async with moving.daemon():
        await moving.ask("Turn key 7 twice")
        moving.write(7, "Push button 7 once.")
        await moving.ingest()
        await moving.ask("Push button 7 once")
    moving.use("sqlite")
    async with moving.daemon():
        await moving.ask("Push button 7 once")
    assert describe(await moving.rows("sqlite")) == describe(await moving.rows("weaviate"))
