"""The contract of `Store`, run over every implementation.

Weaviate's part needs a server, see tests/support/weaviate.py. Every test makes collections of its own there and deletes
them. Tests of files (damage, a full disk) are of the embedded store alone.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sqlite3
import stat
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.errors import StoreError, StoreMismatch
from core.settings import WeaviateSettings
from knowledge.ports import PassageRow, Store, label_name
from knowledge.stores.labels import write_label
from knowledge.stores.sqlite.store import MAX_VECTOR_BYTES
from knowledge.stores.sqlite.tables import PAGE_BYTES
from tests.support import forked
from tests.support.stores import (
    DIMENSION,
    StoreLocation,
    forget,
    open_at,
    opened,
    put,
    random_rows,
    row,
    unit,
)
from tests.support.weaviate import name_collections

# From so many passages on, a server builds an index.
MIN_INDEXED_ROWS = 1_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "not there yet" / "passages"


@pytest.fixture(params=["sqlite-in-memory", "sqlite-compact", "weaviate"])
async def location(directory: Path, request: pytest.FixtureRequest) -> AsyncIterator[StoreLocation]:
    if request.param != "weaviate":
        yield StoreLocation(directory, {"memory_bytes": MAX_VECTOR_BYTES if request.param == "sqlite-in-memory" else 0})
        return
    server = request.getfixturevalue("weaviate_server")
    location = StoreLocation(name_collections(server), {"lease_duration_s": 1.5})
    yield location
    assert isinstance(location.where, WeaviateSettings)
    await forget(location.where)


@pytest.fixture
async def store(location: StoreLocation) -> AsyncIterator[Store]:
    async with opened(location) as store:
        yield store


def bm25(rows: Sequence[PassageRow], query: str) -> dict[str, float]:
    """The textbook formula (k1 1.2, b 0.75) over all rows. A word that the query repeats counts as often."""
    documents = {row.passage.id: Counter(row.tokens.split()) for row in rows}
    average = sum(document.total() for document in documents.values()) / len(documents)
    scores = dict.fromkeys(documents, 0.0)
    for word in query.split():
        holding = sum(word in document for document in documents.values())
        weight = math.log((len(documents) - holding + 0.5) / (holding + 0.5) + 1)
        for name, document in documents.items():
            count = document[word]
            length = document.total()
            scores[name] += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / average))
    return scores


async def test_a_store_that_was_never_written_is_empty(store: Store) -> None:
    assert await store.manifest("docs") == {}
    assert await store.search("word", unit(1), ["docs"], 5) == []
    assert (await store.vectors("docs")).shape == (0, DIMENSION)
    await store.optimize()
    await store.replace("docs", ["gone.md"], [])


async def test_what_was_put_in_comes_out(store: Store) -> None:
    passage_row = row("a", "guide/intro.md", tokens="hello world", seed=1)
    await put(store, [passage_row])
    (result,) = await store.search("hello", passage_row.vector, ["docs"], 5)
    assert result.similarity == pytest.approx(1, abs=1e-6)
    assert result.lexical > 0
    values = {name: getattr(result, name) for name in ("id", "source", "path", "title", "text", "url", "kind")}
    assert values == {name: getattr(passage_row.passage, name) for name in values}
    assert (result.start_line, result.end_line, result.score) == (3, 9, 0.0)
    np.testing.assert_allclose(await store.vectors("docs"), [passage_row.vector], rtol=1e-6)


async def test_what_has_no_vector_is_found_by_words_beside_what_has_one(store: Store) -> None:
    unfilled_row = replace(row("a", "a.md", tokens="hello world"), vector=None)
    filled_row = row("b", "b.md", tokens="hello", seed=2)
    await put(store, [unfilled_row, filled_row])
    found = {passage.id: passage for passage in await store.search("hello", filled_row.vector, ["docs"], 5)}
    assert found["a"].similarity == 0
    assert found["a"].lexical > 0
    assert found["b"].similarity == pytest.approx(1, abs=1e-6)
    documents = await store.manifest("docs")
    assert [documents[path].unfilled_count for path in ("a.md", "b.md")] == [1, 0]
    assert len(await store.vectors("docs")) == 1
    stored_rows = {item.passage.id: item.vector for item in await store.rows("docs", ["a.md", "b.md"])}
    assert stored_rows["a"] is None
    assert stored_rows["b"] is not None
    await put(store, [replace(unfilled_row, vector=unit(1))])
    assert (await store.manifest("docs"))["a.md"].unfilled_count == 0
    (nearest, *_) = sorted(await store.search("", unit(1), ["docs"], 5), key=lambda passage: -passage.similarity)
    assert nearest.id == "a"
    await store.replace("docs", ["a.md"], [])
    assert set(await store.manifest("docs")) == {"b.md"}


async def test_replacing_touches_only_its_source_and_paths(store: Store) -> None:
    await put(store, [row("a1", "a.md"), row("a2", "a.md"), row("b1", "b.md")])
    await put(store, [row("c1", "a.md", source="other")], "other")
    await put(store, [row("a1", "a.md", tokens="newer", print_="2")])
    manifest = await store.manifest("docs")
    assert {
        path: (stored_document.fingerprint, stored_document.passage_count) for path, stored_document in manifest.items()
    } == {
        "a.md": ("2", 1),
        "b.md": ("1", 1),
    }
    assert [passage.id for passage in await store.search("newer", None, ["docs", "other"], 9)] == ["a1"]
    assert await store.search("a2", None, ["docs", "other"], 9) == []
    assert len(await store.manifest("other")) == 1


async def test_paths_without_rows_are_deleted(store: Store) -> None:
    await put(store, [row("a", "a.md"), row("b", "b.md"), row("c", "c.md")])
    await store.replace("docs", ["a.md"], [])
    await store.replace("docs", ["b.md", "d.md"], [row("d", "d.md")])
    assert set(await store.manifest("docs")) == {"c.md", "d.md"}
    assert len(await store.vectors("docs")) == 2


async def test_the_label_of_a_source_is_the_last_one_and_no_document_of_it(store: Store) -> None:
    for label in ("docs#1 open a", "docs#1 closed b", "docs#1 closed b"):
        await write_label(store, "docs", [label])
        assert list(await store.manifest(label_name("docs"))) == [label]
    assert await store.manifest("docs") == {}
    assert await store.filled(["docs", label_name("docs")]) == set()


async def test_documents_without_passages_keep_their_fingerprint(store: Store) -> None:
    await store.replace("docs", ["a.md", "empty.md"], [row("a", "a.md", seed=1)], {"empty.md": "77"})
    stored_document = (await store.manifest("docs"))["empty.md"]
    assert (stored_document.fingerprint, stored_document.passage_count) == ("77", 0)
    assert [passage.id for passage in await store.search("a", unit(1), ["docs"], 9)] == ["a"]
    assert len(await store.vectors("docs")) == 1
    await store.replace("docs", ["empty.md"], [row("filled", "empty.md", print_="78")])
    stored_document = (await store.manifest("docs"))["empty.md"]
    assert (stored_document.fingerprint, stored_document.passage_count) == ("78", 1)
    await store.replace("docs", ["empty.md"], [], {"empty.md": "79"})
    assert (await store.manifest("docs"))["empty.md"].passage_count == 0
    await store.replace("docs", ["empty.md"], [])
    assert set(await store.manifest("docs")) == {"a.md"}


ODD = [
    "it's.md",
    "100%.md",
    'say "hi".md',
    "back\\slash.md",
    "日本語/ключ.md",
    "a\nb.md",
    "x'; DROP TABLE y; --",
    "%_?*",
]


async def test_odd_paths_and_sources_are_just_text(store: Store) -> None:
    source = "o'dd % source"
    await put(store, [row(f"n{n}", path, source=source) for n, path in enumerate(ODD)], source)
    assert set(await store.manifest(source)) == set(ODD)
    assert len(await store.search("n1", unit(0), [source], 20)) == len(ODD)
    for number, path in enumerate(ODD):
        await store.replace(source, [path], [])
        assert set(await store.manifest(source)) == set(ODD[number + 1 :])


async def test_thousands_of_paths_in_one_commit(store: Store) -> None:
    paths = [f"folder's/{number}.md" for number in range(5000)]
    await store.replace("docs", paths, [row(f"n{number}", path) for number, path in enumerate(paths[:300])])
    await store.replace("docs", paths, [row("last", "folder's/4999.md")])
    assert set(await store.manifest("docs")) == {"folder's/4999.md"}
    await store.replace("docs", paths, [])
    assert await store.manifest("docs") == {}


@pytest.mark.parametrize("optimized", [True, False])
@pytest.mark.parametrize("count", [400, MIN_INDEXED_ROWS + 500])
async def test_both_scores_are_true(store: Store, count: int, optimized: bool) -> None:
    ours = random_rows(count)
    theirs = random_rows(50, source="other", seed=2)
    await put(store, ours)
    await put(store, theirs, "other")
    if optimized:
        await store.optimize()
    limit = 25
    query = "word1 word7 word30 word1 unknown"
    vector = unit(5)
    passages = await store.search(query, vector, ["docs"], limit)
    lexical = bm25([*ours, *theirs], query)
    dense = {passage_row.passage.id: float(passage_row.vector @ vector) for passage_row in ours}
    for passage in passages:
        assert passage.similarity == pytest.approx(dense[passage.id], abs=1e-5)
        # Until `optimize` the word statistics are those of the indexed rows.
        assert (passage.lexical > 0) == (lexical[passage.id] > 0)
        assert not optimized or passage.lexical == pytest.approx(lexical[passage.id], rel=1e-4)
    identifiers = {passage.id for passage in passages}
    assert len(passages) == len(identifiers) <= 2 * limit
    if optimized:
        best_words = sorted((lexical[name] for name in dense), reverse=True)[:limit]
        assert sorted((item.lexical for item in passages), reverse=True)[:limit] == pytest.approx(best_words, rel=1e-4)
    nearest = sorted(dense, key=lambda name: -dense[name])[:limit]
    assert len(identifiers & set(nearest)) >= limit - 1  # the vector index is allowed to miss one


async def test_rare_words_weigh_more_where_the_store_can_count(store: Store) -> None:
    rows = [row(f"p{number}", f"{number}.md", tokens="often" + " rare" * (number == 0)) for number in range(20)]
    await put(store, rows)
    weights = await store.term_weights("often rare unknown")
    if weights:
        assert 0 < weights["often"] < weights["rare"] < weights["unknown"]
        assert weights["rare"] == pytest.approx(np.log1p((20 - 1 + 0.5) / 1.5))
        await put(store, [row("x", "x.md", source="other", tokens="often hidden")], "other")
        weights = await store.term_weights("often hidden unknown", ["docs"])
        assert weights["often"] < weights["hidden"] == weights["unknown"], "only another source has it"
    await store.replace("docs", {passage_row.passage.path for passage_row in rows}, [])
    assert await store.term_weights("") == {}


async def test_a_store_in_memory_counts_words(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as store:
        await put(store, [row("a", "a.md", tokens="word")])
        assert set(await store.term_weights("word other")) == {"word", "other"}


async def test_only_the_sources_asked_for(store: Store) -> None:
    for number, source in enumerate(("one", "two", "three")):
        await put(store, random_rows(40, source=source, seed=number + 1), source)
    passages = await store.search("word1 word2", unit(3), ["one", "three"], 30)
    assert {passage.source for passage in passages} == {"one", "three"}
    assert await store.search("word1", unit(3), [], 30) == []
    assert await store.search("word1", unit(3), ["nobody"], 30) == []


async def test_a_small_source_beside_a_big_one_is_searched_completely(store: Store) -> None:
    await put(store, random_rows(MIN_INDEXED_ROWS + 100))
    await put(store, random_rows(7, source="small", seed=9), "small")
    await store.optimize()
    assert len(await store.search("", unit(3), ["small"], 10)) == 7


async def test_one_side_alone(store: Store) -> None:
    await put(store, [row("a", "a.md", tokens="apple", seed=1), row("b", "b.md", tokens="banana", seed=2)])
    words = await store.search("banana", None, ["docs"], 5)
    assert [(passage.id, passage.similarity) for passage in words] == [("b", 0.0)]
    assert words[0].lexical > 0
    dense = await store.search("", unit(1), ["docs"], 1)
    assert [(passage.id, passage.lexical) for passage in dense] == [("a", 0.0)]
    assert await store.search("", None, ["docs"], 5) == []


@pytest.mark.parametrize("tokens", ["nowhere", "a:b AND (", '"', "*", "字 漢字", "word1 " * 3000, "-", "\\", "c++"])
async def test_any_tokens_are_just_words(store: Store, tokens: str) -> None:
    await put(store, [row("a", "a.md", tokens="word1 c++ 漢字", seed=1)])
    passages = await store.search(tokens, unit(1), ["docs"], 5)
    expected = bool(set(tokens.split()) & {"word1", "c++", "漢字"})
    assert [(passage.id, passage.lexical > 0) for passage in passages] == [("a", expected)]


async def test_long_words_and_case_are_kept(store: Store) -> None:
    long_text = "x" * 300
    await put(store, [row("a", "a.md", tokens=f"{long_text} the running café")])
    for word in (long_text, "the", "running", "café"):
        assert len(await store.search(word, None, ["docs"], 5)) == 1
    for word in ("run", "cafe", "x" * 299):
        assert await store.search(word, None, ["docs"], 5) == []


async def test_a_reader_never_sees_half_a_replacement(location: StoreLocation, store: Store) -> None:
    def version(number: int) -> list[PassageRow]:
        return [row(f"n{n}", "a.md", tokens=f"common v{number}", print_=str(number)) for n in range(number % 2 * 5 + 5)]

    await put(store, version(0))
    counts: set[int] = set()
    event = asyncio.Event()

    async def read(reader: Store) -> None:
        while not event.is_set():
            passages = await reader.search("common", unit(0), ["docs"], 50)
            counts.add(len(passages))
            manifest = await reader.manifest("docs")
            assert manifest["a.md"].passage_count == int(manifest["a.md"].fingerprint) % 2 * 5 + 5

    async with opened(location) as other, asyncio.TaskGroup() as tasks:
        tasks.create_task(read(store))
        tasks.create_task(read(other))
        for number in range(1, 20):
            await put(store, version(number))
            if number % 7 == 0:
                await store.optimize()
        event.set()
    assert counts == {5, 10}


async def test_knowledge_outlives_the_process(location: StoreLocation) -> None:
    async with opened(location) as store:
        await put(store, random_rows(100))
        await store.optimize()
    async with opened(location) as store:
        assert len(await store.manifest("docs")) == 20
        assert len(await store.search("word1", unit(1), ["docs"], 10)) > 0


async def test_closing_twice_is_fine(location: StoreLocation) -> None:
    store = await open_at(location, "test", DIMENSION)
    await put(store, [row("a", "a.md")])
    await store.close()
    await store.close()
    async with opened(location) as reopened_store:
        assert set(await reopened_store.manifest("docs")) == {"a.md"}


async def test_another_model_is_refused_and_rebuilt_on_request(location: StoreLocation) -> None:
    async with opened(location) as store:
        await put(store, [row("a", "a.md")])
    for embedder, dimension in (("other", DIMENSION), ("test", 8)):
        with pytest.raises(StoreMismatch, match=rf"test \(dimension 16.*{embedder} \(dimension {dimension}.*--rebuild"):
            await open_at(location, embedder, dimension)
    async with opened(location) as store:
        assert len(await store.manifest("docs")) == 1
    async with opened(location, "other", 8, rebuild=True) as store:
        assert await store.manifest("docs") == {}
        await store.replace("docs", ["a.md"], [PassageRow(row("a", "a.md").passage, "1", "new", unit(1, 8))])
        assert len(await store.search("new", unit(1, 8), ["docs"], 5)) == 1


async def test_a_reader_notices_a_rebuild_with_another_model(location: StoreLocation) -> None:
    async with opened(location) as store:
        await put(store, [row("a", "a.md")])
        async with opened(location, "other", 8, rebuild=True):
            await asyncio.sleep(1.1)
        with pytest.raises(StoreMismatch, match="--rebuild"):
            await store.search("a", unit(1), ["docs"], 5)


async def test_vectors_of_a_wrong_length_are_refused(store: Store) -> None:
    await put(store, [row("a", "a.md")])
    with pytest.raises(StoreMismatch, match="takes vectors of 16"):
        await store.replace("docs", ["a.md"], [PassageRow(row("a", "a.md").passage, "2", "a", unit(1, 8))])
    assert (await store.manifest("docs"))["a.md"].fingerprint == "1"


async def test_vectors_that_are_no_numbers_are_refused(store: Store) -> None:
    await put(store, [row("a", "a.md")])
    nan_vector = np.full(DIMENSION, np.nan, np.float32)
    with pytest.raises(StoreError, match=r"a passage of docs, b\.md, is no number"):
        await store.replace("docs", ["b.md"], [PassageRow(row("b", "b.md").passage, "2", "a b", nan_vector)])
    assert set(await store.manifest("docs")) == {"a.md"}
    assert [result.id for result in await store.search("a", unit(0), ["docs"], 5)] == ["a"]


async def test_a_passage_rewritten_under_the_same_fingerprint_is_found_as_new(store: Store) -> None:
    rows = [row(f"a{number}", "a.md", tokens=f"apple number{number}", seed=number) for number in range(6)]
    await put(store, rows)
    assert len(await store.search("apple", unit(0), ["docs"], 9)) == 6
    for edition in ("second", "third"):
        changed_passage = replace(rows[0].passage, title=edition, text=f"{edition} text")
        await put(store, [PassageRow(changed_passage, rows[0].fingerprint, edition, unit(77)), *rows[1:]])
        await store.optimize()
        passages = await store.search(edition, unit(77), ["docs"], 9)
        assert len(passages) == len({passage.id for passage in passages}) == 6
        best_passage = max(passages, key=lambda passage: passage.similarity)
        assert (best_passage.title, best_passage.text) == (edition, f"{edition} text")
        assert best_passage.similarity == pytest.approx(1.0, abs=0.02)
        assert best_passage.lexical > 0
    assert not [result for result in await store.search("second number0", None, ["docs"], 9) if result.lexical]


@pytest.mark.parametrize("damage", ["cut", "overwritten", "no database", "emptied of rows"])
@pytest.mark.parametrize("memory_bytes", [MAX_VECTOR_BYTES, 0])
async def test_damage_is_reported_with_the_way_out(directory: Path, damage: str, memory_bytes: int) -> None:
    async with opened(directory) as store:
        await put(store, random_rows(200))
        await store.optimize()
    file = directory / "passages.db"
    match damage:
        case "cut":
            os.truncate(file, file.stat().st_size // 2)
        case "overwritten":
            content = bytearray(file.read_bytes())
            content[PAGE_BYTES:] = os.urandom(len(content) - PAGE_BYTES)
            file.write_bytes(content)
        case "no database":
            file.write_text("not a database\n" * 1000)
        case _:
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("DELETE FROM vectors WHERE row_number % 2")
                connection.commit()
    with pytest.raises(StoreError) as error_info:
        await use(directory, memory_bytes)
    assert str(directory) in str(error_info.value)
    assert "damaged: `kimas ingest --rebuild`" in str(error_info.value)
    async with opened(directory, rebuild=True) as store:
        await put(store, random_rows(50))
        assert len(await store.search("word1", unit(1), ["docs"], 5)) > 0


async def test_what_is_stored_is_for_its_owner_alone(directory: Path) -> None:
    async with opened(directory) as store:
        await put(store, random_rows(5))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
        assert modes == dict.fromkeys(["passages.db", "passages.db-wal", "passages.db-shm"], 0o600)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


async def test_a_file_in_the_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "passages").write_text("not a store")
    with pytest.raises(StoreError, match=str(tmp_path / "passages")):
        await use(tmp_path / "passages")


async def use(directory: Path, memory_bytes: int = MAX_VECTOR_BYTES) -> None:
    async with opened(directory, memory_bytes=memory_bytes) as store:
        await store.search("word1", unit(1), ["docs"], 5)


CHILD = """
import asyncio, resource, sys
from core.errors import StoreError
from tests.support.stores import StoreLocation, opened, put, random_rows, row

