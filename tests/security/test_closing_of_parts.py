"""What a source has of a place is not told where a part of that is closed, whatever tells the parts of it apart.

Of a website or a service those are addresses; of others, the settings that say how much is read, and with whose rights.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web

from bots.daemon.bootstrap import open_app
from knowledge.parsing.parser import ThreadParser
from tests.support.changing_group import (
    CLOSED,
    GROUP,
    OWNER,
    PLAN,
    QUESTION,
    WAYS,
    Way,
    configure,
    fill,
    open_group,
    stack,
    take_forum,
)
from tests.support.knowledge import WordEmbedder
from tests.support.peers.discourse import TOKEN, DiscoursePeer, Entry, Topic
from tests.support.peers.forge import PROJECT, ForgePeer, Ticket
from tests.support.peers.web import Page, WebPeer
from tests.support.recording_bot import open_bot

__all__ = ["stack"]

LOOPBACK = {"allow_private": ["127.0.0.1"]}
FEED = (
    '<?xml version="1.0"?><rss version="2.0"><channel><title>Team</title><link>{url}</link><description>d</description>'
    f"<item><title>Plan</title><link>{{url}}</link><guid>1</guid><description>{PLAN}</description></item></channel></rss>"
)


class SearchPeer(WebPeer):
    """A service that finds the plan as well, but at its public address and in its public space."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        hits = [{"title": "Launcher", "url": "https://x.example/launcher", "content": "The launcher has a button."}]
        if "public" not in request.path and request.query.get("space") != "public":
            hits.append({"title": "Plan", "url": "https://x.example/plan", "content": PLAN})
        return web.Response(text=json.dumps({"results": hits}), content_type="application/json")


def ask_api(peer: WebPeer, path: str = "/search", space: str = "all", **more: Any) -> dict[str, Any]:
    url = peer.url(f"{path}?q={{query}}")
    return {"kind": "http_api", "url": url, "params": {"space": space}, "cache_s": 0, **LOOPBACK, **more}


def write_page(text: str, link: str = "", head: str = "") -> Page:
    address = f'<a href="{link}">See this</a>' if link else ""
    body = f"<main><h1>T</h1><p>{text}</p>{address}</main>"
    return Page(f"<html><head><title>T</title>{head}</head><body>{body}</body></html>")


def put_up_site(peer: WebPeer) -> dict[str, Any]:
    """Put up a website whose pages lead to the team's plan, and return the settings that crawl it."""
    peer.pages |= {
        "/docs/": write_page("The launcher has a button.", "/team/plan"),
        "/team/": write_page("Us.", "/team/plan"),
        "/team/plan": write_page(PLAN),
        "/team/feed.xml": Page(FEED.format(url=peer.url("/x")), headers={"Content-Type": "application/rss+xml"}),
    }
    return {"kind": "website", "url": peer.url("/docs/"), "delay_s": 0, "sitemap": False, **LOOPBACK}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["website", "feed"])
async def test_a_part_of_a_website_that_was_closed_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, way: Way, kind: str
) -> None:
    fill(tmp_path)
    site = await stack.enter_async_context(WebPeer())
    docs = put_up_site(site)
    plans = {"kind": "feed", "url": site.url("/team/feed.xml"), **LOOPBACK, **CLOSED}
    if kind == "website":
        plans = {**docs, "url": site.url("/team/"), **CLOSED}
    group = await open_group(stack, tmp_path, {"cache": {"enabled": True}}, docs=docs)
    await group.change(way, docs={**docs, "exclude": ["/team/**"]}, plans=plans)
    assert "numbat" not in await group.ask()


@pytest.mark.parametrize("way", WAYS)
async def test_a_page_that_names_a_closed_address_as_its_own_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, way: Way
) -> None:
    """It was read while nothing was closed there, and cannot be read anew."""
    fill(tmp_path)
    site = await stack.enter_async_context(WebPeer())
    docs = {**put_up_site(site), "exclude": ["/team/**"]}
    site.pages["/docs/"] = write_page("The launcher has a button.", "/docs/plan")
    site.pages["/docs/plan"] = write_page(PLAN, head='<link rel="canonical" href="/team/plan">')
    group = await open_group(stack, tmp_path, docs=docs)
    site.failure_mode = "drop"
    plans = {**docs, "url": site.url("/team/"), "exclude": [], **CLOSED}
    await group.change(way, docs=docs, plans=plans)
    assert "numbat" not in await group.ask()


