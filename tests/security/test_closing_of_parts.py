"""What a source has of a place is not told where a part of that is closed, whatever tells the parts of it apart.

Of a website or a service those are addresses; of others, the settings that say how much is read, and with whose rights.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.security.test_closing_that_waits import (
    CLOSED,
    PLAN,
    WAYS,
    Way,
    fill,
    open_group,
    stack,
)
from tests.support.peers.forge import PROJECT, ForgePeer, Ticket
from tests.support.peers.web import Page, WebPeer

__all__ = ["stack"]

LOOPBACK = {"allow_private": ["127.0.0.1"]}
FEED = (
    '<?xml version="1.0"?><rss version="2.0"><channel><title>Team</title><link>{url}</link><description>d</description>'
    f"<item><title>Plan</title><link>{{url}}</link><guid>1</guid><description>{PLAN}</description></item></channel></rss>"
)


class SearchPeer(WebPeer):
    """A service that finds the plan as well, but at its public address and in its public space."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        hits = [{"title": "Launcher", "url": "https://x.example/launcher", "text": "The launcher has a button."}]
        if "public" not in request.path and request.query.get("space") != "public":
            hits.append({"title": "Plan", "url": "https://x.example/plan", "text": PLAN})
        return web.Response(text=json.dumps({"results": hits}), content_type="application/json")


def ask_api(peer: WebPeer, path: str = "/search", space: str = "all", **more: Any) -> dict[str, Any]:
    url = peer.url(f"{path}?q={{query}}")
    return {"kind": "http_api", "url": url, "params": {"space": space}, "cache_s": 0, **LOOPBACK, **more}


def write_page(text: str, link: str = "") -> Page:
    address = f'<a href="{link}">See this</a>' if link else ""
    return Page(f"<html><head><title>T</title></head><body><main><h1>T</h1><p>{text}</p>{address}</main></body></html>")


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


@pytest.mark.parametrize("way", ["waits", "elsewhere"])
async def test_a_part_of_a_service_that_was_closed_is_not_told(stack: AsyncExitStack, tmp_path: Path, way: Way) -> None:
    fill(tmp_path)
    peer = await stack.enter_async_context(SearchPeer())
    group = await open_group(stack, tmp_path, docs=ask_api(peer))
    await group.change(way, docs=ask_api(peer, "/public/search"), plans=ask_api(peer, "/team/search", **CLOSED))
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
