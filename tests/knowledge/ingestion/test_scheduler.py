"""The keeper at work: real sources, a real store, the scheduler's own clock."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreError, UsageError
from core.observability.logs import configure_logs
from core.ports import SourceRefresher
from core.runtime.locks import source_lock
from core.settings import LogSettings, Settings
from core.settings.audience import Audiences
from core.storage.engine import Database
from core.storage.refresh_state import RefreshStateRepository
from core.types import SourceState
from knowledge.ingestion.refresh import RefreshContext, refresh_source
from knowledge.ingestion.schedule import UNFILLED
from knowledge.ingestion.scheduler import FETCH_CONCURRENCY, RefreshScheduler
from knowledge.ingestion.sync import SyncOptions, refresh
from knowledge.ports import Store
from knowledge.retrieval.library import KnowledgeLibrary
from knowledge.sources.factory import open_source
from knowledge.sources.git.state import CloneState, write_state
from tests.support.deployment import logging_as_it_was
from tests.support.feeds import rss
from tests.support.knowledge import GatedParser, WordEmbedder
from tests.support.peers.web import WebPeer
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

SOON_S = 60


@dataclass
class KnowledgeFolder:
    """A deployment's knowledge; `keeper()` starts what keeps it, as a daemon would."""

    folder: Path
    store: Store
    embedder: WordEmbedder
    record: RefreshStateRepository
    notifications: list[list[str]] = field(default_factory=list)
    parser: GatedParser = field(default_factory=GatedParser)

    def settings(self, sources: Mapping[str, Any], **extra_fields: object) -> Settings:
        return Settings.model_validate({"data_dir": self.folder, "sources": sources, **extra_fields})

    def work(self, settings: Settings) -> RefreshContext:
        context = RefreshContext(settings.sources, self.store, self.embedder, self.folder, 200, self.record)
        return replace(context, parser=self.parser, audiences=Audiences.from_settings(settings))

    def files(self, name: str, **texts: str) -> dict[str, Any]:
        (self.folder / name).mkdir(exist_ok=True)
        for file, text in texts.items():
            (self.folder / name / f"{file}.md").write_text(text, "utf-8")
        return {"kind": "files", "path": self.folder / name}

    @asynccontextmanager
    async def run_scheduler(self, settings: Settings, **pace: timedelta) -> AsyncIterator[RefreshScheduler]:
        library = KnowledgeLibrary(settings, self.store, self.embedder)
        await library.load()

        async def on_changed(names: Collection[str]) -> None:
            await library.reload(names)
            self.notifications.append(sorted(names))

        scheduler = RefreshScheduler(settings, self.work(settings), self.record, on_changed, **pace)
        async with scheduler.run():
            yield scheduler

    async def tries(self, name: str) -> int:
        entry = await self.record.get_state(name)
        return 0 if entry.last_try is None else round(entry.last_try.timestamp() * 1e6)


@pytest.fixture
async def knowledge_folder(tmp_path: Path, store: Store, embedder: WordEmbedder) -> AsyncIterator[KnowledgeFolder]:
    database = await Database.open(tmp_path / "journal.db")
    yield KnowledgeFolder(tmp_path, store, embedder, RefreshStateRepository(database))
    await database.close()


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        peer.pages["/feed"] = rss(("one", "Rocket 1 is out.", 1))
        yield peer


def feed(web: WebPeer, **extra_fields: object) -> dict[str, Any]:
    return {"kind": "feed", "url": web.url("/feed"), "allow_private": ["127.0.0.1"], "timeout_s": 30, **extra_fields}


async def get_state(scheduler: SourceRefresher, name: str) -> SourceState:
    return next(state for state in await scheduler.states() if state.name == name)


async def until_state(scheduler: SourceRefresher, name: str, holds: Callable[[SourceState], object]) -> SourceState:
    async with asyncio.timeout(SOON_S):
        while not holds(state := await get_state(scheduler, name)):
            await asyncio.sleep(0.02)
    return state


def is_filled(state: SourceState) -> bool:
    return bool(state.last_success) and not state.unfilled


async def test_a_new_source_is_read_at_once_and_a_restart_does_not_read_it_again(
    knowledge_folder: KnowledgeFolder,
) -> None:
    settings = knowledge_folder.settings({"fruit": knowledge_folder.files("fruit", a="apple", b="banana")})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        state = await until_state(scheduler, "fruit", lambda state: state.last_success)
        assert (state.documents, state.passages, state.error) == (2, 2, "")
        assert state.last_success
        assert state.next_run
        assert timedelta(minutes=59) < state.next_run - state.last_success < timedelta(minutes=67)
        await until(lambda: knowledge_folder.notifications)
        assert all(names == ["fruit"] for names in knowledge_folder.notifications)
    tries_before = await knowledge_folder.tries("fruit")
    async with knowledge_folder.run_scheduler(settings):
        await asyncio.sleep(0.3)
    assert await knowledge_folder.tries("fruit") == tries_before


