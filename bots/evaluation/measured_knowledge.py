"""The knowledge that a measurement runs on: the configured sources, or a separate corpus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bots.common.terminal import ingest_progress, make_console
from bots.daemon.bootstrap import App, open_app, require_knowledge
from bots.evaluation.datasets import (
    CORPUS_LINE_FORMAT,
    CorpusDocument,
    corpus_store,
    read_cases,
    read_corpus_document,
    with_corpus,
)
from core.runtime.data_dir import make_data_dir
from core.settings import LiveSource, Settings
from knowledge.embedding import open_embedder
from knowledge.stores import require_ingested


async def read_corpus_entries(corpus: Path | None) -> Sequence[CorpusDocument]:
    """Return the documents of a corpus file, none without one. Raises `UsageError` for unusable lines."""
    return await asyncio.to_thread(read_cases, corpus, read_corpus_document, CORPUS_LINE_FORMAT) if corpus else ()


@asynccontextmanager
async def open_knowledge(settings: Settings, corpus_entries: Sequence[CorpusDocument]) -> AsyncIterator[App]:
    """Open the configured knowledge, or that of a corpus, which is deleted at the end.

    Raises `UsageError` where nothing was ingested, `StoreError`, `EmbeddingError`.
    """
    if not corpus_entries:
        if settings.sources:
            await require_ingested(settings)
        async with open_app(settings, with_answers=False) as app:
            require_knowledge(app)
            yield app
        return
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        chunk_tokens = settings.knowledge.chunking.tokens
        with ingest_progress(make_console(stderr=True)) as progress:
            corpus_context = corpus_store(corpus_entries, embedder, chunk_tokens=chunk_tokens, on_progress=progress)
            store = await stack.enter_async_context(corpus_context)
        corpus_settings = with_corpus(settings, corpus_entries)
        yield await stack.enter_async_context(
            open_app(corpus_settings, embedder=embedder, store=store, with_answers=False)
        )


def without_live_sources(settings: Settings) -> Settings:
    """Return the settings without the sources that are asked at question time: they cost, and differ every time."""
    live_sources = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    agents = {}
    for name, agent in settings.agents.items():
        stored_sources = tuple(source for source in agent.sources if source not in live_sources)
        if stored_sources:
            agents[name] = agent.model_copy(update={"sources": stored_sources})
    sources = {name: source for name, source in settings.sources.items() if name not in live_sources}
    return settings.model_copy(update={"sources": sources, "agents": agents})
