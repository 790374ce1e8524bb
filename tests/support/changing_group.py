"""A group that asks a bot whose configuration changes: what is closed then must not be told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from sqlalchemy import insert

from core.runtime.locks import source_lock
from core.settings import Settings
from core.settings.audience import Audiences
from core.storage.overrides import AUDIENCES_PREFIX
from core.storage.tables import DEPLOYMENT_SCOPE, overrides
from tests.support.recording_bot import Bot, Sender, open_bot
from tests.support.watched_bot import note_daemon

GROUP = Sender("-100")
OWNER = Sender("1", "1", is_private=True)
QUESTION = "When is the release date of the launcher?"
PLAN = "The release date of the launcher is the first of May, numbat."
CLOSED = {"audience": ["owners"]}
FILES = {
    "docs/start.md": '# Launcher\n\nThe launcher has a button.\n\n--8<-- "team/plan.md"\n',
    "team/plan.md": f"{PLAN}\n",
}
Way = Literal["taken up", "waits", "elsewhere", "refreshed"]
WAYS = ("taken up", "waits", "elsewhere")


@dataclass
class Group:
    """A group that asks a bot, whose configuration changes."""

    folder: Path
    bot: Bot
    options: dict[str, Any]

    async def ask(self, *, addressed: bool = True) -> str:
        """Ask, and return what the group has read since it last asked."""
        await self.bot.deliver(GROUP, QUESTION, addressed=addressed)
        return self.bot.output()

    async def change(self, way: Way, **sources: Any) -> None:
        """Put other sources into the configuration, and have it read again."""
        waiting = {"forum": take_forum("https://forum.example.org", token={"env": "NEW"})} if way == "waits" else {}
        settings = configure(self.folder, {**sources, **waiting}, self.options)
        if way == "elsewhere":
            database = self.bot.journal.database
            await note_daemon(database, "other")
            told = {"name": f"{AUDIENCES_PREFIX}other", "value": Audiences.from_settings(settings).to_json()}
            await database.write(insert(overrides).values(scope=DEPLOYMENT_SCOPE, **told))
            return
        self.bot.new_settings = settings
        is_refreshed = way == "refreshed"
        async with source_lock(settings.data_dir, "docs") if is_refreshed else nullcontext():
            await self.bot.deliver(OWNER, "", "reload")
        self.bot.output()


def take_forum(url: str, *categories: str, **more: Any) -> dict[str, Any]:
    options = {"url": url, "allow_private": ["127.0.0.1"], "categories": categories}
    return {"kind": "own", "plugin": "discourse", "options": options, **more}


def configure(folder: Path, sources: dict[str, Any], options: dict[str, Any]) -> Settings:
    values = {
        "data_dir": folder / "data",
        "sources": {"other": {"kind": "files", "path": folder / "other"}, **sources},
        "telegram": {"token": {"env": "TELEGRAM"}},
        "administration": {"owners": ["telegram:1"]},
        "knowledge": {"routing": {"threshold": 0}, "search": {"min_fit": 0}},
        **options,
    }
    return Settings.model_validate(values)


def fill(folder: Path) -> None:
    for path, text in {"other/a.md": "Nothing.", **{f"kb/{path}": text for path, text in FILES.items()}}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    (folder / "data").mkdir()


@pytest.fixture
async def stack(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncExitStack]:
    monkeypatch.setenv("NEW", "sixteen-letters-of-it")
    monkeypatch.setenv("FORGE_TOKEN", "forge-secret-token")
    async with AsyncExitStack() as stack:
        yield stack


async def open_group(
    stack: AsyncExitStack, folder: Path, options: dict[str, Any] | None = None, **sources: Any
) -> Group:
    """Open a bot with these sources that tells the plan."""
    bot = await stack.enter_async_context(open_bot(configure(folder, sources, options or {}), is_read=True))
    bot.live.overrides._cache_ttl_s = 0
    bot.dispatcher.context.take_up = bot.take_up
    group = Group(folder, bot, options or {})
    assert "numbat" in await group.ask()
    return group
