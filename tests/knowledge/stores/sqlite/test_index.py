"""What of the embedded store shows only at some size: segments that versions share, many at once, two who write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from core.errors import StoreError
from core.types import Passage
from knowledge.ports import PassageRow
from knowledge.stores.sqlite import store as store_module
from knowledge.stores.sqlite.index import MAX_INLINE_BYTES, CompactIndex, InMemoryIndex
from knowledge.stores.sqlite.segment import MAX_SMALL_SEGMENTS, SEGMENT_SIZE
from knowledge.stores.sqlite.store import MAX_VECTOR_BYTES, SqliteStore, open_sqlite

DIMENSION = 240
COUNT = SEGMENT_SIZE + 700


def rows(count: int, path: str, first: int = 0, source: str = "docs", edition: str = "1") -> list[PassageRow]:
    numbers = np.random.default_rng(first + 1).standard_normal((count, DIMENSION)).astype(np.float32)
    numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
    return [
        PassageRow(
            Passage(
                f"{source} {number}",
                source,
                path,
                "title ü",
                f"text {number} {edition} 漢字",
                f"u/{number}",
                "text",
                1,
                2,
            ),
            edition,
            f"common word{number % 50}",
            vector,
        )
        for number, vector in enumerate(numbers, first)
    ]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite(tmp_path / "passages", "test", DIMENSION)
    yield store
    await store.close()


def found_ids(passages: Sequence[Passage]) -> set[str]:
    return {passage.id for passage in passages}


async def test_many_who_ask_at_once_get_what_each_gets_alone(store: SqliteStore) -> None:
    ours = rows(COUNT, "a.md")
    assert COUNT * DIMENSION * 4 > MAX_INLINE_BYTES, "too few to be compared together"
    await store.replace("docs", ["a.md"], ours)
    vectors = np.array([row.vector for row in ours])
    questions = [vectors[number * 100] for number in range(40)]
    for batch in (questions[:1], questions[:3], questions):
        results = await asyncio.gather(*(store.search("word3", vector, ["docs"], 10) for vector in batch))
        for vector, passages in zip(batch, results, strict=True):
            cosines = vectors @ vector
            nearest = {ours[index].passage.id for index in np.argsort(-cosines)[:10]}
            assert nearest <= found_ids(passages)
            for passage in passages:
                index = int(passage.id.split()[1])
                assert passage.similarity == pytest.approx(float(cosines[index]), abs=1e-5)
                assert passage.text == ours[index].passage.text


@pytest.mark.parametrize("memory_bytes", [MAX_VECTOR_BYTES, 0])
async def test_what_is_in_memory_stays_and_what_changed_is_read_anew(tmp_path: Path, memory_bytes: int) -> None:
    store = await open_sqlite(tmp_path / "passages", "test", DIMENSION, memory_bytes=memory_bytes)
    vector = rows(1, "b.md", COUNT)[0].vector
    kind = InMemoryIndex if memory_bytes else CompactIndex

    async def searched() -> list[int]:
        """Search, and return how many passages of each segment are alive."""
        passages = await store.search("word1", vector, ["other"], 500)
        count = 400 if store._index is None else len(passages)
        assert found_ids(passages) == {f"other {number}" for number in range(COUNT, COUNT + count)}
        assert isinstance(store._index, kind)
        return [int(view.alive.sum()) for view in store._index.views]

    try:
        await store.replace("docs", ["a.md", "c.md"], [*rows(COUNT - 500, "a.md"), *rows(100, "c.md", COUNT - 500)])
        await store.replace("other", ["b.md"], rows(400, "b.md", COUNT, "other"), {"empty.md": "7"})
        assert sum(await searched()) == COUNT
        first = store._index
        assert first is not None
        await store.replace("other", ["b.md"], rows(300, "b.md", COUNT, "other", "2"))
        assert sum(await searched()) == COUNT - 100
        assert {passage.text.split()[2] for passage in await store.search("word1", vector, ["other"], 500)} == {"2"}
        await store.replace("docs", ["c.md"], [])
        await store.optimize()
        assert sum(await searched()) == COUNT - 200
        second = store._index
        assert second is not None
        assert second.views[0].segment is first.views[0].segment, "everything was read again"
        for number in range(MAX_SMALL_SEGMENTS + 2):
            await store.replace("docs", [f"{number}.md"], rows(3, f"{number}.md", 2 * COUNT + 3 * number))
        assert len(await searched()) < MAX_SMALL_SEGMENTS, "small segments are not read into one"
        await store.replace("docs", ["a.md"], [])
        assert sum(await searched()) == 300 + 3 * (MAX_SMALL_SEGMENTS + 2)
    finally:
        await store.close()


async def test_a_compact_index_finds_what_an_exact_one_does(tmp_path: Path) -> None:
    """The nearest of a thousand around a topic each, and in one source alone, whose passages are far from the query."""
    draw = np.random.default_rng(5)
    topics = draw.standard_normal((12, DIMENSION)).astype(np.float32)
    ours = [*rows(COUNT, "a.md"), *rows(50, "b.md", COUNT, "small")]
    near_ids = [
        PassageRow(row.passage, row.fingerprint, row.tokens, topics[number % 12] / 10 + row.vector)
        for number, row in enumerate(ours)
    ]
    exact = await open_sqlite(tmp_path / "passages", "test", DIMENSION)
    await exact.replace("docs", ["a.md"], near_ids)
    compact = await open_sqlite(tmp_path / "passages", "test", DIMENSION, memory_bytes=0)
    try:
        found_count = 0
        expected_count = 0
        for number in range(24):
            vector = topics[number % 12] / 10 + draw.standard_normal(DIMENSION).astype(np.float32) / DIMENSION**0.5
            passages = {item.id: item for item in await exact.search("word3", vector, ["docs", "small"], 50)}
            compact_passages = {item.id: item for item in await compact.search("word3", vector, ["docs", "small"], 50)}
            found_count = found_count + len(passages.keys() & compact_passages.keys())
            expected_count = expected_count + len(passages)
            for name in passages.keys() & compact_passages.keys():
                assert compact_passages[name].text == passages[name].text
                assert compact_passages[name].lexical == pytest.approx(passages[name].lexical)
                assert compact_passages[name].similarity == pytest.approx(passages[name].similarity, abs=1e-5)
            assert len(await compact.search("", vector, ["small"], 100)) == 50
        assert found_count >= 0.97 * expected_count
        assert await compact.term_weights("word3 nowhere") == await exact.term_weights("word3 nowhere")
    finally:
        await exact.close()
        await compact.close()


async def test_a_search_whose_passages_are_replaced_meanwhile_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compact index chooses from what it knew when it was read; the file has another version already."""
    reader = await open_sqlite(tmp_path / "passages", "test", DIMENSION, memory_bytes=0)
    writer = await open_sqlite(tmp_path / "passages", "test", DIMENSION)
    monkeypatch.setattr(store_module, "CHECK_INTERVAL_S", 1000.0)
    try:
        await writer.replace("docs", ["a.md"], rows(30, "a.md", edition="old"))
        assert len(await reader.search("common", None, ["docs"], 50)) == 30
        await writer.replace("docs", ["a.md"], rows(20, "a.md", edition="new"))
        passages = await reader.search("common", rows(1, "a.md")[0].vector, ["docs"], 50)
        assert [passage.text.split()[2] for passage in passages] == ["new"] * 20
    finally:
        await reader.close()
        await writer.close()


