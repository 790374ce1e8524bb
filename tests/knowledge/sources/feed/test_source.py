"""A feed as a source, against a server that changes and fails."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import FeedSource
from knowledge.ports import Document
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


@pytest.mark.parametrize("kind", ["", 'type="text"', 'type="html"', 'type="xhtml"'])
async def test_atom_says_what_is_markup(web: WebPeer, tmp_path: Path, kind: str) -> None:
    escaped = "Use Box&lt;T&gt; &amp;amp; more"
    text = {'type="html"': escaped.replace("&", "&amp;").replace("amp;amp;amp;", "amp;amp;")}.get(kind, escaped)
    if "xhtml" in kind:
        text = f'<div xmlns="http://www.w3.org/1999/xhtml">{escaped}</div>'
    entry = f"<entry><id>urn:2</id><title {kind}>{text}</title><content {kind}>{text}</content></entry>"
    web.pages["/feed"] = Page(ATOM.partition("<entry>")[0] + entry + "</feed>")
    source = feed(web, tmp_path)
    listing = await source.listing()
    (document,) = [document async for document in source.documents(listing, listing.fingerprints)]
    shown = "Use Box<T> & more" if kind == 'type="html"' else "Use Box<T> &amp; more"
    assert document.title == shown
    assert document.text.replace("\\", "").startswith(shown)


async def test_a_feed_may_be_a_packed_file(web: WebPeer, tmp_path: Path) -> None:
    packed = gzip.compress(str(web.pages["/feed"].body).encode())
    web.pages["/feed"] = Page(packed)
    assert set((await feed(web, tmp_path).listing()).fingerprints) == {"new", "old"}
    web.pages["/feed"] = Page(packed[:-20])
    with pytest.raises(SourceError, match="cannot be unpacked"):
        await feed(web, tmp_path / "other").listing()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_bare_ampersand_is_one(web: WebPeer, tmp_path: Path, encoding: str) -> None:
    body = "<title>D&amp;D, R&D</title><description><![CDATA[a & b, a&nbsp;c]]></description>"
    item = f"<item><guid>1</guid>{body}</item>"
    text = f'<?xml version="1.0" encoding="{encoding}"?><rss version="2.0"><channel>{item}</channel></rss>'
    text = text if encoding == "utf-8" else text.replace("R&D", "R&amp;D")
    web.pages["/feed"] = Page(text.encode(encoding))
    source = feed(web, tmp_path)
    listing = await source.listing()
    (document,) = [document async for document in source.documents(listing, listing.fingerprints)]
    assert document.title == "D&D, R&D"
    assert document.text.split()[:5] == ["a", "&", "b,", "a", "c"]


async def test_atom_is_read_and_made_harmless(web: WebPeer, tmp_path: Path) -> None:
    web.pages["/feed"] = Page(ATOM)
    source = feed(web, tmp_path)
    listing = await source.listing()
    (entry,) = [document async for document in source.documents(listing, listing.fingerprints)]
    assert (entry.title, entry.url) == ("One & two", "")
    assert "text of the note" in entry.text
    assert "evil" not in entry.text


@pytest.mark.parametrize(
    ("link", "shown"), [("#release-5", "/feed#release-5"), ("ADDRESS", "/feed"), ("?page=5", "/feed?page=5")]
)
async def test_a_link_shows_no_token_of_the_feed(web: WebPeer, tmp_path: Path, link: str, shown: str) -> None:
    url = web.url("/feed?feed_token=glft-secret")
    link = f"<link>{link.replace('ADDRESS', url)}</link>"
    item = f"<item><guid isPermaLink='false'>5</guid>{link}<title>A</title><description>Rocket 5.</description></item>"
    web.pages["/feed"] = Page(f'<rss version="2.0"><channel><title>t</title>{item}</channel></rss>')
    source = feed(web, tmp_path, url=url)
    listing = await source.listing()
    (entry,) = [document async for document in source.documents(listing, listing.fingerprints)]
    assert entry.url == web.url(shown)


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


@pytest.mark.parametrize("is_away", [False, True])
async def test_the_last_entries_go_when_they_are_too_old(web: WebPeer, tmp_path: Path, *, is_away: bool) -> None:
    """No newer one is there, whether the feed can be read or not."""
    assert (await feed(web, tmp_path).listing()).fingerprints
    age_records(tmp_path, 400)
    web.pages["/feed"] = Page("oops", status=500) if is_away else rss(("old", "Old.", 400))
    listing = await feed(web, tmp_path).listing()
    assert not listing.fingerprints
    assert bool(listing.stale) == is_away


RSS = "<rss version='2.0'><channel><title>Blog</title>{}</channel></rss>"
FAR = "<pubDate>Tue, 19 Jan 2038 03:14:07 GMT</pubDate>"


async def entries(source: Feed) -> dict[str, Document]:
    listing = await source.listing()
    return {document.path: document async for document in source.documents(listing, listing.fingerprints)}


def age_records(folder: Path, days: int) -> None:
    """Let all times of the record be earlier, as if so many days had passed."""
    file = folder / "entries.json"
    state = json.loads(file.read_text("utf-8"))
    state["first_seen"] = {name: seen - days * 86_400 for name, seen in state["first_seen"].items()}
    for entry in state["entries"].values():
        entry["published"] -= days * 86_400
    file.write_text(json.dumps(state), "utf-8")


@pytest.mark.parametrize("date", ["", FAR, "<pubDate>soon</pubDate>", "<pubDate>0000-00-00</pubDate>"])
async def test_an_entry_without_a_usable_date_is_as_old_as_it_is_known(web: WebPeer, tmp_path: Path, date: str) -> None:
    item = f"<item><guid>a</guid><title>A</title><description>Rocket 4.</description>{date}</item>"
    web.pages["/feed"] = Page(RSS.format(item))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    first = await entries(feed(web, tmp_path))
    assert first["a"].text.endswith(f"({today})") or date
    age_records(tmp_path, 10)
    web.pages["/feed"] = Page(RSS.format(item + "<item><guid>b</guid><description>Rocket 5.</description></item>"))
    documents = await entries(feed(web, tmp_path))
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 10 * 86_400))
    assert documents["a"].text == f"Rocket 4.\n\n({day})"
    assert documents["b"].text.startswith("Rocket 5.\n\n(20")
    age_records(tmp_path, 80)
    web.pages["/feed"] = Page(RSS.format(item + "<item><guid>b</guid><description>Rocket 6.</description></item>"))
    for _ in range(2):
        assert set(await entries(feed(web, tmp_path, keep_days=85))) == {"b"}


@pytest.mark.parametrize(
    "date",
    ["Tue, 03 Feb 2026 10:00:00", "Tue, 03 Feb 2026 10:00:00 GMT", "2026-02-03T10:00:00", "3 Feb 2026 12:00 +0200"],
)
async def test_a_date_needs_no_zone(web: WebPeer, tmp_path: Path, date: str) -> None:
    item = f"<item><guid>a</guid><title>A</title><description>Rocket 4.</description><pubDate>{date}</pubDate></item>"
    web.pages["/feed"] = Page(RSS.format(item))
    documents = await entries(feed(web, tmp_path, keep_days=10_000))
    assert documents["a"].text == "Rocket 4.\n\n(2026-02-03)"


@pytest.mark.parametrize(
    ("content", "address"),
    [
        (
            RSS.format("<item><title>A</title><link>posts/1</link><description>R.</description></item>"),
            "{root}/posts/1",
        ),
        (RSS.format("<item><guid>17</guid><description>R.</description></item>"), ""),
        (
            "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='https://b.example/blog/'><title>x</title>"
            "<entry xml:base='sub/'><id>a</id><link href='../p/1'/><content>R.</content></entry></feed>",
            "https://b.example/blog/p/1",
        ),
        (
            RSS.format("<item><guid>HTTPS://B.Example:443/p</guid><description>R.</description></item>"),
            "HTTPS://B.Example:443/p",
        ),
        (RSS.format("<item><title>A</title><link>javascript:x()</link><description>R.</description></item>"), ""),
    ],
)
async def test_addresses_of_entries_are_made_whole(web: WebPeer, tmp_path: Path, content: str, address: str) -> None:
    web.pages["/feed"] = Page(content)
    (entry,) = (await entries(feed(web, tmp_path))).values()
    assert entry.url == address.replace("{root}", web.url())


GOOD = "<item><guid>good</guid><title>A</title><description>Rocket 4 is out.</description></item>"


@pytest.mark.parametrize(
    "bad",
    [
        "<item><guid>bad</guid><title>A\x0b B & C</title><description>Text &nbsp; &unknown; here.</description></item>",
        "<item><guid>bad</guid><description><p>never closed</description></item>",
        "<item><guid>bad</guid><link>http://[half</link><pubDate>never</pubDate><description>R.</description></item>",
        f"<item><guid>{'x' * 9000}</guid><description>{'<b>' * 5000}</description></item>",
        "<item/>",
    ],
)
@pytest.mark.parametrize("template", ["{bad}{good}", "{good}{bad}"])
async def test_an_entry_that_is_damaged_costs_itself_alone(
    web: WebPeer, tmp_path: Path, bad: str, template: str
) -> None:
    web.pages["/feed"] = Page(RSS.format(template.format(bad=bad, good=GOOD)))
    assert (await entries(feed(web, tmp_path)))["good"].text.startswith("Rocket 4 is out.")


async def test_an_entry_stays_itself_however_its_address_is_spelled(web: WebPeer, tmp_path: Path) -> None:
    for spelling in ("HTTP://B.example:80/p#top", "http://b.example/p", "http://B.Example/./p"):
        item = f"<item><title>A</title><guid>{spelling}</guid><description>Rocket.</description></item>"
        web.pages["/feed"] = Page(RSS.format(item))
        assert set(await entries(feed(web, tmp_path))) == {"http://b.example/p"}


async def test_entities_of_a_feed_are_never_expanded(web: WebPeer, tmp_path: Path) -> None:
    declaration = '<!DOCTYPE x [<!ENTITY a "boom"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
    web.pages["/feed"] = Page(declaration + RSS.format("<item><title>t &a; &f;</title><guid>a</guid></item>"))
    (entry,) = (await entries(feed(web, tmp_path))).values()
    assert "boom" not in entry.text
    assert "root:" not in entry.text


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("", "Rocket 2 is out & faster."),
        ("<title> </title>", "Rocket 2 is out & faster."),
        ("<title>&lt;b&gt;News&lt;/b&gt;</title>", "News"),
    ],
)
async def test_an_entry_without_a_title_has_its_first_words(
    web: WebPeer, tmp_path: Path, title: str, expected: str
) -> None:
    text = "<![CDATA[<p>Rocket 2 is out &amp; faster.</p>]]>"
    item = f"<item>{title}<link>https://blog.example.org/1</link><description>{text}</description></item>"
    web.pages["/feed"] = Page(RSS.format(item))
    [entry] = (await entries(feed(web, tmp_path))).values()
    assert (entry.title, entry.url) == (expected, "https://blog.example.org/1")
