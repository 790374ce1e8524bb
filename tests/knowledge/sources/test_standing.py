"""Standing queries: stored for a while, found beside the live search, and none of it shown when its time is over."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bots.cli.check import check
from core.errors import SourceError
from core.settings import Settings, StandingSource
from core.settings.audience import Audiences
from core.settings.loader import load_settings
from core.types import Passage
from knowledge.ingestion.refresh import RefreshContext, refresh_sources
from knowledge.ingestion.sync import SyncOptions, SyncReport
from knowledge.live.retriever import DailyQuota
from knowledge.live.search import deduplicate
from knowledge.ports import Document, Listing, Store
from knowledge.retrieval.expiry_filter import ExpiryFilteringStore, SourceVersions
from knowledge.retrieval.library import KnowledgeLibrary
from knowledge.sources.factory import open_source
from knowledge.sources.standing import RECORD_FILE, StandingQueries, get_record_folder, load_record
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill
from tests.support.peers.web import Hit, Page, WebPeer

pytestmark = pytest.mark.usefixtures("time_lapse")

RELEASE = {"title": "Rocket 2", "url": "https://rocket.example.org/2", "text": "Rocket 2 is the latest release."}
HOURS = {"title": "Office", "url": "https://rocket.example.org/office", "text": "The office opens at nine."}
LATEST = "latest rocket release"
OPEN = "office opening hours"
HOUR = 3600.0


@dataclass
class World:
    """A search service, a deployment that asks it, and a clock that goes when it is told to."""

    web: WebPeer
    store: Store
    embedder: WordEmbedder
    data: Path
    now: float = field(default_factory=time.time)
    live: dict[str, Any] = field(default_factory=dict)
    standing_settings: dict[str, Any] = field(default_factory=dict)
    extra_settings: dict[str, Any] = field(default_factory=dict)

    def finds(self, **results: list[Mapping[str, str]]) -> None:
        """Let the service answer the first query with `latest`, the second with `hours`, all others with `else`."""
        self.answers(LATEST, results.get("latest", []))
        self.answers(OPEN, results.get("hours", []))
        self.web.pages["/find"] = _page(results.get("others", []))

    def answers(self, query: str, results: list[Mapping[str, str]]) -> None:
        self.web.pages["/find?q=" + query.replace(" ", "+")] = _page(results)

    def settings(self) -> Settings:
        web = {
            "kind": "http_api",
            "url": self.web.url("/find"),
            "params": {"q": "{query}"},
            "date": "age",
            "cache_s": 0,
        }
        private = {"allow_private": ["127.0.0.1"]}
        standing_source = {"kind": "standing", "of": "web", "queries": [LATEST, OPEN], **self.standing_settings}
        sources = {"web": {**web, **private, **self.live}, "common": standing_source}
        agents = {"online": {"sources": ["common", "web"]}}
        return Settings.model_validate(
            {"data_dir": self.data, "sources": sources, "agents": agents, **self.extra_settings}
        )

    def source(self) -> StandingQueries:
        settings = self.settings().sources
        common = settings["common"]
        assert isinstance(common, StandingSource)
        return StandingQueries("common", common, settings["web"], self.data, lambda: self.now)

    async def refresh(self) -> SyncReport:
        return await read_and_fill(self.source(), self.store, self.embedder, SyncOptions(200))

    async def library(self) -> KnowledgeLibrary:
        library = KnowledgeLibrary(self.settings(), self.store, self.embedder)
        await library.load()
        return library

    def open_filter(self) -> ExpiryFilteringStore:
        return ExpiryFilteringStore(self.store, self.settings().sources, self.data, Audiences(), lambda: self.now)

    async def texts(self) -> list[str]:
        """Return what of the standing queries questions can find."""
        passages = await self.open_filter().search("rocket office", None, ["common"], 50)
        return sorted(passage.text for passage in passages)

    def age(self, hours: float) -> None:
        """Make everything on record older, as if nothing had been asked since."""
        file = get_record_folder(self.data, "common") / RECORD_FILE
        record = json.loads(file.read_text("utf-8"))
        for result in record["results"].values():
            result["found_at"] -= hours * HOUR
        file.unlink()
        file.write_text(json.dumps(record), "utf-8")


def _page(results: list[Mapping[str, str]]) -> Page:
    return Page(json.dumps({"results": results}), headers={"Content-Type": "application/json"})


@pytest.fixture
async def world(tmp_path: Path, store: Store, embedder: WordEmbedder) -> AsyncIterator[World]:
    async with WebPeer() as web:
        world = World(web, store, embedder, tmp_path / "data")
        world.finds(latest=[RELEASE], hours=[HOURS])
        yield world


async def test_results_are_no_page_that_is_read_without_their_times(world: World) -> None:
    await world.refresh()
    path = next(iter(await world.open_filter().manifest("common")))
    assert await world.open_filter().read_page("common", path) == ()


async def documents(source: StandingQueries, listing: Listing) -> list[Document]:
    return [document async for document in source.documents(listing, listing.fingerprints)]


async def test_results_are_stored_with_address_title_and_time(world: World) -> None:
    report = await world.refresh()
    assert (report.added, report.passages, report.stale) == (2, 2, "")
    passages = await world.open_filter().search("rocket", None, ["common"], 10)
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(world.now))
    (release,) = (passage for passage in passages if passage.url == RELEASE["url"])
    assert (release.title, release.source, release.kind) == ("Rocket 2", "common", "web")
    assert release.text == f"{RELEASE['text']}\n(found {when})"


async def test_a_result_that_comes_again_is_not_embedded_again(world: World) -> None:
    world.finds(latest=[RELEASE | {"age": "2 hours ago"}], hours=[HOURS, RELEASE | {"age": "2 hours ago"}])
    await world.refresh()
    embedded = len(world.embedder.embedded)
    assert embedded == 2, "the same result of two queries is one document"
    world.now += 3 * HOUR
    world.finds(latest=[RELEASE | {"age": "5 hours ago"}], hours=[HOURS])
    report = await world.refresh()
    assert (report.unchanged, report.added, report.updated, report.deleted) == (2, 0, 0, 0)
    assert len(world.embedder.embedded) == embedded
    found_times = [result.found_at for result in load_record(get_record_folder(world.data, "common")).results.values()]
    assert found_times == [world.now] * 2
    (release,) = (text for text in await world.texts() if "Rocket" in text)
    assert "(dated 5 hours ago)\n(found " in release
    assert "2 hours" not in release


async def test_what_a_page_says_now_replaces_what_it_said(world: World) -> None:
    await world.refresh()
    world.finds(latest=[RELEASE | {"text": "Rocket 3 is the latest release."}], hours=[HOURS])
    report = await world.refresh()
    assert (report.added, report.deleted, report.unchanged) == (1, 1, 1)
    assert not any("Rocket 2 is" in text for text in await world.texts())
    assert any("Rocket 3 is" in text for text in await world.texts())


async def test_what_a_page_said_is_shown_until_what_it_says_now_is_written(world: World) -> None:
    await world.refresh()
    world.finds(latest=[RELEASE | {"text": "Rocket 3 is the latest release."}], hours=[HOURS])
    listing = await world.source().listing()
    assert any("Rocket 2 is" in text for text in await world.texts())
    assert not any("Rocket 2 is" in document.text for document in await documents(world.source(), listing))


async def test_pieces_of_one_document_do_not_replace_each_other(world: World) -> None:
    pieces = [RELEASE | {"text": f"Rocket piece {number}."} for number in range(3)]
    world.finds(latest=pieces[:2])
    await world.refresh()
    world.finds(latest=pieces[1:])
    await world.refresh()
    assert len(await world.texts()) == 3


async def test_a_result_not_seen_again_goes_when_its_time_is_over(world: World) -> None:
    world.standing_settings = {"keep_hours": 10}
    await world.refresh()
    world.finds(hours=[HOURS])
    world.now += 9 * HOUR
    assert (await world.refresh()).deleted == 0
    assert len(await world.texts()) == 2
    world.now += 2 * HOUR
    assert (await world.refresh()).deleted == 1
    assert len(await world.store.manifest("common")) == 1
    assert len(await world.texts()) == 1


async def test_a_query_taken_away_takes_its_results_along(world: World) -> None:
    await world.refresh()
    world.standing_settings = {"queries": [OPEN]}
    report = await world.refresh()
    assert (report.deleted, report.unchanged) == (1, 1)


@pytest.mark.parametrize("failure_mode", ["drop", "html", "endless"])
async def test_a_failing_service_keeps_results_until_they_expire(world: World, failure_mode: str) -> None:
    world.standing_settings = {"keep_hours": 10}
    await world.refresh()
    world.web.failure_mode = failure_mode
    world.now += 9 * HOUR
    report = await world.refresh()
    assert "2 of 2 queries failed: source web" in report.stale
    assert len(await world.texts()) == 2
    world.now += 2 * HOUR
    report = await world.refresh()
    assert report.stale
    assert report.deleted == 2
    assert await world.store.manifest("common") == {}


async def test_one_failing_query_leaves_the_others_alone(world: World) -> None:
    del world.web.pages["/find?q=" + LATEST.replace(" ", "+")]
    del world.web.pages["/find"]
    report = await world.refresh()
    assert "1 of 2 queries failed" in report.stale
    assert "status 404" in report.stale
    assert report.added == 1


async def test_a_slow_query_is_given_up(world: World) -> None:
    await world.refresh()
    world.web.failure_mode = "slow"
    world.standing_settings = {"timeout_s": 0.2}
    started_at = time.monotonic()
    assert "did not answer within 0.2 s" in (await world.refresh()).stale
    assert time.monotonic() - started_at < 15


async def test_a_dead_service_is_not_asked_all_queries(world: World) -> None:
    world.standing_settings = {"queries": [f"query {number}" for number in range(50)]}
    world.web.failure_mode = "html"
    with pytest.raises(SourceError, match="source common: 50 of 50 queries failed"):
        await world.refresh()
    assert len(world.web.requests) == 4


async def test_nothing_found_at_first_is_said(world: World) -> None:
    world.finds()
    with pytest.raises(SourceError, match=r"source common: .*127.0.0.1.* found nothing for 2 queries"):
        await world.refresh()


async def test_what_has_expired_is_not_shown_when_no_refresh_comes(world: World) -> None:
    world.standing_settings = {"keep_hours": 10}
    await world.refresh()
    world.now += 9.9 * HOUR
    assert len(await world.texts()) == 2
    world.now += 0.2 * HOUR
    assert await world.texts() == []
    assert len(await world.store.manifest("common")) == 2, "still in the store: nothing has refreshed"
    assert await world.open_filter().manifest("common") == {}


async def test_the_library_never_shows_what_has_expired(world: World) -> None:
    world.live = {"ask": "when_needed", "enough": 0}
    await world.refresh()
    library = await world.library()
    assert len(await library.search("online", LATEST, 10)) == 2
    world.age(49)
    world.web.failure_mode = "drop"
    assert await library.search("online", LATEST, 10) == []
    (get_record_folder(world.data, "common") / RECORD_FILE).write_text("{broken", "utf-8")
    assert await library.search("online", LATEST, 10) == []
    await library.close()


async def test_an_answer_made_from_it_is_not_given_again_either(world: World) -> None:
    await world.refresh()
    versions_before = await SourceVersions(world.open_filter()).get_versions(["common"], 0)
    assert await SourceVersions(world.open_filter()).get_versions(["common"], 0) == versions_before
    world.now += 49 * HOUR
    assert await SourceVersions(world.open_filter()).get_versions(["common"], 0) == {"common": ""} != versions_before


async def test_expired_passages_take_no_place_from_other_sources(world: World) -> None:
    await world.refresh()
    docs = DictSource("docs", {"shed.md": "The rocket shed is behind the house, where all the tools are."})
    await read_and_fill(docs, world.store, world.embedder, SyncOptions(200))
    names = ["common", "docs"]
    assert [result.source for result in await world.open_filter().search("rocket", None, names, 1)] == ["common"]
    world.now += 49 * HOUR
    assert [result.source for result in await world.open_filter().search("rocket", None, names, 1)] == ["docs"]


async def test_live_and_stored_results_come_together_and_each_page_once(world: World) -> None:
    await world.refresh()
    twin = RELEASE | {"url": "https://ROCKET.example.org/2/#news", "text": "Rocket 2 was released."}
    other = {"title": "Rocket club", "url": "https://club.example.org", "text": "Meet other rocket builders."}
    world.finds(others=[twin, other])
    request_count = len(world.web.requests)
    library = await world.library()
    passages = await library.search("online", "which is the latest rocket release?", 10)
    await library.close()
    assert len(world.web.requests) == request_count + 1
    assert {passage.source for passage in passages} == {"common", "web"}
    assert sorted(passage.title for passage in passages) == ["Office", "Rocket 2", "Rocket club"]


def test_of_two_sides_the_more_similar_one_stays_whole() -> None:
    def make_passage(name: str, source: str, url: str, similarity: float) -> Passage:
        return Passage(name, source, name, "Title", "text", url, similarity=similarity)

    stored_passages = [
        make_passage("a", "common", "https://x.org/a", 0.5),
        make_passage("b", "common", "https://x.org/a", 0.3),
    ]
    live_passages = [make_passage("c", "web", "https://x.org/a", 0.4), make_passage("d", "web", "https://x.org/d", 0.1)]
    site = make_passage("e", "site", "https://x.org/a", 0.2)
    passages = deduplicate([*stored_passages, site], live_passages, {"common": "web"})
    assert {passage.id for passage in passages} == {"a", "b", "d", "e"}
    nearer = [make_passage("c", "web", "https://x.org/a", 0.6)]
    assert {passage.id for passage in deduplicate(stored_passages, nearer, {"common": "web"})} == {"c"}
    assert len(deduplicate(stored_passages, nearer, {})) == 3
    odd_passages = [make_passage("f", "common", "http://[x", 0.1), make_passage("g", "web", "http://[x", 0.2)]
    assert [passage.id for passage in deduplicate(odd_passages[:1], odd_passages[1:], {"common": "web"})] == ["g"]


async def test_stored_results_answer_when_the_live_search_is_too_slow(world: World) -> None:
    await world.refresh()
    world.extra_settings = {"budget": {"deadline_s": 16}}  # 4 s for a search, 3.2 s of it for what is live
    world.web.failure_mode = "slow"
    library = await world.library()
    started_at = time.monotonic()
    async with asyncio.timeout(4):
        passages = await library.search("online", LATEST, 10)
    assert time.monotonic() - started_at > 3
    assert {passage.source for passage in passages} == {"common"}
    await library.close()


async def test_common_questions_cost_no_online_search(world: World) -> None:
    world.live = {"ask": "when_needed", "enough": 0.75}
    await world.refresh()
    world.finds(others=[HOURS])
    library = await world.library()
    request_count = len(world.web.requests)
    for question in ("rocket 2 latest release", "the office opens at nine"):
        assert await library.search("online", question, 5)
    assert len(world.web.requests) == request_count
    assert await library.search("online", "who builds rockets on the moon?", 5)
    assert len(world.web.requests) == request_count + 1
    await library.close()
    world.live = {"ask": "always"}
    library = await world.library()
    await library.search("online", "rocket 2 latest release", 5)
    assert len(world.web.requests) == request_count + 2
    await library.close()


async def test_what_has_expired_keeps_no_live_search_from_being_made(world: World) -> None:
    world.live = {"ask": "when_needed", "enough": 0.75}
    await world.refresh()
    world.age(49)
    request_count = len(world.web.requests)
    library = await world.library()
    await library.search("online", "rocket 2 latest release", 5)
    await library.close()
    assert len(world.web.requests) == request_count + 1


async def test_requests_of_a_day_are_limited_over_restarts(world: World) -> None:
    world.live = {"requests_per_day": 3}
    await world.refresh()
    library = await world.library()
    assert await library.search("online", "one more", 5)
    await library.close()
    request_count = len(world.web.requests)
    assert request_count == 3
    library = await world.library()
    passages = await library.search("online", "and another", 5)
    await library.close()
    assert {passage.source for passage in passages} == {"common"}
    report = await world.refresh()
    assert "requests_per_day (3) are used up until midnight" in report.stale
    assert len(world.web.requests) == request_count


async def test_no_query_is_always_the_one_that_a_limit_cuts_off(world: World) -> None:
    days = iter(range(1, 100))
    world.standing_settings = {"queries": [f"query {number}" for number in range(6)]}
    world.live = {"requests_per_day": 4}
    world.finds(others=[RELEASE])
    question = []
    for _ in range(2):
        await world.refresh()
        question.append({request.query["q"] for request in world.web.requests})
        world.web.requests.clear()
        world.now += 24 * HOUR
        (world.data / "live" / "web.json").write_text(f"2020-01-0{next(days)} 00000004")
    assert len(question[0]) == len(question[1]) == 4
    assert question[0] | question[1] == set(world.standing_settings["queries"])


async def test_requests_are_counted_exactly_by_many_at_once(tmp_path: Path) -> None:
    today = date(2026, 11, 20)
    counts = [DailyQuota("web", tmp_path / "live" / "web.json", 10, lambda: today) for _ in range(4)]
    outcomes = await asyncio.gather(*(counts[turn % 4].reserve(1) for turn in range(24)), return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 10
    with pytest.raises(SourceError, match="source web: its requests_per_day"):
        await counts[0].reserve(1)
    today = date(2026, 11, 21)
    with pytest.raises(SourceError):
        await counts[0].reserve(11)
    await counts[0].reserve(10)
    (tmp_path / "live" / "web.json").write_bytes(b"\xffgarbage")
    await counts[0].reserve(10)
    (tmp_path / "blocked").write_text("")
    with pytest.raises(SourceError, match="cannot be counted"):
        await DailyQuota("web", tmp_path / "blocked" / "web.json", 1).reserve(1)


async def test_queries_come_from_a_file_too(world: World, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text(f"# what people ask\n\n{OPEN}\n  {LATEST}  \n", "utf-8")
    world.standing_settings = {"queries": [LATEST], "queries_file": str(file)}
    await world.refresh()
    assert sorted(request.query["q"] for request in world.web.requests) == [LATEST, OPEN]
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match=r"source common: .*queries.txt cannot be read: it is no UTF-8 text"):
        await world.refresh()
    file.write_text("\n".join(map(str, range(1001))))
    with pytest.raises(SourceError, match="1002 queries; there may be 1 to 1000"):
        await world.refresh()


async def test_a_refresh_of_all_sources_reaches_them(world: World) -> None:
    settings = world.settings()
    work = RefreshContext(settings.sources, world.store, world.embedder, world.data, 200)
    refresh_result = await refresh_sources(work)
    assert [report.name for report in refresh_result.reports] == ["common"]
    assert refresh_result.reports[0].added == 2
    findings = {finding.subject: finding for finding in await check(settings, live=False)}
    assert findings["sources.common"].text == "2 queries: asked of web by a refresh"
    assert findings["sources.common"].level == "ok"


def test_what_they_ask_has_to_be_there(world: World) -> None:
    with pytest.raises(ValidationError, match=r"sources.common.of: no live source is named 'net' \(known: web\)"):
        World(world.web, world.store, world.embedder, world.data, standing_settings={"of": "net"}).settings()
    with pytest.raises(ValidationError, match="give queries or queries_file"):
        World(world.web, world.store, world.embedder, world.data, standing_settings={"queries": []}).settings()
    settings = world.settings()
    with pytest.raises(SourceError, match="web is no source that is asked at question time"):
        open_source("common", settings.sources["common"], world.data)


def test_without_agents_they_belong_to_what_they_ask(world: World) -> None:
    world.extra_settings = {"agents": {}}
    agents = world.settings().retrieval_agents()
    assert {name: set(agent.sources) for name, agent in agents.items()} == {"web": {"web", "common"}}


async def test_a_live_source_is_asked_until_its_standing_queries_are_stored(world: World) -> None:
    await read_and_fill(
        DictSource("docs", {"a.md": "The shed is behind the house."}), world.store, world.embedder, SyncOptions(200)
    )
    docs = {"kind": "files", "path": "/nowhere"}
    settings = world.settings().model_dump()
    settings |= {"sources": {**settings["sources"], "docs": docs}, "agents": {}}
    library = KnowledgeLibrary(Settings.model_validate(settings), world.store, world.embedder)
    await library.load()
    for query, names in (("where is the shed?", {"docs", "web"}), ("完全未知", {"web"})):
        assert {agent.name for agent in await library.route(query)} == names
    await library.close()


async def test_a_record_that_cannot_be_written_is_said(world: World) -> None:
    world.data.mkdir()
    (world.data / "standing").write_text("")
    with pytest.raises(SourceError, match="cannot be written"):
        await world.refresh()


async def test_the_example_of_the_guide_does_what_it_says(tmp_path: Path, store: Store, embedder: WordEmbedder) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "sources.md").read_text("utf-8")
    example = guide.split("## Standing queries")[1].split("```yaml\n")[1].split("```")[0]
    hit = Hit("Handbook 4", "https://handbook.example.org/4", "Handbook 4 is the latest release of the handbook.")
    async with WebPeer() as web:
        web.hits = [hit]
        example = example.replace("searxng.internal:8080", f"127.0.0.1:{web.port}/searxng")
        file = tmp_path / "kimas.yaml"
        file.write_text(example.replace("searxng.internal", "127.0.0.1"), "utf-8")
        settings = load_settings([file], [f"data_dir={tmp_path / 'data'}"], {})
        work = RefreshContext(settings.sources, store, embedder, settings.data_dir, 200)
        refresh_result = await refresh_sources(work)
        assert refresh_result.failures == {}
        # They are asked at the same time: which comes first is up to the network.
        assert {request.query["q"] for request in web.requests} == {
            "latest release of the handbook",
            "opening hours of the office",
        }
        assert len(web.requests) == 2
        library = KnowledgeLibrary(settings, store, embedder)
        await library.load()
        (answer,) = await library.search("online", "latest release of the handbook", 5)
        await library.search("online", "who wrote all this?", 5)
        await library.close()
        assert (answer.source, answer.url) == ("common", hit.url)
        assert [request.query["q"] for request in web.requests[2:]] == ["who wrote all this?"]