async def test_changed_settings_and_lost_passages_make_a_source_due(knowledge_folder: KnowledgeFolder) -> None:
    fruit = knowledge_folder.files("fruit", a="apple", b="banana")
    async with knowledge_folder.run_scheduler(knowledge_folder.settings({"fruit": fruit})) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.documents == 2)
    async with knowledge_folder.run_scheduler(
        knowledge_folder.settings({"fruit": fruit | {"exclude": ["b.md"]}})
    ) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.documents == 1)
    await knowledge_folder.store.replace("fruit", ["a.md"], [])
    async with knowledge_folder.run_scheduler(knowledge_folder.settings({"fruit": fruit | {"exclude": ["b.md"]}})):
        async with asyncio.timeout(SOON_S):
            while not await knowledge_folder.store.manifest("fruit"):
                await asyncio.sleep(0.02)
        assert set(await knowledge_folder.store.manifest("fruit")) == {"a.md"}


async def test_a_store_that_was_emptied_is_filled_again_while_the_daemon_runs(
    knowledge_folder: KnowledgeFolder,
) -> None:
    fruit = knowledge_folder.files("fruit", a="apple")
    async with knowledge_folder.run_scheduler(knowledge_folder.settings({"fruit": fruit})) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.last_success)
        await knowledge_folder.store.replace("fruit", ["a.md"], [])
        async with asyncio.timeout(SOON_S):
            while not await knowledge_folder.store.filled(["fruit"]):
                await asyncio.sleep(0.02)
        await until_state(scheduler, "fruit", lambda state: state.documents)


async def test_what_another_process_puts_into_the_store_is_announced_soon(knowledge_folder: KnowledgeFolder) -> None:
    """It has not finished: its record says nothing yet."""
    fruit = knowledge_folder.files("fruit", a="apple")
    settings = knowledge_folder.settings({"fruit": fruit})
    await knowledge_folder.record.set_paused("fruit", True)
    slow = timedelta(hours=1)
    async with knowledge_folder.run_scheduler(settings, poll_interval=slow, retry_delay=slow):
        await asyncio.sleep(5)
        assert knowledge_folder.notifications == []
        source = open_source("fruit", settings.sources["fruit"], knowledge_folder.folder)
        await refresh(source, knowledge_folder.store, SyncOptions(200))
        await until(lambda: knowledge_folder.notifications == [["fruit"]])


async def test_a_store_that_cannot_be_read_is_a_problem_until_it_can(
    knowledge_folder: KnowledgeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = knowledge_folder.settings({"fruit": knowledge_folder.files("fruit", a="apple")})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.last_success)
        assert scheduler.store_problem == ""
        with monkeypatch.context() as patch:
            patch.setattr(type(knowledge_folder.store), "filled", _refuse)
            await until(lambda: scheduler.store_problem == "the server is away")
        await until(lambda: scheduler.store_problem == "")


async def _refuse(*_: object) -> set[str]:
    raise StoreError("the server is away")


async def test_a_start_forgets_the_sources_that_were_removed(knowledge_folder: KnowledgeFolder) -> None:
    fruit = knowledge_folder.files("fruit", a="apple")
    trees = knowledge_folder.files("trees", a="oak", b="elm")
    async with knowledge_folder.run_scheduler(knowledge_folder.settings({"fruit": fruit, "trees": trees})) as scheduler:
        for name in ("fruit", "trees"):
            await until_state(scheduler, name, lambda state: state.last_success)
    clone = knowledge_folder.folder / "git" / "trees-0"
    clone.mkdir(parents=True)
    write_state(clone, CloneState("https://example.org/trees", followers={"trees": ["main"]}))
    web = {"kind": "http_api", "url": "https://example.org/", "results": "@", "title": "a", "text": "b", "link": "c"}
    async with (
        knowledge_folder.run_scheduler(knowledge_folder.settings({"fruit": fruit, "trees": web})),
        asyncio.timeout(SOON_S),
    ):
        while "trees" in await knowledge_folder.record.get_states():
            await asyncio.sleep(0.02)
        await until(lambda: ["trees"] in knowledge_folder.notifications)
    assert await knowledge_folder.store.manifest("trees") == {}
    assert len(await knowledge_folder.store.manifest("fruit")) == 1
    assert not clone.exists()


