"""What all connectors do alike, shown on a forum: only changes are read, deletions and limits are obeyed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings.connectors import DiscourseOptions, parse_options
from knowledge.connectors import api as connector_api, source as connector_source
from knowledge.connectors.api import ConnectorApi, TimeUp
from knowledge.connectors.discourse import Discourse
from knowledge.connectors.source import Content, Item
from knowledge.formats.discourse import Post, write_topic
from knowledge.ports import Store
from tests.support.connectors import OpenSource, Update
from tests.support.peers.discourse import DiscoursePeer, Entry, Topic


@pytest.fixture
async def forum() -> AsyncIterator[DiscoursePeer]:
    async with DiscoursePeer() as peer:
        for number in range(1, 6):
            peer.topics[number] = Topic(f"Question {number}", [Entry(f"How does part {number} work?")])
        yield peer


async def find_paths(store: Store) -> set[str]:
    return {passage.path for passage in await store.search("part question how", None, ["docs"], 99)}


def name_paths(*numbers: int) -> set[str]:
    return {f"topics/{number}" for number in numbers}


async def test_only_what_changed_is_read_again_and_deletions_follow(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store
) -> None:
    forum.page_size = 2
    assert (await update(open_connector("discourse", forum.url()))).added == 5
    forum.paths()
    assert (await update(open_connector("discourse", forum.url()))).unchanged == 5
    assert forum.paths() == ["/latest.json"] * 3
    forum.topics[2].posts.append(Entry("It works by part 9."))
    del forum.topics[4]
    report = await update(open_connector("discourse", forum.url()))
    assert (report.updated, report.deleted, report.unchanged) == (1, 1, 3)
    assert [path for path in forum.paths() if path != "/latest.json"] == ["/t/2.json"]
    assert await find_paths(store) == name_paths(1, 2, 3, 5)


async def test_what_leaves_no_mark_is_read_again_after_a_week(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, tmp_path: Path
) -> None:
    await update(open_connector("discourse", forum.url()))
    file = tmp_path / "own/docs/items.json"
    state = json.loads(file.read_text())
    state["items"]["topics/3"]["read_at"] = time.time() - 8 * 86_400
    file.write_text(json.dumps(state))
    forum.paths()
    await update(open_connector("discourse", forum.url()))
    assert forum.paths() == ["/latest.json", "/t/3.json"]


@pytest.mark.parametrize("mode", ["drop", "html", "broken", "short"])
async def test_a_service_that_is_away_loses_nothing(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store, mode: str
) -> None:
    await update(open_connector("discourse", forum.url()))
    forum.failure_mode = mode
    report = await update(open_connector("discourse", forum.url()))
    assert report.stale
    assert report.unchanged == 5
    assert await find_paths(store) == name_paths(1, 2, 3, 4, 5)


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
async def test_a_list_that_is_refused_loses_nothing(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, status: int
) -> None:
    await update(open_connector("discourse", forum.url()))
    forum.status = status
    report = await update(open_connector("discourse", forum.url()))
    assert f"status {status}" in report.stale
    assert report.unchanged == 5


async def test_an_empty_list_deletes_nothing_that_is_still_there(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update
) -> None:
    await update(open_connector("discourse", forum.url()))
    forum.odd = {"/latest.json": {"topic_list": {"topics": []}}}
    report = await update(open_connector("discourse", forum.url()))
    assert "lists nothing any more" in report.stale
    assert (report.unchanged, report.deleted) == (5, 0)
    forum.topics, forum.odd = {}, {}
    report = await update(open_connector("discourse", forum.url()))
    assert (report.stale, report.unchanged, len(report.unreadable)) == ("", 0, 5)


async def test_one_bad_document_loses_only_itself(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store
) -> None:
    forum.broken = {"/t/3.json": 400}
    report = await update(open_connector("discourse", forum.url()))
    assert report.unreadable["topics/3"].endswith("/t/3.json answered with status 400")
    assert await find_paths(store) == name_paths(1, 2, 4, 5)
    forum.broken = {"/t/2.json": 502}
    forum.topics[2].posts.append(Entry("More of part 2."))
    report = await update(open_connector("discourse", forum.url()))
    assert "status 502" in report.stale
    assert await find_paths(store) == name_paths(1, 2, 4, 5), "its old state stays"
    forum.broken = {}
    assert (await update(open_connector("discourse", forum.url()))).updated == 1


@pytest.mark.parametrize("odd", [{}, [], None, {"post_stream": {"posts": None}}, {"ok": "please sign in"}])
async def test_a_reply_that_is_something_else_erases_nothing(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store, odd: object
) -> None:
    await update(open_connector("discourse", forum.url()))
    forum.topics[3].posts.append(Entry("It works by part 9."))
    forum.odd = {"/t/3.json": odd}
    assert "something else than a topic" in (await update(open_connector("discourse", forum.url()))).stale
    assert await find_paths(store) == name_paths(1, 2, 3, 4, 5)
    forum.odd = {}
    assert (await update(open_connector("discourse", forum.url()))).updated == 1


async def test_what_is_closed_or_gone_by_now_is_forgotten(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store
) -> None:
    await update(open_connector("discourse", forum.url()))
    for number in (1, 2, 3):
        forum.topics[number].bumped_at = "2026-02-02T00:00:00.000Z"
    forum.broken = {"/t/1.json": 403, "/t/2.json": 404, "/t/3.json": 410}
    await update(open_connector("discourse", forum.url()))
    assert await find_paths(store) == name_paths(4, 5)


async def test_a_wall_before_everything_closes_nothing(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store
) -> None:
    await update(open_connector("discourse", forum.url()))
    for topic in forum.topics.values():
        topic.bumped_at = "2026-02-02T00:00:00.000Z"
    forum.broken = {f"/t/{number}.json": 403 for number in forum.topics}
    report = await update(open_connector("discourse", forum.url()))
    assert "status 403" in report.stale
    assert await find_paths(store) == name_paths(1, 2, 3, 4, 5)


async def test_a_short_pause_is_waited_for(forum: DiscoursePeer, open_connector: OpenSource, update: Update) -> None:
    forum.limits = ["1", "1"]
    started_at = time.monotonic()
    report = await update(open_connector("discourse", forum.url()))
    assert (report.added, report.stale) == (5, "")
    assert time.monotonic() - started_at >= 1.9


async def test_a_long_pause_ends_the_refresh_and_is_kept(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update
) -> None:
    await update(open_connector("discourse", forum.url()))
    forum.limits = ["900"]
    for _ in range(2):
        report = await update(open_connector("discourse", forum.url()))
        assert "rate limit is reached until" in report.stale
        assert report.unchanged == 5
    forum.paths()
    await update(open_connector("discourse", forum.url()))
    assert forum.paths() == []


@pytest.mark.parametrize("request_count", [3, 4])
async def test_a_refresh_goes_on_where_the_last_one_ended(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store, request_count: int
) -> None:
    """The list fails, or the topics of its second part do."""
    forum.page_size = 2
    forum.broken_after = request_count
    assert "status 500" in (await update(open_connector("discourse", forum.url()))).stale
    first_paths = await find_paths(store)
    assert first_paths == name_paths(4, 5)
    forum.broken_after = 0
    forum.topics[6] = Topic("Question 6", [Entry("How does part 6 work?")])
    forum.paths()
    report = await update(open_connector("discourse", forum.url()))
    assert report.stale == ""
    assert await find_paths(store) == name_paths(1, 2, 3, 4, 5, 6)
    assert len([path for path in forum.paths() if path.startswith("/t/")]) == 6 - len(first_paths)


async def test_a_refresh_that_is_stopped_keeps_what_it_has_read(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_topic = Discourse.read
    is_waiting = asyncio.Event()

    async def read(service: Discourse, api: ConnectorApi, item: Item) -> Content:
        if item.path == "topics/2":
            is_waiting.set()
            await asyncio.Event().wait()
        return await read_topic(service, api, item)

    with monkeypatch.context() as patch:
        patch.setattr(Discourse, "read", read)
        refresh = asyncio.create_task(update(open_connector("discourse", forum.url())))
        await asyncio.wait_for(is_waiting.wait(), 30)
        refresh.cancel()
        await asyncio.wait({refresh})
        assert refresh.cancelled()
    forum.paths()
    assert (await update(open_connector("discourse", forum.url()))).added == 5
    assert [path for path in forum.paths() if path.startswith("/t/")] == ["/t/2.json", "/t/1.json"]


async def test_a_refresh_that_is_stopped_while_it_saves_ends_as_stopped(
    forum: DiscoursePeer, open_connector: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file = Path.replace
    is_saving = threading.Event()

    def replace_slowly(file: Path, target: Path) -> Path:
        if file.name == "items.json.new":
            is_second = is_saving.is_set()
            is_saving.set()
            # The first one is done first.
            time.sleep(0.4 if is_second else 0.2)
        return replace_file(file, target)

    monkeypatch.setattr(Path, "replace", replace_slowly)
    listing = asyncio.create_task(open_connector("discourse", forum.url()).listing())
    await asyncio.to_thread(is_saving.wait, 30)
    listing.cancel()
    await asyncio.wait({listing})
    assert listing.cancelled()


async def test_what_the_time_does_not_suffice_for_is_said(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    await update(open_connector("discourse", forum.url()))
    forum.topics[6] = Topic("Question 6", [Entry("How does part 6 work?")])
    with monkeypatch.context() as patch:
        patch.setattr(connector_source, "REFRESH_S", 0.0)
        assert "not everything is read yet" in (await update(open_connector("discourse", forum.url()))).stale
    assert (await update(open_connector("discourse", forum.url()))).added == 1


async def test_a_document_without_end_does_not_stop_those_behind_it(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(_service: Discourse, _api: ConnectorApi, item: Item) -> Content:
        if item.path == "topics/4":
            raise TimeUp
        return Content("Title", "", write_topic, ([Post("Text.", 0.0)],))

    monkeypatch.setattr(Discourse, "read", read)
    report = await update(open_connector("discourse", forum.url()))
    assert ("not everything is read yet" in report.stale, report.added) == (True, 1)
    report = await update(open_connector("discourse", forum.url()))
    assert (report.stale, report.added) == ("", 4)
    assert report.unreadable == {"topics/4": "it takes longer to read than a refresh has time"}


async def test_a_document_that_a_limit_stops_twice_is_read_later(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, tmp_path: Path
) -> None:
    """Others may use up the limit as well: that says nothing of the document."""
    await update(open_connector("discourse", forum.url()))
    forum.topics[3].posts.append(Entry("It works by part 9."))
    file = tmp_path / "own/docs/items.json"
    for _ in range(2):
        forum.limits = ["3600"]
        forum.limited_path = "/t/"
        assert "rate limit" in (await update(open_connector("discourse", forum.url()))).stale
        # An hour later.
        file.write_text(json.dumps({**json.loads(file.read_text()), "blocked_until": 0.0}))
    forum.limits = []
    report = await update(open_connector("discourse", forum.url()))
    assert (report.stale, report.updated) == ("", 1)


async def test_no_more_items_than_wanted_are_taken(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, store: Store
) -> None:
    forum.page_size = 2
    await update(open_connector("discourse", forum.url(), max_items=3))
    assert await find_paths(store) == name_paths(3, 4, 5)


async def test_a_damaged_record_is_made_anew(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, tmp_path: Path
) -> None:
    await update(open_connector("discourse", forum.url()))
    for damage in ("{", "[]", '{"items": 3}', '{"scope": "", "items": {"a": {}}}'):
        (tmp_path / "own/docs/items.json").write_text(damage)
        assert (await update(open_connector("discourse", forum.url()))).unchanged == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"categories": ["support"]}, "categories.0"),
        ({"topics": 3}, "topics: Extra inputs"),
        ({"max_items": 0}, "max_items"),
        ({"token": "abc-secret", "url": "http://forum.example.org"}, "token needs an https address"),
        ({"token": "abc-secret", "url": "http://localhost:x@forum.example.org"}, "token needs an https address"),
    ],
)
def test_wrong_options_are_named_without_their_values(options: dict[str, object], words: str) -> None:
    with pytest.raises(SourceError, match=words) as error_info:
        parse_options(DiscourseOptions, {"url": "http://127.0.0.1:1", **options})
    assert "abc-secret" not in str(error_info.value)


async def test_a_document_of_many_large_replies_loses_only_itself(
    forum: DiscoursePeer, open_connector: OpenSource, update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector_api, "MAX_DOCUMENT_BYTES", 2**20)
    # Each reply has 20 posts, and less than the limit.
    forum.topics[3] = Topic("Question 3", [Entry(f"Line {number}. {'word ' * 1500}") for number in range(200)])
    report = await update(open_connector("discourse", forum.url()))
    assert (report.added, report.stale) == (5, "")
    assert report.unreadable == {"topics/3": "it is larger than 1 MB"}
    forum.paths()
    await update(open_connector("discourse", forum.url()))
    assert "/t/3.json" not in forum.paths(), "it is not fetched each time"
