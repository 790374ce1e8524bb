"""Passages without a vector are ranked beside those that have one, and routed to, whatever the model does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from core.errors import EmbeddingError
from knowledge.ingestion.filling import fill
from knowledge.ingestion.sync import SyncOptions, refresh
from knowledge.ports import Store, TextKind, Vectors
from knowledge.retrieval import library as library_module
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.knowledge import DictSource, WordEmbedder, settings

FILLER = "It is about orchards and gardens in the country."
PAGES = {f"page{number}.md": f"Fruit {number} is sweet. {FILLER}" for number in range(30)} | {
    "pear.md": f"A quince pear is hard. {FILLER}"
}
OPTIONS = SyncOptions(200)


@dataclass
class QueryEmbedder(WordEmbedder):
    """Embeds queries, and passages only while it is told to."""

    takes_passages: bool = False

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        if kind == "passage" and not self.takes_passages:
            raise EmbeddingError("too slow for passages")
        return await super().embed(texts, kind)


async def open_library(store: Store, embedder: WordEmbedder, **changes: object) -> KnowledgeLibrary:
    library = KnowledgeLibrary(settings(**changes), store, embedder)
    await library.load()
    return library


async def forget_vectors(store: Store, paths: Sequence[str]) -> None:
    rows = [replace(row, vector=None) for row in await store.rows("fruit", paths)]
    await store.replace("fruit", paths, rows)


async def test_without_any_vector_a_search_ranks_as_with_all(store: Store, embedder: WordEmbedder) -> None:
    await refresh(DictSource("fruit", dict(PAGES)), store, OPTIONS)
    library = await open_library(store, embedder)
    assert (library.passage_count, library.unfilled_count, library.is_empty) == (31, 31, False)
    before = await library.search("cook", "hard quince pear", 5)
    await fill("fruit", store, embedder)
    await library.reload()
    after = await library.search("cook", "hard quince pear", 5)
    assert library.unfilled_count == 0
    assert (before[0].path, before[0].score) == (after[0].path, pytest.approx(after[0].score, abs=1e-5))
    assert before[0].path == "pear.md"


async def test_a_passage_without_a_vector_is_not_out_of_sight(store: Store, embedder: WordEmbedder) -> None:
    await refresh(DictSource("fruit", dict(PAGES)), store, OPTIONS)
    await fill("fruit", store, embedder)
    await forget_vectors(store, ["pear.md"])
    library = await open_library(store, embedder)
    assert library.unfilled_count == 1
    assert (await library.search("cook", "hard quince pear", 3))[0].path == "pear.md"
    assert [agent.name for agent in await library.route("hard quince pear")] == ["cook"]


async def test_where_no_vector_can_be_made_words_alone_rank(store: Store) -> None:
    embedder = QueryEmbedder(takes_passages=True)
    await refresh(DictSource("fruit", dict(PAGES)), store, OPTIONS)
    await fill("fruit", store, embedder)
    # The passages that have a vector share its filler with the question.
    await forget_vectors(store, [path for path in PAGES if path not in ("page1.md", "page2.md")])
    embedder.takes_passages = False
    library = await open_library(store, embedder)
    query = f"Which pear is hard? {FILLER}"
    passages = await library.search("cook", query, 31)
    assert passages[0].path == "pear.md"
    assert [passage.score for passage in passages] == [pytest.approx(passage.lexical_share) for passage in passages], (
        "nobody has an advantage"
    )
    assert len(passages) == 31


async def test_agents_are_found_by_words_before_there_are_centroids(store: Store, embedder: WordEmbedder) -> None:
    await refresh(DictSource("fruit", dict(PAGES)), store, OPTIONS)
    await refresh(DictSource("tools", {"a.md": "A hammer drives nails."}), store, OPTIONS)
    library = await open_library(store, embedder)
    assert [agent.name for agent in await library.route("quince pear")] == ["cook"]
    assert [agent.name for agent in await library.route("hammer nails")] == ["smith"]
    assert await library.route("zeppelin balloon") == []
    assert len(await library.route("zeppelin balloon", at_least_one=True)) == 1
    assert library.languages()["cook"] == ("en",), "known before there is a centroid"


async def test_a_model_that_is_down_at_the_start_is_tried_again(
    store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "MIX_IN_RETRY_S", 0.05)
    embedder.broken = True
    agents = {"cook": {"sources": ["fruit"], "description": "zeppelin balloon"}}
    await refresh(DictSource("fruit", dict(PAGES)), store, OPTIONS)
    library = KnowledgeLibrary(settings(agents=agents), store, embedder, embedder_cooldown_s=0.01)
    await library.load()
    assert [agent.name for agent in await library.route("quince pear")] == ["cook"]
    assert (await library.search("cook", "quince pear", 3))[0].path == "pear.md"
    assert await library.route("zeppelin balloon") == []
    embedder.broken = False
    async with asyncio.timeout(60):
        while not await library.route("zeppelin balloon"):
            await asyncio.sleep(0.05)
    await library.close()
