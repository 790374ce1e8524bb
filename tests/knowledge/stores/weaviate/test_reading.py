"""What a Weaviate server sends when passages are searched and vectors are read: no more than is used."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import grpc  # type: ignore[import-untyped]
import httpx
import numpy as np
import pytest
import weaviate
from weaviate.connect.v4 import ConnectionAsync

from core.errors import StoreError
from core.settings import WeaviateSettings
from knowledge.ports import label_name
from knowledge.stores.labels import write_label
from knowledge.stores.sqlite.store import open_sqlite
from knowledge.stores.weaviate import store as weaviate_store
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.schema import PASSAGES, Commit, Visibility
from knowledge.stores.weaviate.word_weights import MAX_WORDS
from tests.support.stores import DIMENSION, put, random_rows, row, unit
from tests.support.weaviate import connect_cluster, opened


def record_replies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the server will answer to searches from now on."""
    replies = list[Any]()
    grpc_search = ConnectionAsync.grpc_search

    async def record(connection: ConnectionAsync, request: Any) -> object:
        replies.append(await grpc_search(connection, request))
        return replies[-1]

    monkeypatch.setattr(ConnectionAsync, "grpc_search", record)
    return replies


async def test_a_search_reads_neither_tokens_nor_vectors(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(f"n{number}", f"n{number}.md", tokens=f"melon w{number}", seed=number) for number in range(20)]
    async with opened(weaviate_settings) as store:
        await put(store, rows)
        replies = record_replies(monkeypatch)
        passages = {passage.id: passage for passage in await store.search("melon w3", unit(7), ["docs"], 4)}
    assert {"n3", "n7"} <= passages.keys()
    for number in (3, 7):
        passage = passages[f"n{number}"]
        assert passage.similarity == pytest.approx(float(unit(number) @ unit(7)), abs=1e-5)
        assert passage.lexical > 0
    content = b"".join(reply.SerializeToString() for reply in replies)
    assert b"Text of n3" in content
    assert b"melon" not in content
    assert not any(result.metadata.vector_bytes or result.metadata.vectors for r in replies for result in r.results)