async def test_by_interval_one_run_at_a_time(knowledge_folder: KnowledgeFolder, web: WebPeer) -> None:
    settings = knowledge_folder.settings({"news": feed(web, refresh={"minutes": 0.1 / 60, "jitter": 0})})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until(lambda: len(web.requests) >= 4)
        web.failure_mode = "slow"
        await until_state(scheduler, "news", lambda state: state.running)
        request_count = len(web.requests)
        await asyncio.sleep(0.5)
        assert len(web.requests) <= request_count + 1


async def test_asked_for_during_a_run_means_one_more_and_no_third(
    knowledge_folder: KnowledgeFolder, web: WebPeer
) -> None:
    settings = knowledge_folder.settings({"news": feed(web)})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until_state(scheduler, "news", lambda state: state.last_success and not state.running)
        assert len(web.requests) == 1
        knowledge_folder.parser.gate.clear()
        web.pages["/feed"] = rss(("two", "Rocket 2 is out.", 0))
        await scheduler.refresh(["news"])
        await until(lambda: len(web.requests) == 2)
        await until_state(scheduler, "news", lambda state: state.running)
        for _ in range(5):
            await scheduler.refresh(["news"])
        web.pages["/feed"] = rss(("three", "Rocket 3 is out.", 0))
        knowledge_folder.parser.gate.set()
        await until(lambda: len(web.requests) == 3)
        await until_state(scheduler, "news", lambda state: not state.running and state.documents == 3)
        await asyncio.sleep(0.3)
    assert len(web.requests) == 3


async def test_pause_survives_a_restart_and_resume_makes_up_once(
    knowledge_folder: KnowledgeFolder, web: WebPeer
) -> None:
    settings = knowledge_folder.settings({"news": feed(web, refresh={"minutes": 0.2 / 60, "jitter": 0})})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until_state(scheduler, "news", lambda state: state.last_success)
        await scheduler.pause("news")
        await until_state(
            scheduler,
            "news",
            lambda state: state.paused and not state.running and state.next_run is None,
        )
    paused_at = len(web.requests)
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await asyncio.sleep(0.6)
        assert len(web.requests) == paused_at
        assert (await get_state(scheduler, "news")).paused
        await scheduler.refresh(["news"])
        await until(lambda: len(web.requests) == paused_at + 1)
        await asyncio.sleep(0.4)
        assert len(web.requests) == paused_at + 1
        await scheduler.resume("news")
        await until(lambda: len(web.requests) > paused_at + 2)
    # A chat may read it, whatever it may see: a command may come while sources are replaced.
    with pytest.raises(UsageError, match=r"'nothing'$"):
        await scheduler.pause("nothing")
    with pytest.raises(UsageError, match=r"'nothing'$"):
        await scheduler.refresh(["news", "nothing"])


async def test_slow_servers_hold_nobody_up(knowledge_folder: KnowledgeFolder, web: WebPeer) -> None:
    web.failure_mode = "slow"
    slow_feeds = {f"slow-{number}": feed(web) for number in range(5)}
    settings = knowledge_folder.settings({**slow_feeds, "fruit": knowledge_folder.files("fruit", a="apple")})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until(lambda: len(web.requests) >= 5)
        await until_state(scheduler, "fruit", lambda state: state.last_success)
        states = {state.name: state for state in await scheduler.states()}
        assert all(states[name].running for name in slow_feeds)


async def test_who_waits_for_its_turn_is_looked_at_again_when_it_comes(
    knowledge_folder: KnowledgeFolder, web: WebPeer
) -> None:
    web.failure_mode = "slow"
    slow_feeds = {f"slow-{number}": feed(web, timeout_s=5) for number in range(FETCH_CONCURRENCY)}
    sources = {
        **slow_feeds,
        "fruit": knowledge_folder.files("fruit", a="apple"),
        "trees": knowledge_folder.files("trees", a="oak"),
    }
    settings = knowledge_folder.settings(sources)
    for name in ("fruit", "trees"):
        await refresh_source(knowledge_folder.work(settings), name)
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until(lambda: len(web.requests) >= FETCH_CONCURRENCY)
        await knowledge_folder.record.mark_invalidated(["fruit"])
        await scheduler.resume("fruit")
        await scheduler.refresh(["trees"])
        await asyncio.sleep(0.2)
        await scheduler.pause("fruit")
        await refresh_source(knowledge_folder.work(settings), "trees")
        result = [await knowledge_folder.tries(name) for name in ("fruit", "trees")]
        for name in slow_feeds:
            await until_state(scheduler, name, lambda state: state.error)
        await asyncio.sleep(0.2)
    assert [await knowledge_folder.tries(name) for name in ("fruit", "trees")] == result, (
        "paused, and refreshed, meanwhile"
    )