async def main(location, job):
    async with opened(StoreLocation.parse(location)) as store:
        if job == "write":
            await put(store, [row("new", "new.md", tokens="fresh")])
        elif job == "fill":
            resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
            try:
                await put(store, random_rows(3000, seed=3))
            except StoreError as error:
                print("refused:", error)
        else:
            for number in range(10**6):
                await put(store, random_rows(150, seed=number + 2, per_document=50))
                print(location, flush=True)
                if number % 3 == 2:
                    await store.optimize()

async def all_at_once(locations, job):
    await asyncio.gather(*(main(location, job) for location in locations))

asyncio.run(all_at_once(sys.argv[1:-1], sys.argv[-1]))
"""


async def child(job: str, *locations: StoreLocation) -> asyncio.subprocess.Process | forked.ForkedProcess:
    """Start a process that does the job at every location at the same time."""
    return await forked.start_piped(CHILD, *(location.text() for location in locations), job)


async def test_what_another_process_writes_is_seen(location: StoreLocation) -> None:
    async with opened(location) as store:
        assert await store.search("fresh", unit(1), ["docs"], 5) == []
        writer = await child("write", location)
        assert await writer.wait() == 0
        async with asyncio.timeout(60):
            while not await store.search("fresh", unit(1), ["docs"], 5):
                await asyncio.sleep(0.1)


async def test_a_write_that_finds_no_space_changes_nothing(directory: Path) -> None:
    async with opened(directory) as store:
        rows_before = random_rows(60)
        await put(store, rows_before)
        writer = await child("fill", StoreLocation(directory, {}))
        output, _ = await writer.communicate()
        assert "refused: no space for the passage store" in output.decode()
        assert str(directory) in output.decode()
        assert len(await store.manifest("docs")) == 12
        assert len(await store.search("", rows_before[3].vector, ["docs"], 60)) == 60


async def test_killed_while_writing_it_stays_consistent(location: StoreLocation) -> None:
    # One kill meets each of them somewhere else in its write.
    locations = [location.make_other(f"n{number}") for number in range(8)]
    writer = await child("forever", *locations)
    assert writer.stdout is not None
    batches = Counter[str]()
    while len(batches) < len(locations) or min(batches.values()) < 3:
        batches[(await writer.stdout.readline()).decode().strip()] += 1
    os.kill(writer.pid, signal.SIGKILL)
    await writer.communicate()
    for location in locations:
        async with opened(location) as store:
            manifest = await store.manifest("docs")
            assert {path: stored_document.passage_count for path, stored_document in manifest.items()} == {
                f"p{n}.md": 50 for n in range(3)
            }
            passages = await store.search("word1 word2", unit(1), ["docs"], 200)
            assert len({passage.id.rsplit("-", 1)[0] for passage in passages}) == 1
            await put(store, random_rows(150, seed=1, per_document=50))
            assert len(await store.vectors("docs")) == 150
        if isinstance(location.where, WeaviateSettings):
            await forget(location.where)
