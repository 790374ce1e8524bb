"""Passages are found by words at once, and by meaning once their vectors are made: whatever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from core.errors import EmbeddingError
from core.language.tokens import query_tokens
from core.settings import FilesSource
from core.storage.engine import Database
from core.storage.refresh_state import RefreshStateRepository
from knowledge.ingestion import filling, refresh as ingestion_refresh, scheduler
from knowledge.ingestion.filling import fill, get_coverage
from knowledge.ingestion.refresh import RefreshContext, fill_source, fill_sources, refresh_source, refresh_sources
from knowledge.ingestion.schedule import UNREADABLE, source_states
from knowledge.ingestion.scheduler import RefreshScheduler
from knowledge.ingestion.sync import SyncOptions, SyncProgress, refresh
from knowledge.ports import PassageRow, Store, StoredDocument, TextKind, Vectors
from tests.support import forked
from tests.support.knowledge import DictSource, WordEmbedder, make_fruit_source, read_and_fill, settings
from tests.support.stores import StoreLocation, forget, opened
from tests.support.weaviate import name_collections

OPTIONS = SyncOptions(200)


class FailingEmbedder(WordEmbedder):
    """Fails from its n-th call on."""

    calls_left = 1

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise EmbeddingError("the endpoint is down")
        return await super().embed(texts, kind)


class ChoosyEmbedder(WordEmbedder):
    """Refuses texts about pears."""

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        vectors = await super().embed(texts, kind)
        vectors[["pear" in text for text in texts]] = np.nan
        return vectors


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "FILL_BATCH_PASSAGES", 8)
    monkeypatch.setattr(filling, "EMBED_BATCH_PASSAGES", 4)


@pytest.fixture
async def record(tmp_path: Path) -> AsyncIterator[RefreshStateRepository]:
    database = await Database.open(tmp_path / "journal.db")
    yield RefreshStateRepository(database)
    await database.close()


async def paths_of(store: Store, word: str) -> list[str]:
    return sorted(passage.path for passage in await store.search(query_tokens(word), None, ["docs"], 100))


async def get_counts(store: Store) -> tuple[int, int]:
    coverage = get_coverage(await store.manifest("docs"))
    return coverage.passages, coverage.unfilled


async def test_words_find_a_passage_before_it_has_a_vector(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Callable[..., str]
) -> None:
    source.texts = {"a.md": markdown("apple", "pear"), "b.md": markdown("apple")}
    report = await refresh(source, store, OPTIONS)
    assert (report.passages, report.unfilled) == (3, 3)
    assert embedder.embedded == []
    assert await paths_of(store, "apple") == ["a.md", "b.md"]
    assert len(await store.vectors("docs")) == 0
    vector = (await embedder.embed(["apple"]))[0]
    assert {passage.similarity for passage in await store.search("apple", vector, ["docs"], 9)} == {0.0}

    await fill("docs", store, embedder)
    assert await get_counts(store) == (3, 0)
    assert len(await store.vectors("docs")) == 3
    assert all(passage.similarity for passage in await store.search("apple", vector, ["docs"], 2))
    report = await refresh(source, store, OPTIONS)
    assert (report.unchanged, report.unfilled) == (2, 0)


async def test_what_was_read_last_is_filled_first(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Callable[..., str]
) -> None:
    for word in ("pear", "plum", "apple"):
        source.texts[f"{word}.md"] = markdown(word)
        await refresh(source, store, OPTIONS)
    await fill("docs", store, embedder)
    words = [word for text in embedder.embedded for word in ("pear", "plum", "apple") if word in text]
    assert words == ["apple", "plum", "pear"]


async def test_what_was_filled_stays_and_the_rest_is_filled_later(
    source: DictSource, store: Store, markdown: Callable[..., str]
) -> None:
    # One document is larger than a batch.
    source.texts = {"long.md": markdown(*["apple"] * 30), "short.md": markdown("apple")}
    failing = FailingEmbedder()
    await refresh(source, store, OPTIONS)
    failing.calls_left = 5
    with pytest.raises(EmbeddingError, match="down"):
        await fill("docs", store, failing)
    assert await get_counts(store) == (31, 15)
    assert len(await paths_of(store, "apple")) == 31, "all are found by words"
    embedder = WordEmbedder()
    await fill("docs", store, embedder)
    assert len(embedder.embedded) == 15
    assert await get_counts(store) == (31, 0)


async def test_a_changed_document_keeps_the_vectors_of_what_has_not_changed(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Callable[..., str]
) -> None:
    source.texts = {"a.md": markdown("apple", "pear", "plum")}
    await read_and_fill(source, store, embedder, OPTIONS)
    before = {row.passage.text: row.vector for row in await store.rows("docs", ["a.md"])}
    source.texts = {"a.md": markdown("apple", "cherry", "plum")}
    embedder.embedded.clear()
    report = await refresh(source, store, OPTIONS)
    assert (report.updated, report.unfilled) == (1, 1)
    await fill("docs", store, embedder)
    assert ["cherry" in text for text in embedder.embedded] == [True]
    for row in await store.rows("docs", ["a.md"]):
        if "cherry" not in row.passage.text:
            np.testing.assert_array_equal(row.vector, before[row.passage.text])


async def test_a_passage_that_the_model_refuses_is_found_by_words_and_named(
    tmp_path: Path, store: Store, record: RefreshStateRepository, markdown: Callable[..., str]
) -> None:
    (tmp_path / "docs").mkdir()
    for name, sections in {"a": ("apple", "pear", "plum"), "b": ("pear",), "c": ("cherry",)}.items():
        (tmp_path / f"docs/{name}.md").write_text(markdown(*sections), "utf-8")
    embedder = ChoosyEmbedder()
    sources = {"docs": FilesSource(kind="files", path=tmp_path / "docs")}
    context = RefreshContext(sources, store, embedder, tmp_path, 200, record)
    read = await refresh_sources(context)
    result = await fill_sources(context, result=read)
    assert not result.failures
    assert result.reports[0].seconds > read.reports[0].seconds, "the vectors take time, too"
    assert await paths_of(store, "pear") == ["a.md", "b.md"]
    assert await get_counts(store) == (5, 0), "refused for good, not missing"
    unreadable = (await record.get_state("docs")).counts[UNREADABLE]
    assert sorted(unreadable) == ["a.md", "b.md"]
    assert "refuses 1 of its passages" in unreadable["b.md"]
    embedder.embedded.clear()
    await fill_sources(context, result=await refresh_sources(context))
    assert embedder.embedded == []
    assert sorted((await record.get_state("docs")).counts[UNREADABLE]) == ["a.md", "b.md"]


async def test_what_a_source_lacks_is_read_once_for_many_batches(
    tmp_path: Path,
    store: Store,
    record: RefreshStateRepository,
    markdown: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingestion_refresh, "FILL_TURN_S", 600)
    (tmp_path / "docs").mkdir()
    for number in range(100):
        (tmp_path / f"docs/{number}.md").write_text(markdown("apple"), "utf-8")
    sources = {"docs": FilesSource(kind="files", path=tmp_path / "docs")}
    embedder = WordEmbedder()
    context = RefreshContext(sources, store, embedder, tmp_path, 200, record)
    await refresh_source(context, "docs")
    read_count = 0
    read_manifest = store.manifest

    async def count_manifest(source: str) -> Mapping[str, StoredDocument]:
        nonlocal read_count
        read_count += 1
        return await read_manifest(source)

    monkeypatch.setattr(store, "manifest", count_manifest)
    coverage = await fill_source(context, "docs")
    assert (coverage.passages, coverage.unfilled) == (100, 0)
    # 13 batches of 8.
    assert (len(embedder.embedded), read_count) == (100, 1)


async def test_progress_and_the_record_say_both_numbers(
    tmp_path: Path,
    store: Store,
    record: RefreshStateRepository,
    markdown: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingestion_refresh, "FILL_TURN_S", 0)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(markdown(*["apple"] * 12), "utf-8")
    configuration = settings(sources={"docs": {"kind": "files", "path": tmp_path / "docs"}}, agents={})
    failing = FailingEmbedder()
    failing.calls_left = 2
    context = RefreshContext(configuration.sources, store, failing, tmp_path, 200, record)
    progresses = list[SyncProgress]()
    changes = list[Sequence[str]]()

    async def note_change(names: object) -> None:
        changes.append([str(names)])

    await refresh_source(context, "docs")
    await fill_source(context, "docs", on_progress=progresses.append, on_changed=note_change)
    assert [(progress.passages, progress.filled) for progress in progresses] == [(12, 0), (12, 4), (12, 8), (12, 8)]
    assert len(changes) == 1
    result = await fill_sources(context, on_progress=progresses.append)
    assert result.failures == {"docs": "the endpoint is down"}
    (state,) = source_states(configuration, await record.get_states())
    assert (state.passages, state.unfilled, state.fill_error, state.error) == (12, 4, "the endpoint is down", "")
    failing.calls_left = 9
    await fill_sources(context, on_changed=note_change)
    (state,) = source_states(configuration, await record.get_states())
    assert (state.unfilled, state.fill_error) == (0, "")
    assert len(changes) == 2


@pytest.mark.usefixtures("time_lapse")
async def test_a_daemon_fills_as_soon_as_the_endpoint_is_back(
    tmp_path: Path,
    store: Store,
    record: RefreshStateRepository,
    markdown: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "FILL_RETRY_DELAY", timedelta(seconds=0.2))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(markdown(*["apple"] * 20), "utf-8")
    configuration = settings(
        data_dir=tmp_path, sources={"docs": {"kind": "files", "path": tmp_path / "docs"}}, agents={}
    )
    failing = FailingEmbedder()
    failing.calls_left = 0
    context = RefreshContext(configuration.sources, store, failing, tmp_path, 200, record)

    async def ignore_change(names: object) -> None:
        assert names

    keeper = RefreshScheduler(configuration, context, record, ignore_change)

    async def wait_for(error: str, unfilled: int) -> None:
        async with asyncio.timeout(60):
            while True:
                (state,) = await keeper.states()
                if state.last_success and (state.fill_error, state.unfilled) == (error, unfilled):
                    return
                await asyncio.sleep(0.02)

    async with keeper.run():
        await wait_for("the endpoint is down", 20)
        assert len(await paths_of(store, "apple")) == 20
        failing.calls_left = 3
        await wait_for("the endpoint is down", 12)
        failing.calls_left = 99
        await wait_for("", 0)
    assert await get_counts(store) == (20, 0)


async def test_a_small_source_does_not_wait_until_a_large_one_is_filled(
    tmp_path: Path,
    store: Store,
    record: RefreshStateRepository,
    markdown: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "FILL_TURN_DELAY", timedelta(seconds=60))
    monkeypatch.setattr(ingestion_refresh, "FILL_TURN_S", 0)
    sources = {}
    for name, word, count in (("large", "apple", 200), ("small", "pear", 1)):
        (tmp_path / name).mkdir()
        for number in range(count):
            (tmp_path / name / f"{number}.md").write_text(markdown(word), "utf-8")
        sources[name] = {"kind": "files", "path": tmp_path / name}
    configuration = settings(data_dir=tmp_path, sources=sources, agents={})
    embedder = WordEmbedder(delay=0.02)
    context = RefreshContext(configuration.sources, store, embedder, tmp_path, 200, record)

    async def ignore_change(names: object) -> None:
        assert names

    await record.set_paused("small", True)
    keeper = RefreshScheduler(configuration, context, record, ignore_change)
    async with keeper.run(), asyncio.timeout(60):
        while not embedder.embedded:
            await asyncio.sleep(0.02)
        await keeper.resume("small")
        while any(not state.last_success or state.unfilled for state in await keeper.states()):
            await asyncio.sleep(0.02)
    assert "pear" not in embedder.embedded[-1]


KILLED = """
import asyncio, sys
from knowledge.ingestion import filling
from knowledge.ingestion.sync import SyncOptions
from tests.support.knowledge import WordEmbedder, make_fruit_source, read_and_fill
from tests.support.stores import StoreLocation, open_at
filling.FILL_BATCH_PASSAGES = 8
filling.EMBED_BATCH_PASSAGES = 4
async def main():
    store = await open_at(StoreLocation.parse(sys.argv[1]), "words", 32)
    print("open", flush=True)
    await read_and_fill(make_fruit_source(), store, WordEmbedder(delay=0.02), SyncOptions(200, batch_passages=40))
    await store.close()
