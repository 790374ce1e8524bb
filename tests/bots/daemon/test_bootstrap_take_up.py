"""Other settings are taken up while questions are answered and sources are read."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bots.daemon import bootstrap
from bots.daemon.bootstrap import App, make_live_settings, open_app, take_up_knowledge
from core.errors import ConfigurationError
from core.settings import Settings
from core.settings.audience import Audiences
from core.storage.engine import Database
from core.storage.overrides import LiveSettings
from knowledge.ports import Store
from tests.support.knowledge import WordEmbedder
from tests.support.waiting import until

SOON_S = 20


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    texts = {"fruit": "An apple is sweet.", "tools": "A hammer is heavy.", "boats": "A boat floats."}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(text, "utf-8")
    return make_settings(tmp_path, "fruit", "tools")


def make_settings(folder: Path, *names: str, **changes: object) -> Settings:
    files = {name: {"kind": "files", "path": folder / name} for name in names}
    return Settings.model_validate({"data_dir": folder / "data", "sources": files, **changes})


@asynccontextmanager
async def opened(settings: Settings, store: Store, embedder: WordEmbedder) -> AsyncIterator[tuple[App, LiveSettings]]:
    settings.data_dir.mkdir()
    database = await Database.open(settings.data_dir / "journal.db")
    live = make_live_settings(settings, database)
    try:
        async with open_app(settings, embedder=embedder, store=store, database=database, live=live) as app:
            await app.refresh()
            yield app, live
    finally:
        await database.close()


async def test_a_refresh_that_ends_during_a_take_up_is_known_afterwards(
    settings: Settings, tmp_path: Path, store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings, store, embedder) as (app, live):
        scheduler = app.make_refresh_scheduler(live.overrides.database)

        async def purge(*_: object) -> Sequence[str]:
            """Let the refresh end after the new library has read all, and before it answers."""
            (tmp_path / "fruit" / "b.md").write_text("A plum is purple.", "utf-8")
            await scheduler.refresh(["fruit"])
            while not await store.search("plum", None, ["fruit"], 1):
                await asyncio.sleep(0.02)
            # It is announced by then, if nothing holds it.
            await asyncio.sleep(1)
            return []

        monkeypatch.setattr(scheduler, "purge_passages_for_others", purge)
        async with scheduler.run(), asyncio.timeout(SOON_S):
            newer = make_settings(tmp_path, "fruit", "tools", "boats")
            await take_up_knowledge(app, scheduler, live, newer, live.audiences)
            await until(lambda: app.library.passage_count >= 4)


async def test_what_cannot_be_taken_up_deletes_nothing(
    settings: Settings, tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    purges = list[str]()

    async def purge() -> Sequence[str]:
        purges.append("fruit")
        return ["fruit"]

    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "nonsense.md").write_text("?", "utf-8")
    async with opened(settings, store, embedder) as (app, live):
        former_library = app.library
        with pytest.raises(ConfigurationError):
            await app.take_up(
                make_settings(tmp_path, "boats", prompts={"folder": tmp_path / "prompts"}), live, purge, Audiences()
            )
        assert (purges, app.library, app.settings) == ([], former_library, settings)


async def test_a_library_that_is_taken_up_knows_what_was_deleted_before(
    settings: Settings, tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    async def purge() -> Sequence[str]:
        await store.replace("fruit", list(await store.manifest("fruit")), [])
        return ["fruit"]

    async with opened(settings, store, embedder) as (app, live):
        assert app.library.passage_count == 2
        await app.take_up(make_settings(tmp_path, "fruit", "tools"), live, purge, Audiences())
        assert app.library.passage_count == 1


async def purge_nothing() -> Sequence[str]:
    return []


async def test_a_former_library_is_let_go_when_its_last_answer_has_ended(
    settings: Settings, tmp_path: Path, store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "CLOSE_DELAY_S", 0.2)
    brief = {"budget": {"deadline_s": 0.1}}
    async with opened(make_settings(tmp_path, "fruit", "tools", **brief), store, embedder) as (app, live):
        first_library = app.library
        await app.take_up(make_settings(tmp_path, "fruit", **brief), live, purge_nothing, Audiences())
        assert first_library.passage_count == 2, "an answer may still use it"
        second_library = weakref.ref(app.library)
        await app.take_up(make_settings(tmp_path, "fruit", "tools", **brief), live, purge_nothing, Audiences())
        async with asyncio.timeout(SOON_S):
            while second_library():
                await asyncio.sleep(0.1)
                gc.collect()
        assert (first_library.passage_count, app.library.passage_count) == (0, 2)
        assert not app._former_libraries


async def test_a_former_library_tries_no_more_to_load(
    settings: Settings, tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    async with opened(settings, store, embedder) as (app, live):
        embedder.broken = True
        described = {"fruit": {"sources": ["fruit"], "description": "what grows on trees"}}
        await app.take_up(make_settings(tmp_path, "fruit", agents=described), live, purge_nothing, Audiences())
        former_library = app.library
        await app.take_up(make_settings(tmp_path, "fruit"), live, purge_nothing, Audiences())
        assert former_library._retry
        await asyncio.gather(former_library._retry, return_exceptions=True)
        assert former_library._retry.cancelled()