async def test_passages_beyond_the_memory_limit_are_searched_in_the_file(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path / "passages", "test", DIMENSION, memory_bytes=100 * DIMENSION * 4)
    try:
        for count, kind in ((100, InMemoryIndex), (101, CompactIndex), (90, InMemoryIndex)):
            await store.replace("docs", ["a.md"], rows(count, "a.md"))
            assert len(await store.search("common", None, ["docs"], 500)) == count
            assert type(store._index) is kind
    finally:
        await store.close()


async def test_space_is_given_back_and_row_numbers_never_come_again(store: SqliteStore, tmp_path: Path) -> None:
    file = tmp_path / "passages" / "passages.db"
    await store.replace("docs", ["a.md"], rows(COUNT, "a.md"))
    await store.optimize()
    full = file.stat().st_size
    await store.replace("docs", ["a.md"], rows(5, "a.md"))
    await store.optimize()
    assert file.stat().st_size < full / 10
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT min(row_number) FROM vectors").fetchone() == (COUNT + 1,)
    assert len(await store.search("common", None, ["docs"], 50)) == 5


async def test_of_two_who_write_the_same_path_one_remains(store: SqliteStore, tmp_path: Path) -> None:
    other_store = await open_sqlite(tmp_path / "passages", "test", DIMENSION)
    try:
        await store.replace("docs", ["a.md"], rows(4, "a.md", 500))
        for turn in range(4):
            ours = rows(3, "a.md", 10 * turn, edition="ours")
            theirs = rows(3, "a.md", 10 * turn + 5, edition="theirs")
            await asyncio.gather(store.replace("docs", ["a.md"], ours), other_store.replace("docs", ["a.md"], theirs))
            # What the other process wrote is seen a second later; what is written here is seen at once.
            await store.replace("else", ["x.md"], rows(1, "x.md", 9000 + turn, "else"))
            remaining_ids = found_ids(await store.search("common", None, ["docs"], 50))
            assert remaining_ids in ({row.passage.id for row in ours}, {row.passage.id for row in theirs})
    finally:
        await other_store.close()


async def test_who_gives_up_waiting_does_not_end_the_reading(store: SqliteStore, tmp_path: Path) -> None:
    ours = rows(COUNT, "a.md")
    await store.replace("docs", {"a.md"}, ours)
    reader = await open_sqlite(tmp_path / "passages", "test", DIMENSION)
    # However fast the file is read: the first search waits for nothing.
    reader._read_timeout_s = 0.0
    messages: list[str] = []

    async def searched() -> Sequence[Passage]:
        try:
            return await reader.search("word7", ours[7].vector, {"docs"}, 5)
        except StoreError as error:
            messages.append(str(error))
            return []

    try:
        async with asyncio.timeout(60):
            while not (passages := await searched()):
                pass
    finally:
        await reader.close()
    assert ours[7].passage.id in found_ids(passages)
    assert any("still being read" in message for message in messages), messages
