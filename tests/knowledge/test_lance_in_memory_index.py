"""What of the embedded store shows only at some size: blocks that versions share, rows that are gone, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from core.errors import StoreError
from core.types import Passage
from knowledge.ports import PassageRow
from knowledge.stores.lance.in_memory_index import MAX_INLINE_BYTES, SEGMENT_SIZE, load_memory_index
from knowledge.stores.lance.store import LanceStore, open_lance
from knowledge.stores.lance.table import MAX_FRAGMENTS, TOMBSTONE_SOURCE

DIMENSION = 240
COUNT = SEGMENT_SIZE + 700
GONE_ROWS = f"source = '{TOMBSTONE_SOURCE}'"


def rows(count: int, path: str, first: int = 0, source: str = "docs", edition: str = "1") -> list[PassageRow]:
    drawn = np.random.default_rng(first + 1).standard_normal((count, DIMENSION)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
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
        for number, vector in enumerate(drawn, first)
    ]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LanceStore]:
    store = await open_lance(tmp_path / "passages", "test", DIMENSION)
    yield store
    await store.close()


def found_ids(passages: Sequence[Passage]) -> set[str]:
    return {passage.id for passage in passages}


async def test_many_who_ask_at_once_get_what_each_gets_alone(store: LanceStore) -> None:
    ours = rows(COUNT, "a.md")
    assert COUNT * DIMENSION * 4 > MAX_INLINE_BYTES, "too few to be compared together"
    await store.replace("docs", ["a.md"], ours)
    vectors = np.array([row.vector for row in ours])
    questions = [vectors[number * 100] for number in range(40)]
    for many in (questions[:1], questions[:3], questions):
        together = await asyncio.gather(*(store.search("word3", vector, ["docs"], 10) for vector in many))
        for vector, passages in zip(many, together, strict=True):
            cosines = vectors @ vector
            nearest = {ours[place].passage.id for place in np.argsort(-cosines)[:10]}
            assert nearest <= found_ids(passages)
            for passage in passages:
                place = int(passage.id.split()[1])
                assert passage.similarity == pytest.approx(float(cosines[place]), abs=1e-5)
                assert passage.text == ours[place].passage.text


async def test_blocks_stay_when_files_are_merged_and_what_changed_is_read_anew(store: LanceStore) -> None:
    await store.replace("docs", ["a.md"], rows(COUNT - 400, "a.md"))
    await store.replace("other", ["b.md"], rows(400, "b.md", COUNT, "other"), {"empty.md": "7"})
    table = await store._open_table()
    assert table is not None
    with ThreadPoolExecutor(1) as executor:
        first = await load_memory_index(table, DIMENSION, executor)
        await store.replace("other", ["b.md"], rows(300, "b.md", COUNT, "other", "2"))
        second = await load_memory_index(table, DIMENSION, executor, first)
        await table.optimize()
        third = await load_memory_index(table, DIMENSION, executor, second)
        fresh = await load_memory_index(table, DIMENSION, executor)
        sizes = [sum(int(part.alive.sum()) for part in shelf.views) for shelf in (first, second, third, fresh)]
        assert sizes == [COUNT, COUNT - 100, COUNT - 100, COUNT - 100]
        segments = [part.segment for part in third.views]
        assert first.views[0].segment is segments[0], "merging files had everything read again"
        assert third.views[0].row_ids.tolist() != first.views[0].row_ids.tolist(), "merging files moved nothing"
        vector = rows(1, "b.md", COUNT)[0].vector
        for shelf in (second, third, fresh):
            passages = await shelf.search(executor, "word1", vector, ["other"], 500)
            assert found_ids(passages) == {f"other {number}" for number in range(COUNT, COUNT + 300)}
            assert {passage.text.split()[2] for passage in passages} == {"2"}


async def test_rows_that_are_gone_are_nobodys_until_optimising_takes_them_away(store: LanceStore) -> None:
    await store.replace("docs", ["a.md", "b.md"], [*rows(9, "a.md"), *rows(3, "b.md", 20)])
    await store.replace("docs", ["a.md", "b.md"], rows(2, "a.md", edition="2"))
    table = await store._open_table()
    assert table is not None
    assert await table.count_rows(GONE_ROWS) == 10
    manifest = await store.manifest("docs")
    assert {
        path: (stored_document.fingerprint, stored_document.passage_count) for path, stored_document in manifest.items()
    } == {"a.md": ("2", 2)}
    assert await store.vectors("docs") == pytest.approx(np.array([row.vector for row in rows(2, "a.md")]))
    assert len(await store.search("common", None, ["docs", TOMBSTONE_SOURCE], 50)) == 2
    await store.replace("docs", ["a.md"], rows(5, "a.md", edition="3"))
    assert (await store.manifest("docs"))["a.md"].passage_count == 5
    for number in range(MAX_FRAGMENTS + 1):
        await store.replace("other", [f"{number}.md"], rows(1, f"{number}.md", 1000 + number, "other"))
    await store.optimize()
    assert await table.count_rows(GONE_ROWS) == 0
    assert await table.count_rows() == 5 + MAX_FRAGMENTS + 1
    assert len(await store.search("common", None, ["docs"], 50)) == 5


async def test_of_two_who_write_the_same_path_one_remains(store: LanceStore, tmp_path: Path) -> None:
    rival = await open_lance(tmp_path / "passages", "test", DIMENSION)
    try:
        await store.replace("docs", ["a.md"], rows(4, "a.md", 500))
        for turn in range(4):
            ours, theirs = rows(3, "a.md", 10 * turn, edition="ours"), rows(3, "a.md", 10 * turn + 5, edition="theirs")
            await asyncio.gather(store.replace("docs", ["a.md"], ours), rival.replace("docs", ["a.md"], theirs))
            # What the other process wrote is seen a second later; what is written here is seen at once.
            await store.replace("else", ["x.md"], rows(1, "x.md", 9000 + turn, "else"))
            left = found_ids(await store.search("common", None, ["docs"], 50))
            assert left in ({row.passage.id for row in ours}, {row.passage.id for row in theirs})
    finally:
        await rival.close()


async def test_who_gives_up_waiting_does_not_end_the_reading(store: LanceStore, tmp_path: Path) -> None:
    ours = rows(COUNT, "a.md")
    await store.replace("docs", {"a.md"}, ours)
    reader = await open_lance(tmp_path / "passages", "test", DIMENSION)
    reader._read_timeout_s = 0.05
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
