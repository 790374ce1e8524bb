"""Typing errors are corrected on a server as with files: one search for hundreds of words finds those in use."""

from __future__ import annotations

from core.answering.agents.spelling import correct_spelling
from core.language.spelling import prepare_english_words
from core.runtime.budget import Budget
from core.settings import BudgetSettings, WeaviateSettings
from knowledge.ingestion.sync import SyncOptions
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill, settings
from tests.support.weaviate import opened


async def test_a_mistyped_word_is_read_as_its_neighbour(
    weaviate_settings: WeaviateSettings, embedder: WordEmbedder
) -> None:
    await prepare_english_words()
    pages = {f"{number}.md": f"Pages in markdown have metadata, number {number}." for number in range(4)}
    async with opened(weaviate_settings, dimension=embedder.dimension) as store:
        await read_and_fill(DictSource("fruit", pages), store, embedder, SyncOptions(200))
        library = KnowledgeLibrary(settings(), store, embedder)
        await library.load()
        budget = Budget(BudgetSettings())
        corrected = await correct_spelling("markdwon metadtaa with zeppelinn", library, budget)
        assert corrected == "markdown metadata with zeppelinn"
        assert not budget.degraded
        assert await correct_spelling("markdwon", library.restricted_to(["tools"]), budget) == "markdwon"