@pytest.mark.parametrize("way", ["waits", "elsewhere"])
@pytest.mark.parametrize("kind", ["http_api", "gitlab", "searxng"])
async def test_a_part_of_a_service_that_was_closed_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, way: Way, kind: str
) -> None:
    """Also where the part is read in another way, or is a website that the service finds."""
    fill(tmp_path)
    peer = await stack.enter_async_context(SearchPeer())
    docs, less = ask_api(peer), ask_api(peer, "/public/search")
    plans = ask_api(peer, "/team/search")
    if kind == "gitlab":
        plans = {"kind": "gitlab", "project": "team/plans", "api_url": peer.url("/api/v4"), **LOOPBACK}
    elif kind == "searxng":
        docs = {"kind": "search_api", "provider": "searxng", "base_url": peer.url(""), "cache_s": 0, **LOOPBACK}
        docs, less = {**docs, "sites": ["wiki.example"]}, {**docs, "sites": ["wiki.example/docs"]}
        plans = {"kind": "website", "url": "https://wiki.example/team/"}
    group = await open_group(stack, tmp_path, docs=docs)
    await group.change(way, docs=less, plans={**plans, **CLOSED})
    assert "numbat" not in await group.ask()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("closed_project", [PROJECT, "42"], ids=["by path", "by number"])
async def test_a_project_is_known_by_its_number(
    stack: AsyncExitStack, tmp_path: Path, way: Way, closed_project: str
) -> None:
    fill(tmp_path)
    forge = await stack.enter_async_context(ForgePeer())
    forge.tickets = {1: Ticket(1, "Launcher", "It has a button."), 2: Ticket(2, "Plan", PLAN, labels=["internal"])}
    base = {"kind": "gitlab", "api_url": forge.url("/api/v4"), "token": {"env": "FORGE_TOKEN"}, **LOOPBACK}
    docs = {**base, "project": PROJECT}
    plans = {**base, "project": closed_project, "labels": ["internal"], **CLOSED}
    group = await open_group(stack, tmp_path, docs=docs)
    # What is taken up cannot be read anew.
    forge.status = 503
    await group.change(way, docs={**docs, "exclude_labels": ["internal"]}, plans=plans)
    assert "numbat" not in await group.ask()


@pytest.mark.parametrize("way", [*WAYS, "read anew"])
@pytest.mark.parametrize("has_own_agent", [False, True], ids=["one agent", "own agent"])
async def test_standing_results_follow_their_live_source(
    stack: AsyncExitStack, tmp_path: Path, way: Way | Literal["read anew"], has_own_agent: bool
) -> None:
    fill(tmp_path)
    peer = await stack.enter_async_context(SearchPeer())
    standing = {"kind": "standing", "of": "search", "queries": [QUESTION]}
    names = ["search", "kept", "other"]
    group = await open_group(stack, tmp_path, share_out(names, has_own_agent), search=ask_api(peer), kept=standing)
    group.options = share_out([*names, "plans"], has_own_agent)
    narrowed = {"search": ask_api(peer, space="public"), "kept": standing, "plans": ask_api(peer, **CLOSED)}
    await group.change("taken up" if way == "read anew" else way, **narrowed)
    if way == "read anew":
        await group.bot.app.refresh()
    assert "numbat" not in await group.ask()


def share_out(names: list[str], has_own_agent: bool) -> dict[str, Any]:
    return {"agents": {name: {"sources": [name]} for name in names}} if has_own_agent else {}


@pytest.mark.parametrize("is_read", [False, True], ids=["not yet read", "read"])
async def test_standing_results_go_when_opened_with_less(stack: AsyncExitStack, tmp_path: Path, is_read: bool) -> None:
    fill(tmp_path)
    peer = await stack.enter_async_context(SearchPeer())
    standing = {"kind": "standing", "of": "search", "queries": [QUESTION]}
    closed = {"search": ask_api(peer, **CLOSED), "kept": {**standing, **CLOSED}}
    async with open_bot(configure(tmp_path, closed, {}), is_read=True) as bot:
        await bot.deliver(OWNER, QUESTION)
        assert "numbat" in bot.output()
    opened = {"search": ask_api(peer, space="public"), "kept": standing}
    async with open_bot(configure(tmp_path, opened, {}), is_read=is_read) as bot:
        await bot.deliver(GROUP, QUESTION)
        assert "numbat" not in bot.output()


