"""The knowledge that a measurement is made on: the configured one, or a set's own documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bots.actions import NOTHING_INGESTED
from bots.app import App, open_app
from bots.console import console, ingest_progress
from core.errors import UsageError
from core.evaluation.lines import read_cases
from core.settings import LiveSource, Settings
from knowledge.embedding import open_embedder
from knowledge.evaluation.corpus import CORPUS_FORM, Entry, corpus_store, read_entry, with_corpus
from knowledge.locks import make_data_dir


async def read_entries(corpus: Path | None) -> Sequence[Entry]:
    """Return the documents of a set, none where none is named. Raises `UsageError` for lines that cannot be used."""
    return await asyncio.to_thread(read_cases, corpus, read_entry, CORPUS_FORM) if corpus else ()


@asynccontextmanager
async def opened(settings: Settings, entries: Sequence[Entry]) -> AsyncIterator[App]:
    """Open the configured knowledge, or that of a set's own documents, of which nothing stays.

    Raises `UsageError` where nothing was ingested, `StoreError`, `EmbeddingError`.
    """
    if not entries:
        async with open_app(settings, answers=False) as app:
            if app.library.empty:
                raise UsageError(NOTHING_INGESTED)
            yield app
        return
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        tokens = settings.knowledge.chunking.tokens
        with ingest_progress(console(stderr=True)) as progress:
            filling = corpus_store(entries, embedder, chunk_tokens=tokens, progress=progress)
            store = await stack.enter_async_context(filling)
        chosen = with_corpus(settings, entries)
        yield await stack.enter_async_context(open_app(chosen, embedder=embedder, store=store, answers=False))


def without_live(settings: Settings) -> Settings:
    """Return the settings without the sources that are asked at question time: they cost, and differ every time."""
    live = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    agents = {}
    for name, agent in settings.agents.items():
        stored = tuple(source for source in agent.sources if source not in live)
        if stored:
            agents[name] = agent.model_copy(update={"sources": stored})
    sources = {name: source for name, source in settings.sources.items() if name not in live}
    return settings.model_copy(update={"sources": sources, "agents": agents})
