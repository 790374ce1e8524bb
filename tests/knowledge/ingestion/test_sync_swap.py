"""What a refresh replaces is swapped in as one: no search finds two editions of a source."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from core.errors import StoreError
from core.language.tokens import query_tokens
from knowledge.ingestion.sync import BATCH_PASSAGES, SyncOptions, refresh
from knowledge.ports import PassageRow, Store
from knowledge.stores.sqlite.store import open_sqlite
from tests.support.knowledge import DictSource, WordEmbedder
from tests.support.waiting import until

DOCUMENTS = 180
PARTS = 14


class Counted:
    """Hands everything on to a store, and notes down how many documents each commit touches."""

    def __init__(self, store: Store, fail_after: int = 1000) -> None:
        self._store = store
        self._remaining_calls = fail_after
        self.commits: list[int] = []
        self.manifest = store.manifest
        self.rows = store.rows
        self.search = store.search
        self.term_weights = store.term_weights
        self.vectors = store.vectors
        self.optimize = store.optimize
        self.close = store.close

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        self._remaining_calls -= 1
        if self._remaining_calls < 0:
            raise StoreError("the disk is full")
        self.commits.append(len(set(paths)))
        await self._store.replace(source, paths, rows, empty)


def edition(word: str, documents: range = range(DOCUMENTS), parts: int = PARTS) -> DictSource:
    filling = "the rocket flies to the moon with stones and comes back " * 3
    texts = {
        f"d{number}.md": "\n\n".join(f"# Part {part}\n\nfruit {word} {filling}" for part in range(parts))
        for number in documents
    }
    return DictSource("docs", texts)


async def count_editions(store: Store) -> Counter[str]:
    """Return the editions of all passages that are found, and how many of each."""
    passages = await store.search(query_tokens("fruit"), None, ["docs"], 10_000)
    return Counter(word for passage in passages for word in ("apple", "banana") if word in passage.text)


async def test_more_passages_than_a_batch_are_replaced_in_one_commit(store: Store) -> None:
    first = await refresh(edition("apple"), store, SyncOptions(50))
    assert first.passages > BATCH_PASSAGES
    await asyncio.sleep(1.1)
    states: list[tuple[str, ...]] = []

    async def poll() -> None:
        while True:
            states.append(tuple(sorted(await count_editions(store))))
            await asyncio.sleep(0.01)

    polling = asyncio.create_task(poll())
    await until(lambda: states)
    second = await refresh(edition("banana"), store, SyncOptions(50))
    await until(lambda: states[-1:] == [("banana",)])
    polling.cancel()
    assert second.updated == DOCUMENTS
    assert set(states) == {("apple",), ("banana",)}, "never both"
    assert len(states) > 10


async def test_new_documents_are_committed_at_once_and_the_rest_in_the_swap(store: Store) -> None:
    await refresh(edition("apple", range(20)), store, SyncOptions(50))
    counting_store = Counted(store)
    report = await refresh(edition("banana", range(60)), counting_store, SyncOptions(50, batch_passages=200))
    assert (report.added, report.updated) == (40, 20)
    assert len(counting_store.commits) > 1
    assert sum(counting_store.commits) == 60, "each document once"
    assert counting_store.commits[-1] >= 20, "all that is replaced, at the end"


async def test_where_documents_moved_nothing_is_there_twice(store: Store) -> None:
    await refresh(edition("apple", range(20)), store, SyncOptions(50))
    counting_store = Counted(store)
    report = await refresh(edition("apple", range(20, 80)), counting_store, SyncOptions(50, batch_passages=200))
    assert (report.added, report.deleted) == (60, 20)
    assert counting_store.commits == [80], "what is new and what is gone, in one step"


async def test_a_refresh_that_fails_before_the_swap_leaves_the_old_edition_whole(
    tmp_path: Path, embedder: WordEmbedder
) -> None:
    store = await open_sqlite(tmp_path / "passages", "words", 32)
    try:
        await refresh(edition("apple", range(20)), store, SyncOptions(50))
        source = edition("banana", range(60))
        with pytest.raises(StoreError, match="disk"):
            await refresh(source, Counted(store, fail_after=1), SyncOptions(50, batch_passages=200))
        manifest = await store.manifest("docs")
        assert 20 < len(manifest) < 60, "what is new stays"
        embedder.embedded.clear()
        report = await refresh(source, store, SyncOptions(50, batch_passages=200))
        assert (report.added, report.updated) == (60 - len(manifest), 20)
        await asyncio.sleep(1.1)
        assert set(await count_editions(store)) == {"banana"}
    finally:
        await store.close()


async def test_more_than_fits_is_swapped_in_several_commits_of_whole_documents(store: Store) -> None:
    await refresh(edition("apple", range(60)), store, SyncOptions(50))
    counting_store = Counted(store)
    await refresh(edition("banana", range(60)), counting_store, SyncOptions(50, swap_passages=300))
    assert len(counting_store.commits) > 1
    assert sum(counting_store.commits) == 60
    await asyncio.sleep(1.1)
    assert set(await count_editions(store)) == {"banana"}
