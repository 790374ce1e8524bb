"""Confluence: restrictions of pages and of those above them, new versions, the trash, spaces, both ways to sign in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from core.errors import SourceError
from knowledge.connectors.api import ConnectorApi, TimeUp
from knowledge.connectors.confluence import RESTRICTED, Confluence
from knowledge.connectors.source import ItemPage
from knowledge.ports import Store
from knowledge.sources.plugin import PluginSource
from tests.support.connectors import OpenSource, Update, read_documents
from tests.support.peers.confluence import CONTEXT, USERNAME, ConfluencePeer, WikiPage

SEARCH = f"{CONTEXT}/rest/api/content/search"
OpenWiki = Callable[..., PluginSource]


@pytest.fixture
async def wiki() -> AsyncIterator[ConfluencePeer]:
    async with ConfluencePeer() as peer:
        yield peer


@pytest.fixture
def open_wiki(wiki: ConfluencePeer, open_connector: OpenSource) -> OpenWiki:
    def open_source(**options: object) -> PluginSource:
        fields = {"spaces": ["DOC"], "username": USERNAME, **options}
        return open_connector("confluence", wiki.site(), token="SERVICE_TOKEN", **fields)

    return open_source


async def test_only_new_versions_are_read(wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}", f"<p>Text {number}</p>") for number in range(1, 6)}
    wiki.page_size = 2
    assert (await update(open_wiki())).added == 5
    wiki.paths()
    assert (await update(open_wiki())).unchanged == 5
    assert wiki.paths() == [SEARCH] * 3
    wiki.wiki[2] = WikiPage("Page 2", "<p>Newer</p>", version=2)
    del wiki.wiki[5]
    report = await update(open_wiki())
    assert (report.updated, report.deleted, report.unchanged) == (1, 1, 3)
    assert [request.query["cql"] for request in wiki.requests if "id=" in request.query["cql"]] == [
        'id=2 and space="DOC"'
    ]


async def test_a_space_that_may_not_be_read_keeps_what_is_known_and_stops_no_other(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update
) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}", space="DOC" if number < 4 else "OPS") for number in range(1, 7)}
    wiki.page_size = 2
    assert (await update(open_wiki(spaces=["OPS", "DOC"]))).added == 6
    wiki.hidden_spaces = {"OPS"}
    del wiki.wiki[1]
    report = await update(open_wiki(spaces=["OPS", "DOC"]))
    assert ": OPS: " in report.stale
    assert "may the account read it?" in report.stale
    assert (report.unchanged, report.deleted) == (5, 1)
    wiki.hidden_spaces = set()
    report = await update(open_wiki(spaces=["OPS", "DOC"]))
    assert (report.unchanged, report.stale) == (5, "")


@pytest.mark.parametrize("others", [["DOC"], []])
async def test_a_space_that_this_account_may_not_see_any_more_is_forgotten(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update, store: Store, others: list[str]
) -> None:
    """Its search is refused as where somebody misspelled it; the pages say it, asked for one by one."""
    for space in ("OPS", *others):
        wiki.wiki |= {len(wiki.wiki) + n: WikiPage(f"Page of {space}", space=space) for n in range(1, 5)}
    spaces = ["OPS", *others]
    assert (await update(open_wiki(spaces=spaces))).added == 4 * len(spaces)
    wiki.closed_spaces = {"OPS"}
    report = await update(open_wiki(spaces=spaces))
    assert {passage.title for passage in await store.search("text", None, ["docs"], 9)} == {
        f"Page of {space}" for space in others
    }
    assert "may the account read it?" in report.stale
    wiki.closed_spaces = set()
    report = await update(open_wiki(spaces=spaces))
    assert report.stale == ""
    assert len(await store.search("text", None, ["docs"], 9)) == 4 * len(spaces)


async def test_an_empty_space_beside_one_that_is_refused_deletes_nothing(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update
) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}", space="OPS" if number < 3 else "DOC") for number in range(1, 5)}
    assert (await update(open_wiki(spaces=["OPS", "DOC"]))).added == 4
    wiki.hidden_spaces = {"OPS"}
    wiki.is_lost = True
    report = await update(open_wiki(spaces=["OPS", "DOC"]))
    assert (report.unchanged, report.deleted) == (4, 0)
    assert ": OPS: " in report.stale
    assert "lists nothing any more" in report.stale
    wiki.hidden_spaces = set()
    wiki.is_lost = False
    assert (await update(open_wiki(spaces=["OPS", "DOC"]))).stale == ""


async def test_spaces_behind_one_that_is_refused_for_good_are_read_in_the_end(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list takes more than one refresh: what was refused in the first one is not deleted in the last one."""
    wiki.wiki = {number: WikiPage(f"Page {number}", space="OPS" if number < 3 else "DOC") for number in range(1, 9)}
    wiki.wiki[9] = WikiPage("Page 9", space="FAQ")
    wiki.page_size = 2
    spaces = ["FAQ", "OPS", "DOC"]
    assert (await update(open_wiki(spaces=spaces))).added == 9
    wiki.hidden_spaces = {"OPS"}
    wiki.wiki[10] = WikiPage("Page 10", space="DOC")
    list_page = Confluence.list_page
    calls = 0

    async def list_page_while_there_is_time(service: Confluence, api: ConnectorApi, cursor: str) -> ItemPage:
        nonlocal calls
        calls += 1
        if calls % 4 == 0:
            raise TimeUp
        return await list_page(service, api, cursor)

    monkeypatch.setattr(Confluence, "list_page", list_page_while_there_is_time)
    reports = [await update(open_wiki(spaces=spaces)) for _ in range(3)]
    assert [report.added for report in reports] == [0, 0, 1]
    assert [report.deleted for report in reports] == [0, 0, 0]
    assert all(": OPS: " in report.stale for report in reports)
    assert "not everything is read yet" not in reports[2].stale


