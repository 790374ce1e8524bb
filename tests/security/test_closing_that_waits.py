"""What is closed counts at once, also where the sources themselves wait for a restart, or another daemon closes it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.changing_group import (
    CLOSED,
    FILES,
    PLAN,
    WAYS,
    Group,
    Way,
    fill,
    open_group,
    stack,
    take_forum,
)
from tests.support.git_repositories import commit, git
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic
from tests.support.peers.forge import REPOSITORY, ForgePeer, Ticket
from tests.support.peers.git_server import GitServer

__all__ = ["stack"]


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
@pytest.mark.parametrize("how", ["read", "included", "within"])
async def test_a_part_that_moves_to_a_source_that_was_closed_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, way: Way, how: str
) -> None:
    """Both sources keep their names; the closed one reads more, or was within the other one that reads less."""
    fill(tmp_path)
    base: dict[str, Any] = {"kind": "files", "path": tmp_path / "kb"}
    docs = {**base, "include": ["docs/**", "team/**"] if how == "read" else ["docs/**"]}
    less = {**base, "include": ["docs/**"]}
    plans = {**base, "include": ["hr/**"], **CLOSED}
    more = {**plans, "include": ["hr/**", "team/**"]}
    if how == "within":
        docs, less, plans = base, {**base, "exclude": ["team/**"]}, more
    group = await open_group(stack, tmp_path, docs=docs, plans=plans)
    await group.change(way, docs=less, plans=more)
    assert "numbat" not in await group.ask()


@pytest.mark.parametrize("then", ["removed", "opened", "moved"])
async def test_what_waits_stays_closed_whatever_a_next_reload_says(
    stack: AsyncExitStack, tmp_path: Path, then: str
) -> None:
    """The sources are still those of the start: what the first reload closed of them has not been taken up."""
    fill(tmp_path)
    base: dict[str, Any] = {"kind": "files", "path": tmp_path / "kb"}
    less = {**base, "include": ["docs/**"]}
    plans = {**base, "include": ["hr/**"], **CLOSED}
    more = {**base, "include": ["hr/**", "team/**"]}
    group = await open_group(stack, tmp_path, docs={**base, "include": ["docs/**", "team/**"]}, plans=plans)
    await group.change("waits", docs=less, plans={**more, **CLOSED})
    assert "numbat" not in await group.ask()
    moved = {**base, "path": tmp_path / "other", **CLOSED}
    next_sources = {"removed": {}, "opened": {"plans": more}, "moved": {"plans": moved}}[then]
    await group.change("waits", docs=less, **next_sources)
    assert "numbat" not in await group.ask()


async def test_what_waited_is_told_again_once_it_is_taken_up(stack: AsyncExitStack, tmp_path: Path) -> None:
    fill(tmp_path)
    base: dict[str, Any] = {"kind": "files", "path": tmp_path / "kb"}
    group = await open_group(stack, tmp_path, docs=base)
    newer = {"docs": {**base, "include": ["docs/**"]}, "plans": {**base, "include": ["team/**"], **CLOSED}}
    await group.change("waits", **newer)
    assert "docs" not in group.bot.live.audiences.visible_sources(None)
    await group.change("taken up", **newer)
    assert "docs" in group.bot.live.audiences.visible_sources(None)
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


async def test_what_was_taught_stays_told_where_a_reload_takes_up_the_sources(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    """Its source reads less of a place where something was closed already: nothing of that waits."""
    fill(tmp_path)
    team = {"audience": ["telegram:-100"]}
    docs = {"kind": "files", "path": tmp_path / "kb", **team}
    others = {
        "plans": {"kind": "files", "path": tmp_path / "kb" / "team", **CLOSED},
        "taught": {"kind": "learned", **team},
    }
    agents = {"agents": {name: {"sources": [name]} for name in ("docs", "other", *others)}}
    group = await open_group(stack, tmp_path, agents, docs=docs, **others)
    live = group.bot.live
    await live.publish_audiences(live.settings)
    await group.change("taken up", docs={**docs, "exclude": ["team/**"]}, **others)
    assert live._lesson_audiences.readers_see("taught", "docs")