async def test_documents_that_lack_passages_are_read_again_at_the_start(knowledge_folder: KnowledgeFolder) -> None:
    settings = knowledge_folder.settings({"fruit": knowledge_folder.files("fruit", a="apple", b="banana")})
    await refresh_source(knowledge_folder.work(settings), "fruit")
    # As a server counts a document that has lost all of its passages.
    await knowledge_folder.store.replace("fruit", ["a.md"], [], {"a.md": ""})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        state = await until_state(scheduler, "fruit", lambda state: state.repaired)
    assert (state.repaired, state.documents) == (1, 2)
    manifest = await knowledge_folder.store.manifest("fruit")
    assert [document.passage_count for document in manifest.values()] == [1, 1]


async def test_a_failing_source_keeps_its_knowledge_and_is_tried_again_sooner(
    knowledge_folder: KnowledgeFolder, web: WebPeer
) -> None:
    settings = knowledge_folder.settings({"news": feed(web), "fruit": knowledge_folder.files("fruit", a="apple")})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        good_state = await until_state(scheduler, "news", lambda state: state.last_success)
        web.status = 500
        await scheduler.refresh()
        failed_state = await until_state(scheduler, "news", lambda state: state.error)
        assert "500" in failed_state.error
        assert (failed_state.last_success, failed_state.documents) == (good_state.last_success, 1)
        assert failed_state.next_run
        assert failed_state.last_try
        assert failed_state.next_run - failed_state.last_try < timedelta(minutes=2)
        assert (await get_state(scheduler, "fruit")).error == ""
        assert await knowledge_folder.store.manifest("news")
        web.status = 0
        await scheduler.refresh(["news"])
        healed = await until_state(scheduler, "news", lambda state: not state.error)
        assert healed.last_success
        assert healed.last_success > good_state.last_success  # type: ignore[operator]


async def test_what_another_process_did_is_seen_and_its_lock_respected(knowledge_folder: KnowledgeFolder) -> None:
    settings = knowledge_folder.settings({"fruit": knowledge_folder.files("fruit", a="apple")})
    often = timedelta(seconds=0.05)
    async with knowledge_folder.run_scheduler(settings, poll_interval=often, retry_delay=often) as scheduler:
        await until_state(scheduler, "fruit", is_filled)
        await until(lambda: knowledge_folder.notifications)
        knowledge_folder.files("fruit", b="banana")
        notification_count = len(knowledge_folder.notifications)
        await refresh_source(knowledge_folder.work(settings), "fruit")
        await until(lambda: len(knowledge_folder.notifications) > notification_count)
        await until_state(scheduler, "fruit", is_filled)
        async with source_lock(knowledge_folder.folder, "fruit"):
            tries_before = await knowledge_folder.tries("fruit")
            await scheduler.refresh(["fruit"])
            await asyncio.sleep(0.3)
            assert await knowledge_folder.tries("fruit") == tries_before
        async with asyncio.timeout(SOON_S):
            while await knowledge_folder.tries("fruit") == tries_before:
                await asyncio.sleep(0.02)


async def test_what_a_stop_broke_off_goes_on_at_the_next_start(knowledge_folder: KnowledgeFolder) -> None:
    settings = knowledge_folder.settings({"fruit": knowledge_folder.files("fruit", a="apple")})
    knowledge_folder.parser.gate.clear()
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.running)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert (await knowledge_folder.record.get_state("fruit")).failures == 0
    knowledge_folder.parser.gate.set()
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.last_success)


async def test_a_requested_refresh_of_a_paused_source_survives_a_stop(
    knowledge_folder: KnowledgeFolder,
) -> None:
    settings = knowledge_folder.settings({"fruit": knowledge_folder.files("fruit", a="apple")})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.last_success)
        await scheduler.pause("fruit")
        knowledge_folder.parser.gate.clear()
        knowledge_folder.files("fruit", b="banana")
        await scheduler.refresh(["fruit"])
        await until_state(scheduler, "fruit", lambda state: state.running)
    knowledge_folder.parser.gate.set()
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        state = await until_state(scheduler, "fruit", lambda state: state.documents == 2)
        assert state.paused
        await until_state(scheduler, "fruit", lambda state: state.next_run is None and not state.running)


