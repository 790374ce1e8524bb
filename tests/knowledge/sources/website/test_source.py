"""A web site as a source, against a server that changes, fails and forbids."""

from __future__ import annotations

import errno
import gzip
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web as server

from core.errors import SourceError
from core.settings import WebsiteSource
from core.version import get_version
from knowledge.ports import Listing
from knowledge.sources.common import state_files
from knowledge.sources.website.crawl_state import MAX_CONSECUTIVE_FAILURES, CrawlState
from knowledge.sources.website.source import Website
from tests.support.peers.web import Page, WebPeer

TEXT = "This page tells in some sentences what it is about, so that there is enough to be read. "


def html(title: str, *links: str, text: str = TEXT, head: str = "") -> str:
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        f"<html><head><title>{title} - Site</title>{head}</head><body><nav><ul>{anchors}</ul></nav>"
        f"<main><h1>{title}</h1><p>About {title}. {text}</p></main><footer>Imprint</footer>"
        "<script>alert('evil')</script></body></html>"
    )


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        peer.tagged = True
        peer.pages["/"] = Page(
            html("Home", "/guide", "/guide#part", "faq", "/files/a.pdf", "https://else.example.org/x")
        )
        peer.pages["/guide"] = Page(html("Guide", "/guide/deep"))
        peer.pages["/guide/deep"] = Page(html("Deep", "/guide/deeper"))
        peer.pages["/guide/deeper"] = Page(html("Deeper"))
        peer.pages["/faq"] = Page(html("Questions", "/"))
        peer.pages["/files/a.pdf"] = Page("%PDF", headers={"Content-Type": "application/pdf"})
        yield peer


def site(web: WebPeer, folder: Path, **changes: object) -> Website:
    values = {"kind": "website", "url": web.url("/"), "delay_s": 0, "allow_private": ["127.0.0.1"], **changes}
    return Website("site", WebsiteSource.model_validate(values), folder)


async def texts(source: Website, listing: Listing) -> dict[str, str]:
    return {document.path: document.text async for document in source.documents(listing, listing.fingerprints)}


async def test_pages_are_found_by_their_links(web: WebPeer, tmp_path: Path) -> None:
    source = site(web, tmp_path)
    listing = await source.listing()
    assert set(listing.fingerprints) == {"/", "/guide", "/faq", "/guide/deep", "/guide/deeper"}
    assert listing.skipped == {"no HTML": 1}
    documents = {document.path: document async for document in source.documents(listing, listing.fingerprints)}
    guide = documents["/guide"]
    assert (guide.title, guide.url, guide.kind) == ("Guide", web.url("/guide"), "markdown")
    assert "# Guide" in guide.text
    assert "About Guide." in guide.text
    assert "evil" not in guide.text
    assert "Imprint" not in guide.text


async def test_a_record_that_cannot_be_written_names_the_source_once(
    web: WebPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_files, "write_atomically", fail)
    with pytest.raises(SourceError, match=r"^source site: /\S+ cannot be written: No space left on device$"):
        await site(web, tmp_path).listing()


async def test_links_are_followed_so_far(web: WebPeer, tmp_path: Path) -> None:
    assert set((await site(web, tmp_path, depth=1).listing()).fingerprints) == {"/", "/guide", "/faq"}
    listing = await site(web, tmp_path, max_pages=2).listing()
    assert len(listing.fingerprints) == 2
    assert listing.skipped["beyond max_pages"] > 0


async def test_paths_are_chosen(web: WebPeer, tmp_path: Path) -> None:
    source = site(web, tmp_path, include=["/guide/**", "/guide"], exclude=["deeper"])
    assert set((await source.listing()).fingerprints) == {"/guide", "/guide/deep"}


async def test_a_sitemap_lists_the_pages(web: WebPeer, tmp_path: Path) -> None:
    inner = f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>{web.url('/hidden')}</loc></url></urlset>"
    outer = f"<sitemapindex><sitemap><loc>{web.url('/map.xml.gz')}</loc></sitemap></sitemapindex>"
    web.pages["/robots.txt"] = Page(f"User-agent: *\nSitemap: {web.url('/index.xml')}\n")
    web.pages["/index.xml"] = Page(outer)
    web.pages["/map.xml.gz"] = Page(gzip.compress(inner.encode()))
    web.pages["/hidden"] = Page(html("Hidden", "/secret"))
    web.pages["/secret"] = Page(html("Secret"))
    listing = await site(web, tmp_path, depth=0).listing()
    assert set(listing.fingerprints) == {"/", "/hidden"}
    without = await site(web, tmp_path / "b", depth=0, sitemap=False).listing()
    assert set(without.fingerprints) == {"/"}