async def test_a_list_that_always_forgets_where_it_was_ends(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update
) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}") for number in range(1, 4)}
    wiki.page_size = 2
    wiki.forgets_cursors = True
    report = await update(open_wiki())
    assert "status 400" in report.stale
    assert wiki.paths().count(SEARCH) < 10


async def test_restricted_pages_and_all_below_them_are_not_read(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update, store: Store
) -> None:
    wiki.wiki = {
        1: WikiPage("Open", "<p>word open</p>"),
        2: WikiPage("For one", "<p>word secret</p>", users=["ann"]),
        3: WikiPage("For a group", "<p>word secret</p>", groups=["team"]),
        4: WikiPage("Below", "<p>word secret</p>", parent=2),
        5: WikiPage("Far below", "<p>word secret</p>", parent=4),
        6: WikiPage("Beside", "<p>word beside</p>", parent=1),
    }
    report = await update(open_wiki())
    assert report.unreadable == {f"pages/{number}": RESTRICTED for number in (2, 3, 4, 5)}
    assert {passage.path for passage in await store.search("word", None, ["docs"], 9)} == {"pages/1", "pages/6"}
    assert not any(f"id={number}" in request.query["cql"] for request in wiki.requests for number in (2, 3, 4, 5))


async def test_a_page_that_is_restricted_later_is_forgotten(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update, store: Store
) -> None:
    wiki.wiki = {1: WikiPage("Above", "<p>word</p>"), 2: WikiPage("Below", "<p>word</p>", parent=1)}
    await update(open_wiki())
    wiki.wiki[1].users = ["ann"]
    report = await update(open_wiki())
    assert report.stale == ""
    assert await store.search("word", None, ["docs"], 9) == []
    wiki.wiki[1].users = []
    await update(open_wiki())
    assert len(await store.search("word", None, ["docs"], 9)) == 2


