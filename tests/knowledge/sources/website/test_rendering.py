"""Pages that scripts make, in a real browser, and what their scripts cannot reach."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import WebsiteSource
from knowledge.sources.website.source import Website
from tests.support.peers.web import Page, WebPeer

TEXT = "The scheduler places jobs on nodes by priority and then by age, so that an old job is never starved. "

pytestmark = [
    pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium is not installed: apt-get install chromium"),
    pytest.mark.slow,
]


def make_app(script: str) -> Page:
    return Page(f'<title>App</title><body><div id="root"></div><script>{script}</script></body>')


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        peer.tagged = True
        peer.pages["/"] = Page('<title>App</title><body><div id="root"></div><script src="/app.js"></script></body>')
        peer.pages["/app.js"] = Page(
            "fetch('/data.json').then(reply => reply.json()).then(data => {"
            "document.getElementById('root').innerHTML = '<main><h1>Jobs</h1><p>' + data.text + '</p>"
            '<a href="/more">More</a></main>\' })',
            headers={"Content-Type": "text/javascript"},
        )
        peer.pages["/data.json"] = Page(json.dumps({"text": TEXT * 3}), headers={"Content-Type": "application/json"})
        peer.pages["/more"] = Page(f"<main><h1>More</h1><p>{TEXT}</p></main>")
        yield peer


def site(web: WebPeer, folder: Path, **changes: object) -> Website:
    values = {"kind": "website", "url": web.url("/"), "delay_s": 0, "allow_private": ["127.0.0.1"], **changes}
    return Website("site", WebsiteSource.model_validate({"render": True, **values}), folder)


async def test_a_page_is_read_as_its_scripts_make_it(web: WebPeer, tmp_path: Path) -> None:
    source = site(web, tmp_path)
    listing = await source.listing()
    documents = {document.path: document async for document in source.documents(listing, listing.fingerprints)}
    assert set(documents) == {"/", "/more"}
    assert documents["/"].title == "Jobs"
    assert TEXT.strip() in documents["/"].text
    assert listing.unreadable == {}
    assert {request.headers["User-Agent"].partition("/")[0] for request in web.requests} == {"KIMAs"}
    # The frame stays the same while its content changes.
    web.pages["/data.json"] = Page(
        json.dumps({"text": "New: " + TEXT * 3}), headers={"Content-Type": "application/json"}
    )
    assert (await site(web, tmp_path).listing()).fingerprints["/"] != listing.fingerprints["/"]


async def test_scripts_reach_only_what_a_crawl_may(web: WebPeer, tmp_path: Path) -> None:
    async with WebPeer() as other:
        other.pages["/steal"] = Page("stolen", headers={"Access-Control-Allow-Origin": "*"})
        web.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /secret\n")
        web.pages["/secret"] = Page("stolen")
        web.pages["/to-other"] = Page(status=302, headers={"Location": other.url("/steal")})
        addresses = [other.url("/steal"), "/secret", "/to-other"]
        web.pages["/app.js"] = Page(
            f"const tries = {json.dumps(addresses)}.map(url => fetch(url).then(reply => reply.text()));"
            "tries.push(fetch('/posted', {method: 'POST', body: 'x'}));"
            f"new WebSocket('ws://127.0.0.1:{other.port}/socket'); new Image().src = '/picture.png';"
            "Promise.allSettled(tries).then(all => { document.getElementById('root').innerHTML = "
            f"'<main><h1>Done</h1><p>' + all.map(one => one.status).join(' ') + ' {TEXT * 3}</p></main>' }})",
            headers={"Content-Type": "text/javascript"},
        )
        source = site(web, tmp_path)
        listing = await source.listing()
        (document,) = [document async for document in source.documents(listing, listing.fingerprints)]
        assert "rejected rejected rejected rejected" in document.text
        assert other.requests == []
        paths = [request.path for request in web.requests]
        assert paths == ["/robots.txt", "/sitemap.xml", "/", "/app.js", "/to-other"]


@pytest.mark.parametrize(
    "script",
    [
        "while (true) {}",
        "setInterval(() => fetch('/data.json'), 20)",
        "location = '/more'",
        "location = 'https://else.example.org/'",
        "alert('wait'); window.open('/more')",
        "document.getElementById('root').innerText = 'a b '.repeat(3000000)",
    ],
)
async def test_no_script_stops_the_visit(web: WebPeer, tmp_path: Path, script: str) -> None:
    web.pages["/odd"] = make_app(script)
    web.pages["/"] = Page(f'<main><h1>Home</h1><p>{TEXT}</p><a href="/odd">a</a> <a href="/more">b</a></main>')
    found = set((await site(web, tmp_path, timeout_s=4).listing()).fingerprints)
    assert "/" in found <= {"/", "/more", "/odd"}
    # A page that a script leads to is taken once, by the address that was asked for first.
    assert "/more" in found or (script == "location = '/more'" and "/odd" in found)


async def test_nothing_is_started_for_a_site_that_needs_no_scripts(
    web: WebPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    web.pages["/"] = Page(f'<main><h1>Home</h1><p>{TEXT}</p><a href="/more">b</a></main>')
    assert set((await site(web, tmp_path, render=False).listing()).fingerprints) == {"/", "/more"}


async def test_a_browser_that_is_not_there_is_said(
    web: WebPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with pytest.raises(SourceError, match=r"source site: render finds no browser that starts: .*playwright install"):
        await site(web, tmp_path).listing()
