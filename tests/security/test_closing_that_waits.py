"""What is closed counts at once, also where the sources themselves wait for a restart, or another daemon closes it."""

from __future__ import annotations

import asyncio
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
from tests.support.git_repositories import commit, git
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic
from tests.support.peers.forge import REPOSITORY, ForgePeer, Ticket
from tests.support.peers.git_server import GitServer
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


@pytest.mark.parametrize("way", [*WAYS, "refreshed"])
@pytest.mark.parametrize("is_new", [False, True], ids=["of a source", "of none so far"])
async def test_a_page_shows_no_file_that_was_closed(
    stack: AsyncExitStack, tmp_path: Path, way: Way, is_new: bool
) -> None:
    fill(tmp_path)
    docs = {"kind": "files", "path": tmp_path / "kb", "include": ["docs/**"]}
    team = {"kind": "files", "path": tmp_path / "kb" / "team"}
    group = await open_group(stack, tmp_path, docs=docs, **({} if is_new else {"team": team}))
    await group.change(way, docs=docs, team={**team, **CLOSED})
    assert "numbat" not in await group.ask()
    assert "docs" in group.bot.live.audiences.visible_sources(None), "its other pages stay open"


@pytest.mark.parametrize("way", [*WAYS, "refreshed"])
@pytest.mark.parametrize("means", ["cache", "hint"])
@pytest.mark.parametrize("is_other_closed", [False, True], ids=["first closing", "further closing"])
async def test_what_was_made_before_a_closing_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, means: str, way: Way, is_other_closed: bool
) -> None:
    """Neither from the cache nor as a hint to an earlier answer: the page had shown the file that is closed now."""
    fill(tmp_path)
    gate = {"mode": "auto", "threshold": 0, "wait_s": 0, "cooldown_s": 0, "repeated": "point"}
    options = {"cache": {"enabled": True}} if means == "cache" else {"gate": gate}
    docs = {"kind": "files", "path": tmp_path / "kb", "include": ["docs/**"]}
    drafts = {"drafts": {"kind": "files", "path": tmp_path / "other", **CLOSED}} if is_other_closed else {}
    group = await open_group(stack, tmp_path, options, docs=docs, **drafts)
    assert "numbat" in await group.ask(addressed=means == "cache")
    plans = {"kind": "files", "path": tmp_path / "kb" / "team", **CLOSED}
    await group.change(way, docs=docs, plans=plans, **drafts)
    assert "numbat" not in await group.ask(addressed=means == "cache")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["files", "git", "github", "split folder"])
async def test_a_part_of_a_source_that_was_closed_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, way: Way, kind: str
) -> None:
    fill(tmp_path)
    left: dict[str, Any] = {"exclude": ["team/"]}
    taken: dict[str, Any] = {"include": ["team/**"]}
    base: dict[str, Any] = {"kind": "files", "path": tmp_path / "kb"}
    if kind == "git":
        repository = tmp_path / "served" / "r.git"
        repository.mkdir(parents=True)
        git(repository, "init", "-q", "-b", "main")
        commit(repository, {**FILES, "docs/start.md": "The launcher has a button.\n"})
        base = {"kind": "git", "url": stack.enter_context(GitServer(repository.parent).running()).url("r.git")}
    elif kind == "github":
        forge = await stack.enter_async_context(ForgePeer())
        forge.tickets = {1: Ticket(1, "Launcher", "It has a button."), 2: Ticket(2, "Plan", PLAN, labels=["internal"])}
        server = {"api_url": forge.url("/api/v3"), "allow_private": ["127.0.0.1"], "token": {"env": "FORGE_TOKEN"}}
        base = {"kind": "github", "repository": REPOSITORY, **server}
        left, taken = {"exclude_labels": ["internal"]}, {"labels": ["internal"]}
    former = {"plans": {**base, **taken}} if kind == "split folder" else {}
    group = await open_group(stack, tmp_path, docs=base, **former)
    await group.change(way, docs={**base, **left}, plans={**base, **taken, **CLOSED})
    assert "numbat" not in await group.ask()


@pytest.mark.parametrize("way", WAYS)
async def test_a_category_that_moves_to_a_closed_source_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, way: Way
) -> None:
    fill(tmp_path)
    forum = await stack.enter_async_context(DiscoursePeer())
    forum.topics[1] = Topic("Launcher", [Entry("The launcher has a button.")])
    forum.topics[2] = Topic("Plan", [Entry(PLAN)], category="staff/12")
    group = await open_group(stack, tmp_path, talk=take_forum(forum.url(), "support/5", "staff/12"))
    closed = take_forum(forum.url(), "staff/12", **CLOSED)
    await group.change(way, talk=take_forum(forum.url(), "support/5"), staff=closed)
    assert "numbat" not in await group.ask()


TITLE = f"# Numbat comes on the first of May\n\n{PLAN}\n"


async def get_titles(group: Group) -> str:
    await group.bot.live.overrides.load()
    library = group.bot.app.library.restricted_to({"docs"})
    return f"{library.titles()} {library.modules()}".lower()


async def get_new_titles(group: Group) -> str:
    """Return the titles once they were loaded again."""
    async with asyncio.timeout(60):
        while "launcher" not in (titles := await get_titles(group)):
            await asyncio.sleep(0.05)
    return titles


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["included", "private"])
async def test_no_title_of_what_was_closed_is_told(stack: AsyncExitStack, tmp_path: Path, way: Way, what: str) -> None:
    fill(tmp_path)
    kb = tmp_path / "kb"
    (kb / "docs" / "launcher.md").write_text("# The launcher\n\nThe launcher has a button.\n")
    if what == "included":
        (kb / "team" / "plan.md").write_text(TITLE)
        (kb / "docs" / "start.md").write_text('--8<-- "team/plan.md"\n')
    else:
        (kb / "docs" / "write.md").write_text(TITLE)
    docs = {"kind": "files", "path": kb, "include": ["docs/**"]}
    group = await open_group(stack, tmp_path, docs=docs)
    assert "numbat" in await get_titles(group)
    if what == "private":
        group.options = {"prompts": {"write": str(kb / "docs" / "write.md")}}
        await group.change(way, docs=docs)
    else:
        await group.change(way, docs=docs, team={"kind": "files", "path": kb / "team", **CLOSED})
    assert "numbat" not in await get_titles(group)
    assert "numbat" not in await get_new_titles(group)
