"""Many sources: each failure is its own, and questions see what is done while the rest is still read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import SourceError, StoreError, StoreLocked
from core.runtime.data_dir import make_data_dir
from core.runtime.locks import refresh_lock, source_lock
from core.settings import FeedSource, FilesSource, GitSource, SourceSettings
from core.settings.audience import Audiences
from core.storage.engine import Database
from core.storage.refresh_state import RefreshStateRepository
from knowledge.ingestion.refresh import (
    RefreshContext,
    RefreshResult,
    purge_passages_for_others,
    refresh_source,
    refresh_sources,
)
from knowledge.ingestion.sync import SyncOptions, refresh
from knowledge.ports import Store, StoredDocument, label_name
from knowledge.retrieval.library import KnowledgeLibrary
from knowledge.stores.sqlite.store import open_sqlite
from tests.support.feeds import rss
from tests.support.knowledge import DictSource, GatedParser, WordEmbedder, settings
from tests.support.peers.web import WebPeer


def folder(path: Path, *texts: str, **extra_fields: object) -> FilesSource:
    path.mkdir()
    for number, text in enumerate(texts):
        (path / f"{number}.md").write_text(text, "utf-8")
    return FilesSource.model_validate({"kind": "files", "path": path, **extra_fields})


async def test_a_source_that_cannot_even_be_opened_does_not_stop_the_others(
    tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    sources: dict[str, SourceSettings] = {
        "glob": folder(tmp_path / "a", "apple", exclude=["!"]),
        "branch": GitSource(kind="git", url="https://example.org/x.git", branch="-x"),
        "good": folder(tmp_path / "b", "banana"),
    }
    refresh_result = await refresh_sources(RefreshContext(sources, store, embedder, tmp_path, 200))
    assert [report.name for report in refresh_result.reports] == ["good"]
    assert "glob" in refresh_result.failures["glob"]
    assert "'-x'" in refresh_result.failures["branch"]


async def test_news_come_with_every_change_and_at_the_end(tmp_path: Path, store: Store, embedder: WordEmbedder) -> None:
    sources = {"fruit": folder(tmp_path / "a", "apple"), "tools": folder(tmp_path / "b", "hammer")}
    passage_counts: list[list[int]] = []
    messages: list[list[str]] = []

    async def record_change(names: Collection[str]) -> None:
        messages.append(list(names))
        passage_counts.append([len(await store.manifest(name)) for name in sources])

    async def run() -> RefreshResult:
        passage_counts.clear()
        messages.clear()
        return await refresh_sources(RefreshContext(sources, store, embedder, tmp_path, 200), on_changed=record_change)

    await run()
    assert [1, 0] in passage_counts, "the first source could be asked before the second was read"
    assert passage_counts[-1] == [1, 1]
    assert set(map(tuple, messages)) == {("fruit",), ("tools",)}
    await run()
    assert (passage_counts, messages) == ([[1, 1]], [["fruit", "tools"]]), "another process may have changed both"
    (tmp_path / "a" / "new.md").write_text("pear", "utf-8")
    await run()
    assert (passage_counts, messages) == ([[2, 1], [2, 1]], [["fruit"], ["tools"]])


async def test_questions_find_the_first_batch_of_a_source_that_is_still_read(
    store: Store, embedder: WordEmbedder
) -> None:
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    reports: list[tuple[int, list[str]]] = []

    async def first_batch() -> None:
        await library.reload()
        reports.append((len(await store.manifest("fruit")), [agent.name for agent in await library.route("apple")]))

    fruit = DictSource("fruit", {f"{number}.md": f"An apple, number {number}." for number in range(600)})
    for _ in range(2):
        await refresh(fruit, store, SyncOptions(200, on_first_batch=first_batch, batch_passages=200))
        fruit.texts["0.md"] += " It is red."
    assert len(reports) == 1, "once, and only for a source that held nothing"
    documents, agents = reports[0]
    assert 0 < documents < 600
    assert agents == ["cook"]


@pytest.mark.parametrize("subfolder", ["", "data"])
def test_a_data_directory_that_is_a_file_or_below_one_is_named(tmp_path: Path, subfolder: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"data_dir .*file.* cannot be used: .*choose a folder"):
        make_data_dir(tmp_path / "file" / subfolder)
    with pytest.raises(StoreError, match="data_dir"), refresh_lock(tmp_path / "file" / subfolder):
        pytest.fail("locked nothing")


@pytest.fixture
async def record(tmp_path: Path) -> AsyncIterator[RefreshStateRepository]:
    database = await Database.open(tmp_path / "journal.db")
    yield RefreshStateRepository(database)
    await database.close()


async def test_a_source_that_another_process_refreshes_is_left_to_it(
    tmp_path: Path, store: Store, embedder: WordEmbedder, record: RefreshStateRepository
) -> None:
    sources = {"fruit": folder(tmp_path / "a", "apple"), "tools": folder(tmp_path / "b", "hammer")}
    work = RefreshContext(sources, store, embedder, tmp_path, 200, record)
    async with source_lock(tmp_path, "fruit"):
        refresh_result = await refresh_sources(work)
        assert [report.name for report in refresh_result.reports] == ["tools"]
        assert "another process is refreshing source fruit" in refresh_result.failures["fruit"]
        assert "fruit" not in await record.get_states(), "that somebody else is at it is no failed try"
        with pytest.raises(StoreLocked, match="source fruit"):
            await refresh_sources(work, ["fruit"])
    assert (await refresh_sources(work)).failures == {}


async def test_nothing_of_a_closed_source_stays_under_its_name_where_that_is_given_away(
    tmp_path: Path, store: Store, embedder: WordEmbedder, record: RefreshStateRepository
) -> None:
    """The first refresh of what has it now may fail, and the next start would not know whose passages they are."""
    work = RefreshContext({"fruit": folder(tmp_path / "a", "apple")}, store, embedder, tmp_path, 200, record)
    closed = Audiences({"fruit": frozenset({frozenset({"owners"})})}, {"fruit": "fruit#closed"})
    await refresh_source(replace(work, audiences=closed), "fruit")
    assert await store.manifest("fruit")
    opened = Audiences({"fruit": frozenset()}, {"fruit": "fruit#open"})
    away = {"fruit": FilesSource.model_validate({"kind": "files", "path": tmp_path / "away"})}
    with pytest.raises(SourceError):
        await refresh_source(replace(work, sources=away, audiences=opened), "fruit")
    assert not await store.manifest("fruit")


@pytest.mark.parametrize("provider", ["sqlite", "weaviate"])
async def test_a_start_looks_only_at_sources_that_were_read_otherwise(
    tmp_path: Path,
    store: Store,
    embedder: WordEmbedder,
    record: RefreshStateRepository,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
) -> None:
    docs = folder(tmp_path / "docs", "apple").model_dump(mode="json")
    plans = folder(tmp_path / "plans", "pear", audience=["owners"]).model_dump(mode="json")
    configuration = settings(
        data_dir=tmp_path,
        sources={"docs": docs, "plans": plans},
        agents={},
        knowledge={"store": {"provider": provider}},
    )
    audiences = Audiences.from_settings(configuration)
    context = RefreshContext(
        configuration.sources,
        store,
        embedder,
        tmp_path,
        configuration.knowledge.chunking.tokens,
        record,
        audiences=audiences,
        store_place=configuration.knowledge.store.place,
    )
    await refresh_sources(context)
    looked_at = list[str]()
    read_manifest = store.manifest

    async def note_manifest(source: str) -> Mapping[str, StoredDocument]:
        looked_at.append(source)
        return await read_manifest(source)

    monkeypatch.setattr(store, "manifest", note_manifest)
    assert not await purge_passages_for_others(store, configuration, audiences, record)
    assert looked_at == [label_name("docs"), label_name("plans")], "a large source takes long to look at"
    other_globs = settings(
        data_dir=tmp_path,
        sources={"docs": {**docs, "exclude": ["team/"]}, "plans": plans},
        agents={},
        knowledge={"store": {"provider": provider}},
    )
    assert not await purge_passages_for_others(store, other_globs, audiences, record)
    assert "docs" in looked_at


async def test_the_record_tells_success_failure_and_what_was_broken_off(
    tmp_path: Path, store: Store, embedder: WordEmbedder, record: RefreshStateRepository
) -> None:
    sources = {"fruit": folder(tmp_path / "a", "apple", "pear")}
    parser = GatedParser()
    work = RefreshContext(
        sources, store, embedder, tmp_path, 200, record, lambda text: text.replace(str(tmp_path), "***"), parser=parser
    )
    await refresh_source(work, "fruit")
    first = await record.get_state("fruit")
    assert (first.documents, first.passages, first.failures, first.error, first.unfinished) == (2, 2, 0, "", False)
    assert first.counts["added"] == 2
    assert first.last_try is not None
    assert first.last_success is not None
    assert first.last_try < first.last_success == first.changed_at == first.ended_at

    (tmp_path / "a" / "0.md").write_text("apricot", "utf-8")
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    for failures in (1, 2):
        with pytest.raises(SourceError):
            await refresh_source(work, "fruit")
        entry = await record.get_state("fruit")
        assert (entry.failures, entry.documents) == (failures, 2)
        assert (entry.last_success, entry.changed_at) == (first.last_success, first.changed_at)
    assert "***" in (await record.get_state("fruit")).error
    assert str(tmp_path) not in (await record.get_state("fruit")).error
    # Whoever shows the record names the source already.
    assert "source fruit" not in (await record.get_state("fruit")).error

    (tmp_path / "elsewhere").rename(tmp_path / "a")
    parser.gate.clear()
    refresh_task = asyncio.create_task(refresh_source(work, "fruit"))
    async with asyncio.timeout(60):
        while not (await record.get_state("fruit")).unfinished:
            await asyncio.sleep(0.01)
    refresh_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await refresh_task
    aborted_state = await record.get_state("fruit")
    assert (aborted_state.unfinished, aborted_state.failures) == (True, 2)


async def test_a_refresh_that_is_cancelled_as_it_starts_is_no_failure(
    tmp_path: Path, store: Store, embedder: WordEmbedder, record: RefreshStateRepository
) -> None:
    class CancelledAtStart(RefreshStateRepository):
        async def mark_started(self, source: str, made_by: str) -> None:
            refresh_task.cancel()
            await super().mark_started(source, made_by)

    sources = {"fruit": folder(tmp_path / "a", "apple")}
    states = CancelledAtStart(record._database)
    refresh_task = asyncio.create_task(
        refresh_source(RefreshContext(sources, store, embedder, tmp_path, 200, states), "fruit")
    )
    with pytest.raises(asyncio.CancelledError):
        await refresh_task
    state = await record.get_state("fruit")
    assert (state.unfinished, state.failures) == (True, 0)


async def test_a_source_whose_remote_is_gone_has_failed_on_record(
    tmp_path: Path, store: Store, embedder: WordEmbedder, record: RefreshStateRepository
) -> None:
    async with WebPeer() as web:
        web.pages["/feed"] = rss(("one", "Rocket 1 is out.", 1))
        values = {"kind": "feed", "url": web.url("/feed"), "allow_private": ["127.0.0.1"]}
        work = RefreshContext({"news": FeedSource.model_validate(values)}, store, embedder, tmp_path, 200, record)
        await refresh_source(work, "news")
        first = await record.get_state("news")
        web.status = 503
        report = await refresh_source(work, "news")
    assert report.stale
    entry = await record.get_state("news")
    assert entry.error.startswith("not up to date: ")
    assert (entry.last_success, entry.documents, entry.failures) == (first.last_success, 1, 1)


async def test_another_link_reaches_documents_that_have_not_changed(
    tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    source = folder(tmp_path / "a", "apple", link="https://old.org/{path}")
    for link in ("https://old.org/{path}", "https://new.org/{path}"):
        files_source = source.model_copy(update={"link": link})
        report = await refresh_source(RefreshContext({"fruit": files_source}, store, embedder, tmp_path, 200), "fruit")
    assert (report.updated, report.unchanged) == (1, 0)
    (result,) = await store.search("apple", (await embedder.embed(["apple"]))[0], ["fruit"], 5)
    assert result.url == "https://new.org/0.md"


async def test_a_source_that_is_not_configured_is_forgotten_by_a_whole_ingest(
    tmp_path: Path, store: Store, embedder: WordEmbedder, record: RefreshStateRepository
) -> None:
    sources = {name: folder(tmp_path / name, "apple", "pear") for name in ("fruit", "trees")}
    await refresh_sources(RefreshContext(sources, store, embedder, tmp_path, 200, record))
    # Another deployment's, whose refreshes are not on record here.
    await refresh(DictSource("others", {"a.md": "plum"}), store, SyncOptions(200))
    remaining_context = RefreshContext({"fruit": sources["fruit"]}, store, embedder, tmp_path, 200, record)

    await refresh_sources(remaining_context, ["fruit"])
    assert len(await store.manifest("trees")) == 2, "who refreshes one source changes no other"
    async with source_lock(tmp_path, "trees"):
        assert (await refresh_sources(remaining_context)).failures == {}
    assert len(await store.manifest("trees")) == 2, "a process with another configuration is at it"
    assert set(await record.get_states()) == {"fruit", "trees"}

    await refresh_sources(remaining_context)
    assert await store.manifest("trees") == {}
    assert set(await record.get_states()) == {"fruit"}
    assert [len(await store.manifest(name)) for name in ("fruit", "others")] == [2, 1]


async def test_two_processes_refresh_many_sources_into_a_new_store(
    tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    """Two handles on one directory see each other's commits as two processes do: late, unless they look."""
    sources = {f"source-{number}": folder(tmp_path / str(number), "apple", "pear") for number in range(6)}
    other = await open_sqlite(tmp_path / "passages", "words", 32)

    async def read() -> None:
        while True:
            await store.manifest("source-0")
            await asyncio.sleep(0)

    reading = asyncio.create_task(read())
    handles = [store, other] * 3
    sync_reports = await asyncio.gather(
        *(
            refresh_source(RefreshContext(sources, handle, embedder, tmp_path, 200), name)
            for name, handle in zip(sources, handles, strict=True)
        )
    )
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await other.close()
    assert [report.added for report in sync_reports] == [2] * 6
    fresh = await open_sqlite(tmp_path / "passages", "words", 32)
    assert [len(await fresh.manifest(name)) for name in sources] == [2] * 6
    await fresh.close()