@pytest.mark.parametrize(
    "content", ["", "<html>no", "<urlset><url><loc>", '<!DOCTYPE x [<!ENTITY a "b">]><urlset>&a;</urlset>']
)
async def test_a_broken_sitemap_is_no_sitemap(web: WebPeer, tmp_path: Path, content: str) -> None:
    web.pages["/sitemap.xml"] = Page(content)
    assert "/guide" in (await site(web, tmp_path).listing()).fingerprints


async def test_what_robots_forbid_is_not_fetched(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /guide/\n\nUser-agent: Evil\nDisallow: /\n")
    listing = await site(web, tmp_path).listing()
    assert set(listing.fingerprints) == {"/", "/guide", "/faq"}
    assert listing.skipped["disallowed by robots.txt"] == 1
    assert "/guide/deep" not in {request.path for request in web.requests}


async def test_a_page_that_wants_no_reader_is_left_out(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/guide"] = Page(html("Guide", "/guide/deep", head='<meta name="ROBOTS" content="NOINDEX, nofollow">'))
    assert set((await site(web, tmp_path).listing()).fingerprints) == {"/", "/faq"}


async def test_unchanged_pages_are_not_sent_again(web: WebPeer, tmp_path: Path) -> None:
    first = await site(web, tmp_path).listing()
    web.statuses.clear()
    source = site(web, tmp_path)
    second_listing = await source.listing()
    assert second_listing.fingerprints == first.fingerprints
    assert web.statuses.count(304) == 5
    web.pages["/faq"] = Page(html("Questions", "/", text=f"{TEXT} Something new."))
    changed_listing = await site(web, tmp_path).listing()
    assert {path for path in first.fingerprints if changed_listing.fingerprints[path] != first.fingerprints[path]} == {
        "/faq"
    }
    assert "Something new" in (await texts(source, changed_listing))["/faq"]


async def test_a_page_that_is_gone_goes(web: WebPeer, tmp_path: Path) -> None:
    await site(web, tmp_path).listing()
    del web.pages["/faq"]
    listing = await site(web, tmp_path).listing()
    assert "/faq" not in listing.fingerprints
    assert listing.skipped["gone"] == 1
    assert len(list(tmp_path.glob("*.md"))) == len(listing.fingerprints)


async def test_a_first_page_that_is_missing_is_named(web: WebPeer, tmp_path: Path) -> None:
    del web.pages["/"]
    web.pages["/sitemap.xml"] = Page(f"<urlset><url><loc>{web.url('/guide')}</loc></url></urlset>")
    listing = await site(web, tmp_path).listing()
    assert set(listing.fingerprints) == {"/guide"}
    assert listing.unreadable == {"/": "as the first page: it answered with status 404"}


async def test_a_page_that_fails_keeps_its_knowledge(web: WebPeer, tmp_path: Path) -> None:
    first = await site(web, tmp_path).listing()
    web.pages["/faq"] = Page("oops", status=503)
    source = site(web, tmp_path)
    listing = await source.listing()
    assert listing.fingerprints == first.fingerprints
    assert listing.skipped["failed"] == 1
    assert "About Questions" in (await texts(source, listing))["/faq"]


@pytest.mark.parametrize("failure_mode", ["drop", "slow", "html", "endless"])
async def test_a_site_that_fails_keeps_its_knowledge(web: WebPeer, tmp_path: Path, failure_mode: str) -> None:
    first = await site(web, tmp_path).listing()
    web.failure_mode = failure_mode
    changes = {"timeout_s": 0.5, "max_page_kb": 64} if failure_mode in ("slow", "endless") else {}
    listing = await site(web, tmp_path, **changes).listing()
    if failure_mode == "html":  # it answers, but nothing is left that could be read
        assert listing.stale or listing.fingerprints
    else:
        assert listing.stale
        assert listing.fingerprints == first.fingerprints
        with pytest.raises(SourceError, match="source site: "):
            await site(web, tmp_path / "new", **changes).listing()


async def test_a_robots_file_that_fails_means_stop(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/robots.txt"] = Page("later", status=503)
    with pytest.raises(SourceError, match=r"robots\.txt answered with status 503"):
        await site(web, tmp_path).listing()


async def test_redirects_stay_on_the_site(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/faq"] = Page(status=301, headers={"Location": "/questions"})
    web.pages["/questions"] = Page(html("Questions"))
    web.pages["/guide"] = Page(status=302, headers={"Location": web.url("/elsewhere", "localhost")})
    web.pages["/elsewhere"] = Page(html("Elsewhere"))
    listing = await site(web, tmp_path, allow_private=["127.0.0.1", "localhost"]).listing()
    assert set(listing.fingerprints) == {"/", "/questions"}
    assert listing.skipped["leads elsewhere"] == 1


async def test_a_name_is_kept_as_it_is_written(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/guide"] = Page(html("Guide", text=f"{TEXT} Call rotate_keys and load_all_models, then A*B."))
    source = site(web, tmp_path)
    text = (await texts(source, await source.listing()))["/guide"]
    assert "rotate_keys and load_all_models" in text
    assert "A*B" in text


async def test_an_empty_site_is_said(web: WebPeer, tmp_path: Path) -> None:
    web.pages.clear()
    with pytest.raises(SourceError, match=r"source site: .* has no page that can be used \(1 gone\)"):
        await site(web, tmp_path).listing()


async def test_a_damaged_record_means_a_fresh_visit(web: WebPeer, tmp_path: Path) -> None:
    first = await site(web, tmp_path).listing()
    (tmp_path / "pages.json").write_text('{"/": {"fingerprint": 1', "utf-8")
    assert (await site(web, tmp_path).listing()).fingerprints == first.fingerprints


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff" * 500,
        b"<html>" + b"<div>" * 5000,
        b"\xef\xbb\xbf<html><body><p>x</p>",
        "größer".encode("latin-1"),
    ],
)
async def test_no_page_stops_the_visit(web: WebPeer, tmp_path: Path, body: bytes) -> None:
    web.pages["/guide"] = Page(body)
    assert "/faq" in (await site(web, tmp_path).listing()).fingerprints


async def test_robots_are_asked_again_after_a_redirect(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /secret\n")
    web.pages["/faq"] = Page(status=302, headers={"Location": "/secret"})
    web.pages["/secret"] = Page(html("Secret"))
    listing = await site(web, tmp_path).listing()
    assert "/secret" not in {request.path for request in web.requests}
    assert "/secret" not in listing.fingerprints
    assert listing.skipped["disallowed by robots.txt"] == 1


async def test_another_host_is_not_even_asked(web: WebPeer, tmp_path: Path) -> None:
    async with WebPeer() as other:
        web.pages["/faq"] = Page(status=302, headers={"Location": other.url("/there")})
        listing = await site(web, tmp_path).listing()
        assert other.requests == []
    assert listing.skipped["leads elsewhere"] == 1


class Maze(WebPeer):
    """Every page leads to sixty others and asks not to be indexed; `/` and what is in `pages` is as usual."""

    async def _answer(self, request: server.Request) -> server.StreamResponse:
        if request.path in ("/robots.txt", "/sitemap.xml", *self.pages):
            return await super()._answer(request)
        self.requests.append(request)
        links = "".join(f'<a href="{request.path}/{number}">x</a>' for number in range(60))
        head = '<head><meta name="robots" content="noindex"></head>'
        return server.Response(text=f"<html>{head}<body>{links}</body></html>", content_type="text/html")


async def test_a_maze_without_text_ends(tmp_path: Path) -> None:
    async with Maze() as web:
        web.pages["/"] = Page(html("Home", "/a", "/b"))
        listing = await site(web, tmp_path, max_pages=10).listing()
        assert len(web.requests) == 2 + 40  # robots.txt and the sitemap, then four for each page that may be taken
    assert set(listing.fingerprints) == {"/"}
    assert listing.skipped["requests used up"] > 100
    assert listing.skipped["noindex"] == 39


async def test_a_visit_that_takes_too_long_keeps_what_it_did_not_reach(web: WebPeer, tmp_path: Path) -> None:
    first = await site(web, tmp_path).listing()
    record = {path: page for path, page in site(web, tmp_path)._store.load().items() if path != "/"}
    visit = CrawlState(record, 10)
    visit.start(0.5)
    assert visit.deadline > time.monotonic() + 59
    visit.mark_answered("/faq")
    visit.deadline = time.monotonic()
    visit.stop_reason = visit.get_stop_reason()
    assert visit.stop_reason == "time used up"
    assert set(visit.unvisited()) == set(first.fingerprints) - {"/", "/faq"}


def test_the_time_of_a_visit_follows_from_its_pages() -> None:
    """500 pages that hang for 20 s each would hold their place for hours."""
    visit = CrawlState({}, 500)
    visit.start(0.5)
    assert visit.deadline - time.monotonic() == pytest.approx(1250, abs=1)


async def test_a_site_that_hangs_is_left_alone_soon(web: WebPeer, tmp_path: Path) -> None:
    urls = "".join(f"<url><loc>{web.url(f'/page{number}')}</loc></url>" for number in range(200))
    web.pages["/sitemap.xml"] = Page(f"<urlset>{urls}</urlset>")
    web.pages["/"] = Page(html("Home"))
    first = await site(web, tmp_path).listing()
    for number in range(200):
        web.pages[f"/page{number}"] = Page("later", status=503)
    web.requests.clear()
    listing = await site(web, tmp_path / "new").listing()
    assert len(web.requests) == 2 + 1 + MAX_CONSECUTIVE_FAILURES
    assert listing.skipped["site failing"] == 200 - MAX_CONSECUTIVE_FAILURES
    assert "10 of 11 pages failed" in listing.stale
    assert set(first.fingerprints) == {"/"}


@pytest.mark.parametrize("status", [500, 503, 403, 429])
async def test_a_site_whose_pages_all_fail_is_stale(web: WebPeer, tmp_path: Path, status: int) -> None:
    urls = "".join(f"<url><loc>{web.url(path)}</loc></url>" for path in ("/guide", "/faq"))
    web.pages["/sitemap.xml"] = Page(f"<urlset>{urls}</urlset>")
    web.pages["/"] = Page(html("Home"))
    first = await site(web, tmp_path).listing()
    assert first.stale == ""
    for path in ("/", "/guide", "/faq"):
        web.pages[path] = Page("oops", status=status)
    listing = await site(web, tmp_path).listing()
    assert listing.fingerprints == first.fingerprints
    assert f"3 of 3 pages failed: {web.url('/')} answered with status {status}" in listing.stale
    assert listing.skipped["failed"] == 3
    with pytest.raises(SourceError, match=r"no page that can be used \(3 failed\)"):
        await site(web, tmp_path / "new").listing()


async def test_a_first_page_that_fails_makes_a_visit_stale(web: WebPeer, tmp_path: Path) -> None:
    urls = "".join(f"<url><loc>{web.url(path)}</loc></url>" for path in ("/guide", "/faq", "/guide/deep"))
    web.pages["/sitemap.xml"] = Page(f"<urlset>{urls}</urlset>")
    web.pages["/"] = Page("oops", status=503)
    listing = await site(web, tmp_path).listing()
    assert "1 of 4 pages failed" in listing.stale
    assert set(listing.fingerprints) == {"/guide", "/faq", "/guide/deep"}


async def test_what_stands_behind_a_failing_page_stays(web: WebPeer, tmp_path: Path) -> None:
    first = await site(web, tmp_path).listing()
    web.pages["/guide"] = Page("oops", status=503)
    listing = await site(web, tmp_path).listing()
    assert listing.fingerprints == first.fingerprints
    assert listing.stale == ""


async def test_a_page_that_is_too_large_is_counted_and_is_no_failure(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/guide"] = Page(html("Guide", text="x" * 5000))
    listing = await site(web, tmp_path, max_page_kb=4).listing()
    assert listing.skipped["too large"] == 1
    assert listing.stale == ""
    assert set(listing.fingerprints) == {"/", "/faq"}


async def test_a_sitemap_of_nonsense_stops_nothing(web: WebPeer, tmp_path: Path) -> None:
    urls = "".join(f"<url><loc>{url}</loc></url>" for url in ("http://[broken/", "", web.url("/faq")))
    web.pages["/sitemap.xml"] = Page(f"<urlset>{urls}</urlset>")
    assert set((await site(web, tmp_path, depth=0).listing()).fingerprints) == {"/", "/faq"}


HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
URLSET = (
    "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' "
    "xmlns:image='http://www.google.com/schemas/sitemap-image/1.1'>{}</urlset>"
)
ENTRY = URLSET.format("<url><loc>{root}/hidden</loc></url>")


@pytest.mark.parametrize(
    "sitemap",
    [
        f'{HEAD}<?xml-stylesheet type="text/xsl" href="/s.xsl"?>{ENTRY}',
        f"{HEAD}<!-- made by a plug-in -->{ENTRY}",
        f"\n{HEAD}{ENTRY}",
        f"\ufeff{HEAD}{ENTRY}",
        f"{HEAD}{ENTRY}".replace("{root}", ""),
        f"{HEAD}{ENTRY}".replace("{root}/hidden", " \n<![CDATA[{root}/hidden]]> "),
        "{root}/hidden\n",
        URLSET.format(
            "<url><loc>{root}/hidden</loc><image:image><image:loc>{root}/i.png</image:loc></image:image></url>"
        ),
        URLSET.format("<url><loc>{root}/hidden</loc></url>&nbsp;<url><loc>"),
        "<rss><channel><link>{root}/else</link><item><link>{root}/hidden</link></item></channel></rss>",
        "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/else'/><entry><link href='/hidden'/></entry></feed>",
        "<s:urlset xmlns:s='x'><s:url><s:loc>{root}/hidden</s:loc></s:url></s:urlset>",
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
async def test_a_sitemap_has_many_forms(web: WebPeer, tmp_path: Path, sitemap: str, is_packed: bool) -> None:
    content = sitemap.replace("{root}", web.url()).encode()
    web.pages["/robots.txt"] = Page(f"Sitemap: {web.url('/map')}\nUser-agent: *\n")
    web.pages["/map"] = Page(gzip.compress(content) if is_packed else content)
    web.pages["/hidden"] = Page(html("Hidden"))
    listing = await site(web, tmp_path, depth=0).listing()
    assert set(listing.fingerprints) == {"/", "/hidden"}
    assert [request.path for request in web.requests] == ["/robots.txt", "/map", "/", "/hidden"]


async def test_an_ampersand_is_no_end_of_an_address(web: WebPeer, tmp_path: Path) -> None:
    locations = ("/z?a=1&b=2&copy=3", "/y?a=1&amp;b=2", "/x?a=1&amp;amp;b=2")
    entries = "".join(f"<url><loc>{web.url(path)}</loc></url>" for path in locations)
    web.pages["/sitemap.xml"] = Page(URLSET.format(entries))
    web.pages |= {path: Page(html(path)) for path in ("/z?a=1&b=2&copy=3", "/y?a=1&b=2", "/x?a=1&b=2")}
    listing = await site(web, tmp_path, depth=0).listing()
    assert set(listing.fingerprints) == {"/", "/z?a=1&b=2&copy=3", "/y?a=1&b=2", "/x?a=1&b=2"}


async def test_what_of_a_sitemap_cannot_be_read_is_said(web: WebPeer, tmp_path: Path) -> None:
    parts = ("/damaged", "/gone", "/page", "/cut.gz", "/index")
    maps = "".join(f"<sitemap><loc>{part}</loc></sitemap>" for part in parts)
    web.pages["/robots.txt"] = Page("Sitemap: /index\nSitemap: /also-gone\n")
    web.pages["/index"] = Page(f"<sitemapindex>{maps}</sitemapindex>")
    web.pages["/damaged"] = Page("<urlset><url><loc>/hidden</loc></url><url><loc>http://else.example/</loc></url>")
    web.pages["/page"] = Page(html("Page"))
    web.pages["/cut.gz"] = Page(gzip.compress(b"<urlset/>")[:-9])
    web.pages["/hidden"] = Page(html("Hidden"))
    listing = await site(web, tmp_path, depth=0).listing()
    assert set(listing.fingerprints) == {"/", "/hidden"}
    assert listing.skipped["on another host"] == 1
    problems = {path: reason.removeprefix("as a sitemap: ") for path, reason in listing.unreadable.items()}
    assert problems.pop("/damaged").startswith("it is damaged from line 1 on (Premature end")
    assert problems == {
        "/gone": "status 404",
        "/also-gone": "status 404",
        "/page": "it is no sitemap",
        "/cut.gz": "it cannot be unpacked (EOFError)",
    }


@pytest.mark.parametrize(
    ("robots", "forbidden"),
    [
        ("\ufeffUser-agent: *\nDisallow: /guide\n", "/guide"),
        ("User-agent: kimas/9.9\nDisallow: /guide$\n\nUser-agent: kim\nDisallow: /\n", "/guide"),
        ("User-agent: a\nUser-agent: KIMAS # us\nDisallow: /faq\n\nUser-agent: kimas\nAllow: /\n", "/faq"),
        ("User-agent: *\nDisallow: /*uid\nAllow: /guide/\n", "/guide"),
        ("User-agent: *\nAllow: /fa\nDisallow: /f%61q\n", "/faq"),
        ("\ufeffuser-agent:*\r\nDISALLOW:/faq#x\r\n\r\ncrawl-delay: none\r\n", "/faq"),
        ("Disallow: /\n\nUser-agent: *\nDisallow:\nDisallow: /faq$\nAllow: /faq?\n", "/faq"),
        ("User-agent: kimas-news\nDisallow: /\n\nUser-agent: *\nDisallow: /g*e$\nDisallow: /guide/nothing\n", "/guide"),
        (f"User-agent: *\nDisallow: /faq\n{'# padding' * 70_000}\nDisallow: /\n", "/faq"),
    ],
)
async def test_robots_are_obeyed_by_the_standard(web: WebPeer, tmp_path: Path, robots: str, forbidden: str) -> None:
    web.pages["/"] = Page(html("Home", "/guide", "/faq"))
    web.pages["/robots.txt"] = Page(robots)
    listing = await site(web, tmp_path, depth=1).listing()
    assert set(listing.fingerprints) == {"/", "/guide", "/faq"} - {forbidden}
    assert web.requests[0].headers["User-Agent"].startswith(f"KIMAs/{get_version()} ")


@pytest.mark.parametrize(
    ("headers", "head", "found"),
    [
        ({"X-Robots-Tag": "noindex, nofollow"}, "", {"/", "/faq"}),
        ({"X-Robots-Tag": "noindex"}, "", {"/", "/faq", "/guide/deep"}),
        ({"X-Robots-Tag": "KIMAs: none"}, "", {"/", "/faq"}),
        ({"X-Robots-Tag": "otherbot: noindex, nofollow"}, "", {"/", "/faq", "/guide", "/guide/deep"}),
        ({"X-Robots-Tag": "unavailable_after: Friday, 25-Jun-10 15:00:00 PST"}, "", {"/", "/faq", "/guide/deep"}),
        ({}, '<meta name="robots" content="none">', {"/", "/faq"}),
        ({}, '<meta name="KIMAs" content="noindex">', {"/", "/faq", "/guide/deep"}),
        ({}, '<meta name="googlebot" content="noindex">', {"/", "/faq", "/guide", "/guide/deep"}),
        ({}, '<meta name="robots" content="unavailable_after: 2010-06-25">', {"/", "/faq", "/guide/deep"}),
        ({}, '<meta name="robots" content="unavailable_after: 2090-06-25">', {"/", "/faq", "/guide", "/guide/deep"}),
    ],
)
async def test_what_a_page_asks_of_robots_is_obeyed_wherever_it_stands(
    web: WebPeer, tmp_path: Path, headers: dict[str, str], head: str, found: set[str]
) -> None:
    page = Page(html("Guide", "/guide/deep", head=head), headers={"Content-Type": "text/html", **headers})
    web.pages["/guide"] = page
    del web.pages["/guide/deeper"]
    listing = await site(web, tmp_path).listing()
    assert set(listing.fingerprints) == found
    assert listing.skipped.get("noindex", 0) == int("/guide" not in found)


async def test_a_page_that_is_unchanged_can_be_withdrawn(web: WebPeer, tmp_path: Path) -> None:
    assert "/faq" in (await site(web, tmp_path).listing()).fingerprints
    web.pages["/faq"] = replace(web.pages["/faq"], headers={"Content-Type": "text/html", "X-Robots-Tag": "noindex"})
    assert "/faq" not in (await site(web, tmp_path).listing()).fingerprints


async def test_a_link_that_is_not_to_be_followed_is_not(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/"] = Page(
        '<main><h1>Home</h1><a rel="external NoFollow" href="/guide">a</a> <a href="/faq">b</a></main>'
    )
    web.pages["/faq"] = Page(html("Questions"))
    assert set((await site(web, tmp_path).listing()).fingerprints) == {"/", "/faq"}


@pytest.mark.parametrize(
    "content", ["0; url=/questions", "3;URL='questions'", "0,/questions#top", ' 1 ; url = "/questions"']
)
async def test_a_page_that_leads_elsewhere_by_itself_is_a_redirect(web: WebPeer, tmp_path: Path, content: str) -> None:
    head = (
        f"<meta http-equiv='Refresh' content='{content}'>"
        if '"' in content
        else f'<meta http-equiv="refresh" content="{content}">'
    )
    web.pages["/faq"] = Page(html("Moved", head=f'{head}<link rel="canonical" href="/questions">'))
    web.pages["/questions"] = Page(html("Questions"))
    source = site(web, tmp_path, depth=1)
    listing = await source.listing()
    assert set(listing.fingerprints) == {"/", "/guide", "/questions"}
    assert "About Questions" in (await texts(source, listing))["/questions"]


async def test_pages_that_lead_to_each_other_or_away_end(web: WebPeer, tmp_path: Path) -> None:
    def refresh(target: str) -> Page:
        return Page(html("Moved", head=f'<meta http-equiv="refresh" content="0;url={target}">'))

    web.pages["/faq"] = refresh("/a")
    web.pages["/a"] = refresh("/b")
    web.pages["/b"] = refresh("/faq")
    web.pages["/guide"] = refresh("https://else.example.org/")
    web.pages["/"] = Page(html("Home", "/guide", "/faq", head='<meta http-equiv="refresh" content="60">'))
    listing = await site(web, tmp_path).listing()
    assert set(listing.fingerprints) == {"/"}
    assert listing.skipped == {"redirects in a circle": 1, "leads elsewhere": 1}


async def test_hosts_and_addresses_are_compared_as_such(web: WebPeer, tmp_path: Path) -> None:
    root = web.url("", "localhost")
    links = (
        f"{root}/guide",
        f"http://LOCALHOST:{web.port}/guide#a",
        f"{root}/x/../guide?utm_source=a",
        "/f%61q",
        "/faq",
    )
    web.pages["/"] = Page(html("Home", *links))
    source = site(web, tmp_path, url=web.url("/", "LOCALHOST"), allow_private=["LocalHost"], depth=1)
    assert set((await source.listing()).fingerprints) == {"/", "/guide", "/faq"}
    assert [request.path_qs for request in web.requests] == ["/robots.txt", "/sitemap.xml", "/", "/guide", "/faq"]


@pytest.mark.parametrize(
    ("head", "links", "found"),
    [
        (
            '<base href="/docs/">',
            ("start", "../faq", "#top", "?page=2"),
            {"/docs/", "/docs/start", "/faq", "/docs/?page=2"},
        ),
        ("", ("//{host}/faq", "  /guide\n", "/a b", "/caf\u00e9"), {"/faq", "/guide", "/a%20b", "/caf%C3%A9"}),
        ("", ("http:/guide", "/%zz", "http://[half", "tel:1", "javascript:x()"), {"/guide", "/%25zz"}),
    ],
)
async def test_links_are_read_as_a_browser_reads_them(
    web: WebPeer, tmp_path: Path, head: str, links: tuple[str, ...], found: set[str]
) -> None:
    host = web.url("").removeprefix("http://")
    hrefs = [link.replace("{host}", host) for link in links]
    web.pages = {path: Page(html(f"Page {path}", text=TEXT + path)) for path in found}
    web.pages["/"] = Page(html("Home", *hrefs, head=head))
    await site(web, tmp_path, depth=1).listing()
    asked = {request.raw_path for request in web.requests} - {"/robots.txt", "/sitemap.xml", "/"}
    assert asked == found


async def test_a_page_with_several_addresses_is_taken_once(web: WebPeer, tmp_path: Path) -> None:
    canonical = '<link rel="canonical" href="/guide">'
    paths = ("/faq", "/faq/", "/guide/index.html", "/print/guide", "/odd", "/s;jsessionid=1", "/s;jsessionid=2")
    web.pages = {"/": Page(html("Home", "/print/guide", *paths, head='<link rel="canonical" href="/">'))}
    web.pages |= {path: Page(html("Questions")) for path in paths[:2]}
    web.pages |= {path: Page(html("Guide", head=canonical)) for path in (*paths[2:4], "/guide")}
    web.pages |= {"/odd": Page(html("Odd", head=canonical)), "/s": Page(html("Session"))}
    source = site(web, tmp_path, depth=1)
    listing = await source.listing()
    assert set(listing.fingerprints) == {"/", "/faq", "/guide", "/odd", "/s"}
    assert listing.skipped == {"duplicate": 3}
    documents = {document.path: document.url async for document in source.documents(listing, listing.fingerprints)}
    assert documents["/odd"] == web.url("/odd")
    assert documents["/guide"] == web.url("/guide")


RUSSIAN = "Планировщик запускает задания по приоритету."
CHINESE = "调度器先按优先级再按等待时间安排任务，所以旧任务不会一直等待。"
WESTERN = "The “scheduler” costs 5 € – café jobs run first."


@pytest.mark.parametrize(
    ("codec", "text", "content_type", "head"),
    [
        ("cp1251", RUSSIAN, "text/html; charset=windows-1251", ""),
        ("cp1251", RUSSIAN, "text/html", '<meta charset="windows-1251">'),
        ("gb2312", CHINESE, 'text/html;charset="gb2312"', ""),
        ("cp1252", WESTERN, "text/html; charset=iso-8859-1", ""),
        ("cp1252", WESTERN, "text/html", ""),
        ("utf-8", RUSSIAN, "text/html; charset=iso-8859-1", ""),
        ("utf-8", RUSSIAN, "TEXT/HTML", '<meta http-equiv="Content-Type" content="text/html; charset=latin1">'),
        ("utf-16", RUSSIAN, "text/html", ""),
        ("utf-8-sig", RUSSIAN, "application/xhtml+xml", ""),
        ("shift_jis", "予定は優先順位の順に実行されます。", "text/html; charset=x-sjis", ""),
        ("iso2022_jp", "予定は優先順位の順に実行されます。", "text/html; charset=iso-2022-jp", ""),
        ("utf-8", RUSSIAN, "text/html; charset=punycode", ""),
        ("utf-8", RUSSIAN, "", ""),
    ],
)
async def test_a_page_is_read_in_its_character_set(
    web: WebPeer, tmp_path: Path, codec: str, text: str, content_type: str, head: str
) -> None:
    body = html("T", text=text, head=head)
    web.pages = {"/": Page(body.encode(codec), headers={"Content-Type": content_type})}
    source = site(web, tmp_path)
    assert text in (await texts(source, await source.listing()))["/"]


@pytest.mark.parametrize(
    "body", ['<div id="root"></div>', '<div id="app"><p>Loading…</p></div>', "<noscript>Enable JavaScript.</noscript>"]
)
async def test_a_page_that_scripts_make_is_said_to_be_empty(web: WebPeer, tmp_path: Path, body: str) -> None:
    web.pages["/faq"] = Page(f"<title>App</title><body>{body}<script src='/app.js'></script></body>")
    listing = await site(web, tmp_path, depth=1).listing()
    assert "/faq" not in listing.fingerprints
    assert listing.skipped["empty without scripts"] == 1
    assert listing.unreadable == {"/faq": "scripts make its content; the setting render runs them"}


async def test_pages_with_the_same_text_are_taken_once(web: WebPeer, tmp_path: Path) -> None:
    """Some sites answer for any address, and link from there to more of them."""
    same = Page(html("Nothing here", "more/", "other"))
    web.pages = {"/": Page(html("Home", "/a", "/b?x=1", "/c/", "/d")), "/a": same, "/b": same, "/c/": same}
    web.pages |= {"/d": Page(html("Nothing here", text="Another text, which is told on this page alone, and long."))}
    listing = await site(web, tmp_path, depth=1).listing()
    assert set(listing.fingerprints) == {"/", "/a", "/d"}
    assert listing.skipped == {"duplicate": 2}
    again = await site(web, tmp_path, depth=1).listing()
    assert again.fingerprints == listing.fingerprints
