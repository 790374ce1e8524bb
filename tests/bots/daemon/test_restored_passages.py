"""Passages that came back from a backup are told to nobody for whom they were not read."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bots.daemon.bootstrap import make_live_settings, open_app
from core.settings import Settings
from core.storage.engine import Database
from tests.support.knowledge import WordEmbedder

CLOSED = {"audience": ["owners"]}


def configure(folder: Path, **sources: dict[str, object]) -> Settings:
    files = {name: {"kind": "files", **source} for name, source in sources.items()}
    return Settings.model_validate(
        {"data_dir": folder / "data", "telegram": {"token": {"env": "TELEGRAM"}}, "sources": files}
    )


async def find(settings: Settings, *, is_refreshed: bool) -> set[str]:
    """Open the daemon's knowledge, and return the texts that the source `docs` has."""
    async with AsyncExitStack() as stack:
        database = await Database.open(settings.data_dir / "journal.db")
        stack.push_async_callback(database.close)
        live = make_live_settings(settings, database)
        async with open_app(settings, embedder=WordEmbedder(), database=database, live=live) as app:
            if is_refreshed:
                await app.refresh()
            found = await app.store.search("launcher", None, ["docs"], 9)
            return {passage.text.strip() for passage in found}


@pytest.mark.parametrize("has_new_journal", [False, True])
@pytest.mark.parametrize("former", [CLOSED, {}])
async def test_what_came_back_is_not_told_before_it_was_read_again(
    tmp_path: Path, former: dict[str, object], has_new_journal: bool
) -> None:
    for name, words in {"team": "The launcher ships a numbat.", "open": "The launcher has a button."}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(words, "utf-8")
    (tmp_path / "data").mkdir()
    team, public = ({"path": tmp_path / name} for name in ("team", "open"))
    assert await find(configure(tmp_path, docs={**team, **former}), is_refreshed=True) == {
        "The launcher ships a numbat."
    }
    stored = tmp_path / "data" / "passages"
    shutil.copytree(stored, tmp_path / "backup")
    now = configure(tmp_path, docs=public, plans={**team, **CLOSED})
    assert await find(now, is_refreshed=True) == {"The launcher has a button."}
    shutil.rmtree(stored)
    shutil.copytree(tmp_path / "backup", stored)
    if has_new_journal:
        for file in (tmp_path / "data").glob("journal.db*"):
            file.unlink()
    assert await find(now, is_refreshed=False) == set()
    assert await find(now, is_refreshed=True) == {"The launcher has a button."}
