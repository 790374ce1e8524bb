"""A refresh of one source makes routing anew for its agents alone: nobody else's vectors are read."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bots.daemon.bootstrap import open_app
from core.settings import Settings
from core.storage.engine import Database
from core.types import Passage
from knowledge.ports import PassageRow, Store, StoredDocument, Vectors
from tests.support.knowledge import WordEmbedder


@dataclass
class Watched:
    """A store that notes down whose vectors are read."""

    store: Store
    read: list[str] = field(default_factory=list)

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        return await self.store.manifest(source)

    async def filled(self, sources: Collection[str]) -> Set[str]:
        return await self.store.filled(sources)

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        return await self.store.rows(source, paths)

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        await self.store.replace(source, paths, rows, empty)

    async def optimize(self) -> None:
        await self.store.optimize()

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        return await self.store.search(tokens, vector, sources, limit)

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        return await self.store.term_weights(tokens, sources)

    async def vectors(self, source: str) -> Vectors:
        self.read.append(source)
        return await self.store.vectors(source)

    async def close(self) -> None:
        await self.store.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name, text in {"fruit": "An apple is sweet.", "tools": "A hammer is heavy."}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(text, "utf-8")
    files = {name: {"kind": "files", "path": tmp_path / name} for name in ("fruit", "tools")}
    return Settings.model_validate({"data_dir": tmp_path / "data", "sources": files})


async def test_a_refresh_by_hand_reads_the_vectors_of_its_source_alone(
    settings: Settings, tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    watched_library = Watched(store)
    async with open_app(settings, embedder=embedder, store=watched_library, with_answers=False) as app:
        await app.refresh()
        watched_library.read.clear()
        (tmp_path / "fruit" / "a.md").write_text("A plum is purple.", "utf-8")
        await app.refresh(["fruit"])
        assert set(watched_library.read) == {"fruit"}
        assert (await app.library.route("purple plum"))[0].name == "fruit"


async def test_the_daemon_reads_the_vectors_of_the_source_that_changed_alone(
    settings: Settings, tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    watched_library = Watched(store)
    database = await Database.open(tmp_path / "journal.db")
    try:
        async with open_app(settings, embedder=embedder, store=watched_library, with_answers=False) as app:
            async with app.make_refresh_scheduler(database).run(), asyncio.timeout(60):
                states = app.make_refresh_scheduler(database).states
                while not all(state.last_success and not (state.running or state.unfilled) for state in await states()):
                    await asyncio.sleep(0.02)
            await app.library.reload()
            # Another one, for which nothing is due and nothing is untold, however slow the first one was.
            scheduler = app.make_refresh_scheduler(database)
            watched_library.read.clear()
            async with scheduler.run(), asyncio.timeout(60):
                (tmp_path / "fruit" / "a.md").write_text("A plum is purple.", "utf-8")
                await scheduler.refresh(["fruit"])
                # Before the change is known, no agent may be near enough to be named, or the right one already is.
                while not watched_library.read or [
                    agent_score.name for agent_score in await app.library.route("purple plum")
                ][:1] != ["fruit"]:
                    await asyncio.sleep(0.02)
                assert set(watched_library.read) == {"fruit"}
    finally:
        await database.close()