asyncio.run(main())
"""


def to_content(rows: Sequence[PassageRow]) -> tuple[list[tuple[str, str]], Vectors]:
    """Return ids and texts, and the vectors, in the order of the ids."""
    in_order = sorted(rows, key=lambda row: row.passage.id)
    assert all(row.vector is not None for row in in_order)
    return [(row.passage.id, row.passage.text) for row in in_order], np.array([row.vector for row in in_order])


@pytest.fixture(params=["sqlite", "weaviate"])
async def killed_location(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[StoreLocation]:
    if request.param == "sqlite":
        yield StoreLocation(tmp_path / "killed", {})
        return
    server = name_collections(request.getfixturevalue("weaviate_server"))
    yield StoreLocation(server, {"lease_duration_s": 1.5})
    await forget(server)


async def test_kills_cost_no_passage_and_no_vector(
    killed_location: StoreLocation, store: Store, embedder: WordEmbedder
) -> None:
    source = make_fruit_source()
    await read_and_fill(source, store, embedder, OPTIONS)
    expected = to_content(await store.rows("docs", list(source.texts)))
    random = np.random.default_rng(1)
    kill_count = 0
    exit_code = None
    while exit_code != 0:
        process = await forked.start_piped(KILLED, killed_location.text())
        assert process.stdout is not None
        assert await process.stdout.readline() == b"open\n"
        try:
            async with asyncio.timeout(random.uniform(0.1, 0.8) if kill_count < 3 else 120):
                await process.wait()
        except TimeoutError:
            # It may end by itself meanwhile.
            with suppress(ProcessLookupError):
                process.kill()
            kill_count += 1
        await process.communicate()
        exit_code = process.returncode
    async with opened(killed_location, "words", 32) as killed:
        names, vectors = to_content(await killed.rows("docs", list(source.texts)))
        assert names == expected[0]
        np.testing.assert_allclose(vectors, expected[1], atol=1e-6)
        assert await get_counts(killed) == (120, 0)
    assert kill_count > 0