async def test_what_was_asked_for_by_a_clock_that_was_ahead_happens_once(knowledge_folder: KnowledgeFolder) -> None:
    settings = knowledge_folder.settings({"fruit": knowledge_folder.files("fruit", a="apple")})
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        await until_state(scheduler, "fruit", lambda state: state.last_success)
    await knowledge_folder.record._upsert("fruit", asked_at=datetime.now(UTC) + timedelta(days=1000))
    tries_before = await knowledge_folder.tries("fruit")
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        offset = timedelta(hours=2)
        await until_state(scheduler, "fruit", lambda state: state.next_run and state.next_run > datetime.now(UTC))
        state = await get_state(scheduler, "fruit")
        assert state.next_run
        assert state.next_run < datetime.now(UTC) + offset
    assert await knowledge_folder.tries("fruit") > tries_before


async def test_questions_see_the_old_knowledge_or_the_new_while_it_is_swapped(
    knowledge_folder: KnowledgeFolder,
) -> None:
    settings = knowledge_folder.settings(
        {"fruit": knowledge_folder.files("fruit", **{f"f{n}": f"apple {n} edition one" for n in range(40)})}
    )
    library = KnowledgeLibrary(settings, knowledge_folder.store, knowledge_folder.embedder)
    scheduler = RefreshScheduler(settings, knowledge_folder.work(settings), knowledge_folder.record, library.reload)
    states: set[tuple[bool, bool]] = set()

    async def ask() -> None:
        while True:
            passages = await library.search("fruit", "apple edition", 100)
            words = " ".join(passage.text for passage in passages)
            states.add(("one" in words, "two" in words))
            assert len(passages) == 40
            await asyncio.sleep(0.005)

    async with scheduler.run():
        await until_state(scheduler, "fruit", lambda state: state.last_success)
        async with asyncio.timeout(SOON_S):
            while len(await library.search("fruit", "apple edition", 100)) < 40:
                await asyncio.sleep(0.02)
        ask_task = asyncio.create_task(ask())
        await until(lambda: states)
        knowledge_folder.files("fruit", **{f"f{n}": f"apple {n} edition two" for n in range(40)})
        tries_before = await knowledge_folder.tries("fruit")
        await scheduler.refresh()
        await until(lambda: (False, True) in states or ask_task.done())
        ask_task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ask_task
    assert await knowledge_folder.tries("fruit") > tries_before
    assert states == {(True, False), (False, True)}, "one commit: never a mix, never nothing"


async def test_the_log_says_what_a_refresh_passed_over(
    knowledge_folder: KnowledgeFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    fruit = knowledge_folder.files("fruit", a="apple", b=" ")
    (knowledge_folder.folder / "fruit/c.md").write_bytes(b"a\0b")
    settings = knowledge_folder.settings({"fruit": fruit})
    with logging_as_it_was():
        configure_logs(LogSettings(level="info", format="json"), sys.stdout)
        async with knowledge_folder.run_scheduler(settings) as scheduler:
            await until_state(scheduler, "fruit", lambda state: state.documents == 1)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line["event"] == "source.refreshed"]
    assert (line["added"], line["skipped"]) == (1, {"empty": 1, "binary": 1})


async def test_a_state_says_how_far_a_running_refresh_is(knowledge_folder: KnowledgeFolder) -> None:
    texts = {f"page{number}": f"Rocket {number} is out." for number in range(3)}
    settings = Settings.model_validate({"sources": {"docs": knowledge_folder.files("docs", **texts)}})
    knowledge_folder.parser.gate.clear()
    async with knowledge_folder.run_scheduler(settings) as scheduler:
        state = await until_state(scheduler, "docs", lambda state: state.documents_to_read)
        assert (state.documents_read, state.documents_to_read) == (0, 3)
        knowledge_folder.parser.gate.set()
        state = await until_state(scheduler, "docs", lambda state: state.last_success and not state.unfilled)
        assert (state.documents_read, state.documents_to_read, state.seconds_left) == (0, 0, None)


async def test_nobody_says_how_long_a_fill_takes_that_another_process_makes(knowledge_folder: KnowledgeFolder) -> None:
    settings = Settings.model_validate({"sources": {"docs": knowledge_folder.files("docs", page="Rocket 1 is out.")}})
    async with knowledge_folder.run_scheduler(settings, retry_delay=timedelta(seconds=0.1)) as scheduler:
        await until_state(scheduler, "docs", is_filled)
        await until(lambda: not scheduler._fill_slot.locked())
        # As after a batch of ours.
        scheduler._get_pace("docs")
        scheduler._wake(["docs"])
        await until(lambda: not scheduler._paces)
        async with source_lock(knowledge_folder.folder, "docs"):
            await knowledge_folder.record.update_counts("docs", {UNFILLED: 1}, changed=False)
            scheduler._get_pace("docs")
            scheduler._wake(["docs"])
            await until(lambda: not scheduler._paces)