@pytest.mark.parametrize("way", ["taken up", "restart", "restart while away"])
@pytest.mark.parametrize("by", ["token", "depth"])
async def test_what_an_open_source_read_before_it_read_less_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, way: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    monkeypatch.setenv("FORUM", TOKEN)
    peer = await stack.enter_async_context(DiscoursePeer() if by == "token" else WebPeer())
    if isinstance(peer, DiscoursePeer):
        peer.topics = {1: Topic("Launcher", [Entry("It has a button.")]), 2: Topic("Plan", [Entry(PLAN)])}
        less = take_forum(peer.url())
        more = {**less, "token": {"env": "FORUM"}}
        closed = {**more, **CLOSED}
    else:
        more = put_up_site(peer)
        less = {**more, "depth": 0}
        closed = {**more, "url": peer.url("/team/"), **CLOSED}
    newer = {"docs": less, "plans": closed}
    if way == "taken up":
        group = await open_group(stack, tmp_path, docs=more)
        break_off(peer)
        await group.change("taken up", **newer)
        assert "numbat" not in await group.ask()
        return
    async with open_bot(configure(tmp_path, {"docs": more}, {}), is_read=True) as bot:
        await bot.deliver(GROUP, QUESTION)
        assert "numbat" in bot.output()
    break_off(peer)
    async with open_bot(configure(tmp_path, newer, {}), is_read=way.endswith("away")) as bot:
        await bot.deliver(GROUP, QUESTION)
        assert "numbat" not in bot.output()


def break_off(peer: DiscoursePeer | WebPeer) -> None:
    if isinstance(peer, DiscoursePeer):
        peer.is_closed = True
    else:
        peer.failure_mode = "drop"


@pytest.mark.parametrize("kind", ["files", "size", "token", "standing"])
async def test_what_a_newer_file_reads_for_fewer_people_is_not_told(
    stack: AsyncExitStack, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon does not know it yet, and reads less of the source for everybody."""
    fill(tmp_path)
    monkeypatch.setenv("FORUM", TOKEN)
    (tmp_path / "kb/docs/start.md").write_text("# Launcher\n\nThe launcher has a button.\n")
    forum = await stack.enter_async_context(DiscoursePeer())
    forum.topics[1] = Topic("Launcher", [Entry("It has a button.")])
    api = await stack.enter_async_context(SearchPeer())
    if kind == "files":
        files = {"kind": "files", "path": tmp_path / "kb"}
        before, after = {"docs": {**files, "include": ["docs/**"]}}, {"docs": {**files, **CLOSED}}
    elif kind == "size":
        (tmp_path / "kb/team/plan.md").write_text(f"{PLAN}\n\n{'Wombats and quokkas came as well. ' * 200}\n")
        files = {"kind": "files", "path": tmp_path / "kb"}
        before, after = {"docs": {**files, "max_file_kb": 4}}, {"docs": {**files, **CLOSED}}
    elif kind == "token":
        talk = take_forum(forum.url())
        before, after = {"docs": talk}, {"docs": {**talk, "token": {"env": "FORUM"}, **CLOSED}}
    else:
        standing = {"kind": "standing", "of": "search", "queries": [QUESTION]}
        before = {"search": ask_api(api, space="public"), "docs": standing}
        after = {"search": ask_api(api, **CLOSED), "docs": {**standing, **CLOSED}}
    async with open_bot(configure(tmp_path, before, {}), is_read=True) as bot:
        await bot.deliver(GROUP, QUESTION)
        assert "numbat" not in bot.output()
        forum.topics[2] = Topic("Plan", [Entry(PLAN)])
        settings = configure(tmp_path, after, {})
        async with open_app(settings, embedder=WordEmbedder(), parser=ThreadParser(), with_answers=False) as app:
            await app.refresh()
            assert "numbat" in str(await app.store.rows("docs", list(await app.store.manifest("docs"))))
        told = ""
        for _ in range(4):
            # The daemon's store looks for what others have changed now and then.
            await asyncio.sleep(1)
            await bot.deliver(GROUP, QUESTION)
            told += bot.output()
        assert "numbat" not in told