async def test_a_page_that_is_moved_to_another_space_is_forgotten(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move makes no new version. The second page moves between the list and its own turn."""
    wiki.wiki = {number: WikiPage("Page", "<p>word</p>") for number in (1, 2, 3)}
    await update(open_wiki())
    wiki.wiki[1].space = "HR"
    wiki.wiki[2].version = 2
    show = wiki._show

    def show_then_move(number: int, expansions: list[str]) -> dict[str, Any]:
        shown = show(number, expansions)
        wiki.wiki[2].space = "HR"
        return shown

    monkeypatch.setattr(wiki, "_show", show_then_move)
    await update(open_wiki())
    assert [passage.path for passage in await store.search("word", None, ["docs"], 9)] == ["pages/3"]


@pytest.mark.parametrize("restrictions", [None, {}, {"read": {"restrictions": {"user": {"results": []}}}}, "none"])
async def test_what_is_not_known_counts_as_restricted(
    wiki: ConfluencePeer, open_wiki: OpenWiki, monkeypatch: pytest.MonkeyPatch, restrictions: object
) -> None:
    wiki.wiki = {1: WikiPage("Page")}
    monkeypatch.setattr(wiki, "_restrictions", lambda *_: {"restrictions": restrictions})
    documents = await read_documents(open_wiki())
    assert documents["pages/1"].unreadable_reason == RESTRICTED


async def test_drafts_archived_and_trashed_pages_are_gone(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update
) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}") for number in (1, 2, 3)}
    await update(open_wiki())
    wiki.wiki[2].status = "trashed"
    wiki.wiki[3].status = "archived"
    report = await update(open_wiki())
    assert report.deleted == 1
    assert report.unreadable == {"pages/3": "it is a draft, archived or in the trash"}
    wiki.status = 403
    report = await update(open_wiki())
    assert "status 403" in report.stale
    assert report.deleted == 0


async def test_the_passage_links_to_its_page_and_code_stays(wiki: ConfluencePeer, open_wiki: OpenWiki) -> None:
    code = "<ac:plain-text-body><![CDATA[if a < b]]></ac:plain-text-body>"
    body = f'<ac:structured-macro ac:name="code">{code}</ac:structured-macro>'
    wiki.wiki = {7: WikiPage("How to", body), 8: WikiPage("News", kind="blogpost"), 9: WikiPage("Else", space="HR")}
    documents = await read_documents(open_wiki())
    assert set(documents) == {"pages/7", "pages/8"}
    page = documents["pages/7"]
    assert (page.title, page.url) == ("How to", f"{wiki.site()}/spaces/DOC/pages/7/A+title")
    assert "```\nif a < b\n```" in page.text


async def test_a_cursor_that_is_not_known_any_more_begins_anew(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update
) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}") for number in range(1, 7)}
    wiki.page_size = 2
    wiki.broken_after = 4
    assert "status 500" in (await update(open_wiki())).stale
    wiki.broken_after = 0
    wiki.forgets_cursors = True
    wiki.page_size = 50
    report = await update(open_wiki())
    assert (report.stale, report.passages) == ("", 6)


@pytest.mark.parametrize(("context", "next_url"), [("/", SEARCH), ("", f"https://evil.example{SEARCH}")])
async def test_the_next_part_is_found_however_its_address_begins(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update, context: str, next_url: str
) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}") for number in range(1, 4)}
    assert (await update(open_wiki())).added == 3
    wiki.page_size = 2
    wiki.next_links = (context, next_url)
    assert (await update(open_wiki())).unchanged == 3


async def test_a_next_part_that_is_not_understood_deletes_nothing(
    wiki: ConfluencePeer, open_wiki: OpenWiki, update: Update
) -> None:
    wiki.wiki = {number: WikiPage(f"Page {number}") for number in range(1, 4)}
    await update(open_wiki())
    wiki.page_size = 2
    wiki.next_links = ("/wiki", "/wiki/rest/api/elsewhere")
    report = await update(open_wiki())
    assert "a next part that is not understood" in report.stale
    assert report.deleted == 0


async def test_servers_of_ones_own_get_the_token_alone(wiki: ConfluencePeer, open_wiki: OpenWiki) -> None:
    wiki.wiki = {1: WikiPage("Page")}
    assert await open_wiki(username="").probe() == f"{wiki.site()}: answers for DOC"
    assert wiki.requests[-1].headers["Authorization"].startswith("Bearer ")


async def test_check_says_what_is_wrong(wiki: ConfluencePeer, open_wiki: OpenWiki, open_connector: OpenSource) -> None:
    wiki.wiki = {1: WikiPage("Page")}
    with pytest.raises(SourceError, match="space NOPE shows no pages: does it exist"):
        await open_wiki(spaces=["DOC", "NOPE"]).probe()
    with pytest.raises(SourceError, match="status 401: the token is not accepted"):
        await open_connector("confluence", wiki.site(), spaces=["DOC"]).probe()
    with pytest.raises(SourceError, match="spaces"):
        await open_wiki(spaces=['DOC" or space="HR']).probe()
