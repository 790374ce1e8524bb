"""A query whose words and whose meaning are apart, against the real library and its store."""

from __future__ import annotations

import pytest

from core.answering.agents.search import search
from core.answering.context import AnswerDependencies
from core.answering.rewriting.rewrites import REWRITES
from core.llm.prompts import Prompts
from core.runtime.budget import Budget
from core.settings import Settings
from knowledge.ingestion.sync import SyncOptions
from knowledge.ports import Store
from knowledge.reranking.rerankers import make_reranker
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill
from tests.support.scripted import ScriptedPeer, models

TEXTS = {
    "ledger.md": "Every payment is appended to a ledger entry with a hash.",
    "refund.md": "Money goes back to the customer within a week.",
    "weather.md": "Rain falls in the mountains during the night.",
    "music.md": "The orchestra plays a symphony in the evening.",
}
QUESTION = "How does the hash work?"
PASSAGE = "Money goes back to the customer within a week, counted from the hash."


def settings(*rewrites: str) -> Settings:
    return Settings.model_validate(
        {
            "sources": {"docs": {"kind": "files", "path": "/nowhere"}},
            "agents": {"docs": {"sources": ["docs"], "rewrites": list(rewrites)}},
        }
    )


@pytest.fixture
async def library(store: Store, embedder: WordEmbedder) -> KnowledgeLibrary:
    await read_and_fill(DictSource("docs", dict(TEXTS)), store, embedder, SyncOptions(200))
    embedder.embedded.clear()
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    return library


async def test_meaning_is_embedded_and_words_are_looked_up(library: KnowledgeLibrary, embedder: WordEmbedder) -> None:
    plain_passages = {result.path: result for result in await library.search("docs", QUESTION, 4)}
    split = {result.path: result for result in await library.search("docs", QUESTION, 4, dense_query=PASSAGE)}
    assert embedder.embedded == [QUESTION, PASSAGE]
    assert split["refund.md"].similarity > 0.7 > plain_passages["refund.md"].similarity
    assert {path: passage.lexical for path, passage in split.items()} == {
        path: passage.lexical for path, passage in plain_passages.items()
    }
    assert split["ledger.md"].lexical > 0 == split["refund.md"].lexical


async def test_hyde_changes_the_dense_side_alone(library: KnowledgeLibrary, embedder: WordEmbedder) -> None:
    configuration = settings("hyde")
    async with ScriptedPeer(rewrite_hyde=f'{{"passage": "{PASSAGE}"}}') as peer:
        model = models(peer)
        deps = AnswerDependencies(
            configuration, library, make_reranker(configuration.knowledge.search), model, Prompts.read(), REWRITES
        )
        try:
            search_result = await search(QUESTION, deps, Budget(configuration.budget))
            search_before = await search(QUESTION, deps, Budget(configuration.budget), with_rewrites=False)
        finally:
            await model.close()
    assert PASSAGE in embedder.embedded
    refreshed_passages, passages = (
        {passage.path: passage for passage in result.passages} for result in (search_result, search_before)
    )
    assert max(refreshed_passages.values(), key=lambda passage: passage.similarity).path == "refund.md"
    assert max(passages.values(), key=lambda passage: passage.similarity).path == "ledger.md"
    assert (
        max(passage.similarity for passage in refreshed_passages.values())
        <= max(passage.similarity for passage in passages.values()) + 1e-6
    )
    assert refreshed_passages["ledger.md"].lexical == passages["ledger.md"].lexical
