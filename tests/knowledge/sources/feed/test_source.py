"""A feed as a source, against a server that changes and fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import FeedSource
from knowledge.sources.feed.source import Feed
from tests.support.feeds import rss
from tests.support.peers.web import Page, WebPeer

ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>Notes</title><updated>2026-01-01T00:00:00Z</updated>
<entry><id>urn:1</id><title type="html">One &amp;amp; two</title><link href="javascript:alert(1)"/>
<content type="html">&lt;p&gt;Body &lt;script&gt;evil()&lt;/script&gt; text of the note.&lt;/p&gt;</content></entry>
</feed>"""


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        peer.tagged = True
        peer.pages["/feed"] = rss(("new", "<p>Rocket 2 is out.</p>", 1), ("old", "Rocket 1 is out.", 30))
        yield peer


def feed(web: WebPeer, folder: Path, **changes: object) -> Feed:
    values = {"kind": "feed", "url": web.url("/feed"), "allow_private": ["127.0.0.1"], **changes}
    return Feed("news", FeedSource.model_validate(values), folder)


async def test_entries_are_documents(web: WebPeer, tmp_path: Path) -> None:
    source = feed(web, tmp_path)
    listing = await source.listing()
    documents = {document.path: document async for document in source.documents(listing, listing.fingerprints)}
    assert set(documents) == {"new", "old"}
    assert documents["new"].text.startswith("Rocket 2 is out.")
    assert (documents["new"].title, documents["new"].url) == ("new", "https://blog.example.org/new")


async def test_atom_is_read_and_made_harmless(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/feed"] = Page(ATOM)
    source = feed(web, tmp_path)
    listing = await source.listing()
    (entry,) = [document async for document in source.documents(listing, listing.fingerprints)]
    assert (entry.title, entry.url) == ("One & two", "")
    assert "text of the note" in entry.text
    assert "evil" not in entry.text


async def test_an_unchanged_feed_is_not_sent_again(web: WebPeer, tmp_path: Path) -> None:
    first = await feed(web, tmp_path).listing()
    assert (await feed(web, tmp_path).listing()).fingerprints == first.fingerprints
    assert web.statuses == [200, 304]


async def test_entries_stay_known_after_they_left_the_feed(web: WebPeer, tmp_path: Path) -> None:
    await feed(web, tmp_path).listing()
    web.pages["/feed"] = rss(("newer", "Rocket 3 is out.", 0))
    assert set((await feed(web, tmp_path).listing()).fingerprints) == {"new", "old", "newer"}
    assert set((await feed(web, tmp_path, keep_days=7).listing()).fingerprints) == {"new", "newer"}
    assert set((await feed(web, tmp_path, max_entries=1).listing()).fingerprints) == {"newer"}


@pytest.mark.parametrize("page", [Page("oops", status=500), Page("<html>no feed"), Page("")])
async def test_a_feed_that_fails_keeps_its_knowledge(web: WebPeer, tmp_path: Path, page: Page) -> None:
    first = await feed(web, tmp_path).listing()
    web.pages["/feed"] = page
    listing = await feed(web, tmp_path).listing()
    assert listing.stale
    assert listing.fingerprints == first.fingerprints
    with pytest.raises(SourceError, match="source news: "):
        await feed(web, tmp_path / "new").listing()


async def test_an_empty_feed_is_said(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/feed"] = rss(("old", "Old.", 400))
    with pytest.raises(SourceError, match="no entry of the last 365 days"):
        await feed(web, tmp_path).listing()
