"""What a website excludes, or does not include, is not read at another address, as far as that can be known."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from core.errors import SourceError
from core.settings import Settings
from core.settings.audience import Audiences
from knowledge.ports import Listing
from knowledge.sources.common.documents import AddressGlobs
from knowledge.sources.factory import open_source
from tests.support.peers.web import Page, WebPeer

TEXT = "The release date of the launcher is the first of May, and this page says in some words why it is. "
PAGE = f"<title>%s</title><body><main><h1>%s</h1><p>{TEXT}</p>%s</main></body>"
CANONICAL = "<link rel=canonical href='/internal/plan'>"


async def visit(web: WebPeer, folder: Path, *, is_shared: bool = True, **changes: Any) -> Listing:
    """Visit the site whose internal pages another source reads for its owners."""
    place = {"kind": "website", "url": web.url("/"), "delay_s": 0, "allow_private": ["127.0.0.1"], "sitemap": False}
    sources: dict[str, Any] = {"site": {**place, "exclude": ["/internal/**"], **changes}}
    if is_shared:
        sources["team"] = {**place, "include": ["/internal/**"], "audience": ["owners"]}
    settings = Settings.model_validate({"data_dir": folder, "sources": sources})
    audiences = Audiences.from_settings(settings)
    source = open_source("site", settings.sources["site"], folder, settings.sources, audiences=audiences)
    return await source.listing()


@pytest.mark.parametrize(
    "link",
    ["/internal/plan", "//HOST//internal/plan", "/internal;a=1/plan", "/INTERNAL/plan", "/%2Finternal/plan?a=1"],
)
async def test_a_path_is_excluded_in_each_of_its_spellings(tmp_path: Path, link: str) -> None:
    async with WebPeer() as web:
        host = web.url("").partition("//")[2].rstrip("/")
        web.pages = {"/": Page(PAGE % ("Home", "Home", f"<a href='{link.replace('HOST', host)}'>more</a>"))}
        await visit(web, tmp_path, is_shared=False)
        assert [request.path for request in web.requests] == ["/robots.txt", "/"]


@pytest.mark.parametrize(
    ("link", "is_read"),
    [
        ("/docs/..%2Finternal/plan", False),
        ("/docs/x;a=1/%2E%2E%2f..%5Cinternal/plan", False),
        ("/docs/a%2Fb", True),
        ("/docs/New%20one;v=1", True),
        ("/Old%20docs;v=1/plan", True),
    ],
)
def test_a_path_is_included_only_where_it_leads(link: str, is_read: bool) -> None:
    assert AddressGlobs("site", ["/docs/**", "/Old%20docs;v=1/**"], []).matches(link) == is_read


async def test_what_names_an_excluded_address_as_its_own_is_not_read(tmp_path: Path) -> None:
    async with WebPeer() as web:
        web.pages["/"] = Page(PAGE % ("Home", "Home", "<a href='/index?title=plan'>plan</a><a href='/b'>b</a>"))
        web.pages["/index"] = Page(f"{CANONICAL}{PAGE % ('Plan', 'Plan', '')}")
        web.pages["/b"] = Page(PAGE % ("B", "B", ""))
        whole = await visit(web, tmp_path, is_shared=False)
        assert set(whole.fingerprints) == {"/", "/b", "/index?title=plan"}, "a later version may be the canonical one"
        web.tagged = True
        shared = await visit(web, tmp_path)
        assert set(shared.fingerprints) == {"/", "/b"}
        assert shared.skipped["excluded by its own address"] == 1
        web.pages["/index"] = Page(status=500)
        assert set((await visit(web, tmp_path)).fingerprints) == {"/", "/b"}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium is not installed: apt-get install chromium")
async def test_scripts_get_nothing_of_what_others_read(tmp_path: Path) -> None:
    async with WebPeer() as web:
        script = "fetch('/internal/plan').then(reply => reply.text()).then(text => { document.body.innerHTML = text })"
        web.pages["/"] = Page(f"<title>App</title><body><div></div><script>{script}</script></body>")
        web.pages["/internal/plan"] = Page(PAGE % ("Plan", "Plan", ""))
        assert (await visit(web, tmp_path / "a", render=True, is_shared=False)).fingerprints
        web.requests.clear()
        with suppress(SourceError):
            await visit(web, tmp_path / "b", render=True)
        assert "/internal/plan" not in [request.path for request in web.requests]