async def test_vectors_are_read_without_texts(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start reads thousands of them."""
    async with opened(weaviate_settings) as store:
        await put(store, [row(f"n{number}", f"n{number}.md", tokens="melon", seed=number) for number in range(9)])
        replies = record_replies(monkeypatch)
        assert (await store.vectors("docs")).shape == (9, DIMENSION)
    content = b"".join(reply.SerializeToString() for reply in replies)
    assert b"Text of" not in content
    assert b"melon" not in content


async def test_which_sources_have_passages_is_known_without_counting_them(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon asks every two seconds, and to count objects the server reads each of them."""
    requests = []
    grpc_aggregate = ConnectionAsync.grpc_aggregate

    async def note(connection: ConnectionAsync, request: object) -> object:
        requests.append(request)
        return await grpc_aggregate(connection, request)  # type: ignore[arg-type]

    monkeypatch.setattr(ConnectionAsync, "grpc_aggregate", note)
    async with opened(weaviate_settings) as store:
        await put(store, [row("a", "a.md"), row("b", "b.md")])
        await put(store, [row("c", "c.md", source="other")], "other")
        await store.replace("other", ["c.md"], [])
        assert requests, "a write counts what it has written"
        requests.clear()
        assert await store.filled(["docs", "other", "never"]) == {"docs"}
    assert not requests


async def test_a_label_that_is_known_takes_one_request(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each search asks for the labels of all sources that it found something in."""
    requests = []
    grpc_search, grpc_aggregate = ConnectionAsync.grpc_search, ConnectionAsync.grpc_aggregate

    async def note_search(connection: ConnectionAsync, request: object) -> object:
        requests.append(request)
        return await grpc_search(connection, request)  # type: ignore[arg-type]

    async def note_count(connection: ConnectionAsync, request: object) -> object:
        requests.append(request)
        return await grpc_aggregate(connection, request)  # type: ignore[arg-type]

    monkeypatch.setattr(ConnectionAsync, "grpc_search", note_search)
    monkeypatch.setattr(ConnectionAsync, "grpc_aggregate", note_count)
    async with opened(weaviate_settings) as store, opened(weaviate_settings) as other_store:
        await write_label(store, "docs", ["docs#1 open a"])
        await store.manifest(label_name("docs"))
        requests.clear()
        assert list(await store.manifest(label_name("docs"))) == ["docs#1 open a"]
        assert await store.manifest(label_name("never")) == {}
        assert len(requests) == 2
        await write_label(other_store, "docs", ["docs#2 closed b"])
        assert list(await store.manifest(label_name("docs"))) == ["docs#2 closed b"]


async def test_passages_that_have_not_changed_are_counted_once(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refresh asks for the manifest, and to count the passages of one source the server reads all of them."""
    counted_sources = []
    count_visible = Cluster.count_visible

    async def note(cluster: Cluster, name: str, visibility: Visibility) -> int:
        counted_sources.extend(visibility)
        return await count_visible(cluster, name, visibility)

    monkeypatch.setattr(Cluster, "count_visible", note)
    async with opened(weaviate_settings) as store, connect_cluster(weaviate_settings) as cluster:
        await put(store, [row("a", "a.md"), row("b", "b.md")])
        first = await store.manifest("docs")
        assert await store.manifest("docs") == first
        assert counted_sources == ["docs"]
        await put(store, [row("b", "b.md", seed=5)])
        await store.manifest("docs")
        assert len(counted_sources) == 2, "a write may have lost some"
        monkeypatch.setattr(weaviate_store, "RECOUNT_S", 0.0)
        await store.manifest("docs")
        assert len(counted_sources) == 3
        monkeypatch.setattr(weaviate_store, "RECOUNT_S", 3600.0)
        async for page in cluster.pages(PASSAGES, {"docs": Commit(9)}):
            await cluster.delete_object(PASSAGES, page[0].id)
        assert sum(document.is_damaged for document in (await store.manifest("docs")).values()) == 1


async def test_of_a_large_source_an_even_sample_of_its_vectors_is_read(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weaviate_store, "MAX_SAMPLED_VECTORS", 100)
    rows = [replace(item, vector=unit(number % 2)) for number, item in enumerate(random_rows(1200))]
    async with opened(weaviate_settings) as store:
        await put(store, rows)
        vectors = await store.vectors("docs")
        np.testing.assert_array_equal(await store.vectors("docs"), vectors)
    assert len(vectors) == 100
    assert 20 < np.isclose(vectors, unit(1), atol=1e-5).all(axis=1).sum() < 80


async def test_words_weigh_what_they_weigh_in_files(tmp_path: Path, weaviate_settings: WeaviateSettings) -> None:
    """The server does not tell it. The mean length of the passages is that of a sample: there are more."""
    rows = [*random_rows(1200, seed=4), row("long", "long.md", tokens="word7 rare " * 40)]
    files = await open_sqlite(tmp_path / "files", "test", DIMENSION)
    try:
        async with opened(weaviate_settings) as store:
            for each in (files, store):
                await put(each, rows)
                await put(each, [row("b", "b.md", source="other", tokens="word3 hidden")], "other")
            for sources in (None, ["docs"], ["docs", "other"]):
                weights = await store.term_weights("word3 rare word7 hidden unknown", sources)
                assert weights == pytest.approx(
                    await files.term_weights("word3 rare word7 hidden unknown", sources), rel=0.04
                )
            assert await store.term_weights("word3", []) == {}
    finally:
        await files.close()


async def test_few_words_are_looked_up_and_once(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []
    find_word = Cluster.find_word

    async def note(cluster: Cluster, word: str, sources: list[str] | None) -> object:
        looked_up.append(word)
        return await find_word(cluster, word, sources)

    monkeypatch.setattr(Cluster, "find_word", note)
    text = " ".join(f"word{number}" for number in range(1000))
    async with opened(weaviate_settings) as store:
        assert await store.term_weights(text) == {}, "nothing is stored"
        await put(store, [row("a", "a.md", tokens="word999")])
        for _ in range(3):
            assert len(await store.term_weights(text)) == MAX_WORDS
        assert sorted(looked_up) == sorted({f"word{number}" for number in range(1000 - MAX_WORDS, 1000)})
        alone = (await store.term_weights("word999"))["word999"]
        # What is written meanwhile counts: a word that two of three passages have says more than one that all have.
        weighing = asyncio.create_task(store.term_weights(text))
        await put(store, [row("b", "b.md", tokens="word999"), row("c", "c.md", tokens="other")])
        await weighing
        assert (await store.term_weights("word999"))["word999"] > alone


CLIENT_FOLDERS = [f"{Path(module.__file__ or '').parent}{os.sep}" for module in (weaviate, grpc, httpx)]


@contextmanager
def note_calls_of_the_client() -> Iterator[set[str]]:
    """Note which functions of the client and of what it sends through are called in this thread."""
    calls = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(tuple(CLIENT_FOLDERS)):
            calls.add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def test_the_event_loop_of_the_conversations_does_nothing_of_the_client(
    weaviate_settings: WeaviateSettings,
) -> None:
    """It makes objects of the replies, some milliseconds for each, and many replies may come in one turn of a loop."""
    rows = [row(f"n{number}", f"n{number}.md", tokens="melon", seed=number) for number in range(9)]
    with note_calls_of_the_client() as calls:
        async with opened(weaviate_settings) as store:
            await put(store, rows)
            found = await asyncio.gather(*(store.search("melon", unit(number), ["docs"], 9) for number in range(9)))
            assert [len(passages) for passages in found] == [9] * 9
            assert len(await store.rows("docs", ["n1.md"])) == 1
            assert len(await store.vectors("docs")) == len(await store.manifest("docs")) == 9
            assert await store.filled(["docs"]) == {"docs"}
            assert await store.term_weights("melon")
            with pytest.raises(StoreError, match="vector"):
                await put(store, [replace(rows[0], vector=unit(1, DIMENSION + 1))])
        assert calls == set()
        async with connect_cluster(weaviate_settings) as cluster:
            assert await cluster.count_all(PASSAGES) == 9
        assert calls, "here it would be seen"
