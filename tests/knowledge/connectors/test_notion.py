"""Notion: long and nested pages, blocks that cannot be read, what is shared no longer, properties, the trash."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web

from core.errors import SourceError
from knowledge.ports import Store
from knowledge.sources.plugin import PluginSource
from tests.support.connectors import OpenSource, Update, read_documents
from tests.support.peers.notion import NotionPage, NotionPeer, make_block

OpenNotion = Callable[[], PluginSource]


@pytest.fixture
async def notion() -> AsyncIterator[NotionPeer]:
    async with NotionPeer() as peer:
        yield peer


@pytest.fixture
def open_notion(notion: NotionPeer, open_connector: OpenSource) -> OpenNotion:
    return lambda: open_connector("notion", notion.url(), token="SERVICE_TOKEN")


async def test_a_long_page_is_read_to_its_end_with_what_is_folded(notion: NotionPeer, open_notion: OpenNotion) -> None:
    blocks = [make_block("paragraph", f"Line {number}.") for number in range(229)]
    blocks.append(make_block("toggle", "More", make_block("paragraph", "Folded away.")))
    notion.shared["p-1"] = NotionPage("Long", blocks)
    document = (await read_documents(open_notion()))["pages/p-1"]
    assert (document.title, document.url) == ("Long", "https://www.notion.so/p-1")
    assert "Line 228." in document.text
    assert "Folded away." in document.text
    assert notion.paths() == [
        "/v1/search",
        "/v1/pages/p-1",
        *["/v1/blocks/p-1/children"] * 3,
        "/v1/blocks/toggle-More/children",
    ]


async def test_only_edited_pages_are_read_again(
    notion: NotionPeer, open_notion: OpenNotion, update: Update, store: Store
) -> None:
    notion.page_size = 2
    notion.shared = {f"p-{n}": NotionPage(f"Page {n}", [make_block("paragraph", f"word {n}")]) for n in range(5)}
    assert (await update(open_notion())).added == 5
    notion.paths()
    assert (await update(open_notion())).unchanged == 5
    assert notion.paths() == ["/v1/search"] * 3
    notion.shared["p-3"] = NotionPage("Page 3", [make_block("paragraph", "word new")], "2026-01-05T00:00:00.000Z")
    notion.shared["p-1"].in_trash = True
    del notion.shared["p-2"]
    report = await update(open_notion())
    assert (report.deleted, report.unreadable) == (1, {"pages/p-1": "it is in the trash"})
    assert {passage.path for passage in await store.search("word", None, ["docs"], 9)} == {
        "pages/p-0",
        "pages/p-3",
        "pages/p-4",
    }


@pytest.mark.parametrize("count", [1, 7])
async def test_what_is_shared_no_longer_is_forgotten_also_where_it_is_everything(
    notion: NotionPeer, open_notion: OpenNotion, update: Update, store: Store, count: int
) -> None:
    pages = {f"p-{n}": NotionPage(f"Page {n}", [make_block("paragraph", f"word {n}")]) for n in range(count)}
    notion.shared = dict(pages)
    await update(open_notion())
    notion.shared = {}
    report = await update(open_notion())
    assert await store.search("word", None, ["docs"], 9) == []
    assert (report.stale, len(report.unreadable)) == ("", count)
    assert (await update(open_notion())).stale == ""
    notion.shared = pages
    await update(open_notion())
    assert len(await store.search("word", None, ["docs"], 9)) == count


async def test_an_edit_of_this_minute_is_read_again(
    notion: NotionPeer, open_notion: OpenNotion, update: Update
) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:00.000Z")
    notion.shared["p-1"] = NotionPage("Page", [make_block("paragraph", "before")], now)
    await update(open_notion())
    notion.shared["p-1"].blocks = [make_block("paragraph", "after")]
    state = open_notion()._folder / "items.json"
    state.write_text(state.read_text().replace("read at ", "read at 1"))
    assert (await update(open_notion())).updated == 1


async def test_an_edit_of_this_minute_is_read_again_where_our_clock_is_fast(
    notion: NotionPeer, open_notion: OpenNotion, update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = notion.answer

    def answer_late(request: web.Request) -> web.Response:
        response = answer(request)
        response.headers["Date"] = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
        return response

    monkeypatch.setattr(notion, "answer", answer_late)
    now = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:00.000Z")
    notion.shared["p-1"] = NotionPage("Page", [make_block("paragraph", "before")], now)
    await update(open_notion())
    notion.shared["p-1"].blocks = [make_block("paragraph", "after")]
    state = open_notion()._folder / "items.json"
    state.write_text(state.read_text().replace("read at ", "read at 1"))
    assert (await update(open_notion())).updated == 1


async def test_a_block_that_cannot_be_read_is_left_out(notion: NotionPeer, open_notion: OpenNotion) -> None:
    odd = make_block("unsupported", "x", id="odd")
    odd["claims_children"] = True
    copy = make_block("synced_block", "", id="copy", synced_from={"block_id": "original"})
    lost = make_block("synced_block", "", id="lost", synced_from={"block_id": "elsewhere"})
    notion.broken = {"/v1/blocks/odd/children": 400}
    notion.shared["p-1"] = NotionPage("Page", [odd, copy, lost, make_block("paragraph", "The end.")])
    notion.shared["p-2"] = NotionPage(
        "Other",
        [make_block("synced_block", "", make_block("paragraph", "Shared words."), id="original", synced_from=None)],
    )
    documents = await read_documents(open_notion())
    assert documents["pages/p-1"].text.split("\n\n") == ["x", "Shared words.", "The end."]
    notion.broken = {"/v1/blocks/p-1/children": 400}
    notion.shared["p-1"].edited = "2026-01-06T00:00:00.000Z"
    documents = await read_documents(open_notion())
    assert "status 400" in documents["pages/p-1"].unreadable_reason
    assert documents["pages/p-2"].text == "Shared words."


async def test_a_copied_block_goes_with_the_page_that_it_is_from(
    notion: NotionPeer, open_notion: OpenNotion, update: Update, store: Store
) -> None:
    """That page is edited, then shared no longer: the copy leaves no mark in the page that has it."""
    copy = make_block("synced_block", "", id="copy", synced_from={"block_id": "original"})
    original = make_block("synced_block", "", make_block("paragraph", "First numbat."), id="original", synced_from=None)
    notion.shared["p-1"] = NotionPage("Page", [copy, make_block("paragraph", "The end of the numbat.")])
    notion.shared["p-2"] = NotionPage("Other", [original])

    async def read() -> str:
        await update(open_notion())
        found = await store.search("numbat", None, ["docs"], 9)
        return " ".join(passage.text for passage in found if passage.path == "pages/p-1")

    assert "First numbat." in await read()
    original["children"] = [make_block("paragraph", "Second numbat.", id="second")]
    text = await read()
    assert "Second numbat." in text
    assert "First numbat." not in text
    del notion.shared["p-2"]
    assert "Second numbat." not in await read()


@pytest.mark.parametrize("path", ["/v1/pages/p-1", "/v1/blocks/p-1/children"])
async def test_a_reply_that_is_something_else_erases_nothing(
    notion: NotionPeer, open_notion: OpenNotion, update: Update, path: str
) -> None:
    notion.shared["p-1"] = NotionPage("Page", [make_block("paragraph", "before")])
    await update(open_notion())
    notion.shared["p-1"] = NotionPage("Page", [make_block("paragraph", "after")], "2026-01-06T00:00:00.000Z")
    notion.odd = {path: {"message": "please sign in"}}
    report = await update(open_notion())
    assert ("something else than a page" in report.stale, report.unchanged) == (True, 1)
    notion.odd = {}
    assert (await update(open_notion())).updated == 1


async def test_blocks_become_markdown(notion: NotionPeer, open_notion: OpenNotion) -> None:
    row = {"rich_text": [], "cells": [[{"plain_text": "a", "annotations": {"bold": True}}], [{"plain_text": "b"}]]}
    rows = [make_block("table_row", str(n), **row) for n in range(2)]
    code = make_block("code", "if a < b:\n    pass", language="python")
    rich = make_block("paragraph")
    rich["paragraph"]["rich_text"] = [
        {"plain_text": "Run ", "annotations": {}},
        {"plain_text": "x<y", "annotations": {"code": True}},
        {"plain_text": " or ask ", "annotations": {}},
        {"plain_text": "@Ann", "mention": {"type": "user"}},
    ]
    notion.shared["p-1"] = NotionPage(
        "Page",
        [
            make_block("heading_1", "Title <b>"),
            make_block("bulleted_list_item", "One", make_block("numbered_list_item", "Inner")),
            make_block("to_do", "Two"),
            code,
            make_block("table", "", *rows, has_column_header=True),
            make_block("callout", "Mind."),
            make_block("column_list", "", make_block("column", "", make_block("quote", "Said."))),
            make_block("child_page", "", make_block("paragraph", "secret child")),
            rich,
        ],
        properties={
            "State": {"type": "status", "status": {"name": "Done"}},
            "Tags": {"type": "multi_select", "multi_select": [{"name": "a"}, {"name": "b"}]},
            "Owner": {"type": "people", "people": [{"name": "Ann"}]},
            "Empty": {"type": "rich_text", "rich_text": []},
            "Note": {"type": "rich_text", "rich_text": [{"plain_text": "@Ann", "mention": {"type": "user"}}]},
        },
    )
    text = (await read_documents(open_notion()))["pages/p-1"].text
    assert text.startswith("## Title ")
    for part in ("- One", "1. Inner", "- Two", "```python\nif a < b:\n    pass\n```", "`x<y`", "Mind.", "> Said."):
        assert part in text
    assert "| a | b |\n|---|---|\n| a | b |" in text
    assert "or ask somebody" in text
    assert text.endswith("- State: Done\n- Tags: a, b\n- Note: somebody")
    for part in ("Ann", "secret child", "Empty"):
        assert part not in text


async def test_a_limit_is_obeyed(notion: NotionPeer, open_notion: OpenNotion, update: Update) -> None:
    notion.shared["p-1"] = NotionPage("Page", [make_block("paragraph", "Text.")])
    notion.limits = ["1"]
    assert (await update(open_notion())).added == 1


async def test_check_says_what_is_wrong(
    notion: NotionPeer, open_notion: OpenNotion, open_connector: OpenSource
) -> None:
    with pytest.raises(SourceError, match="shows no pages: share some with the integration"):
        await open_notion().probe()
    notion.shared["p-1"] = NotionPage("Page")
    assert "answers" in await open_notion().probe()
    with pytest.raises(SourceError, match="token: Field required"):
        await open_connector("notion", notion.url()).probe()
    notion.status = 401
    with pytest.raises(SourceError, match="status 401: the token is not accepted"):
        await open_notion().probe()
