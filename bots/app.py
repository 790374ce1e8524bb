"""The wiring. This is THE place where everything is put together; every dependency can be handed in instead."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.answer import answer
from core.errors import UsageError
from core.llm import RoleModels
from core.parts import Parts
from core.ports import Adapter, ChatModel, Reranker, Sink
from core.prompts import Prompts
from core.settings import Settings
from core.types import Question, Reply
from knowledge.embedding import open_embedder
from knowledge.library import KnowledgeLibrary
from knowledge.locks import make_data_dir, refresh_lock
from knowledge.ports import Embedder, Store
from knowledge.refresh import Refreshed, refresh_sources
from knowledge.rerank import make_reranker
from knowledge.stores.lance import open_lance

if TYPE_CHECKING:
    from core.journal import Journal
    from knowledge.sync import Progress


@dataclass(frozen=True, slots=True)
class App:
    """Everything that answers questions, opened and wired."""

    settings: Settings
    parts: Parts
    library: KnowledgeLibrary
    store: Store
    embedder: Embedder
    models: RoleModels | None

    async def warm_up(self) -> None:
        """Load what the first question would otherwise wait for."""
        if self.models:
            await self.models.warm_up()

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink."""
        return await answer(question, sink, self.parts)

    async def refresh(
        self, names: Collection[str] = (), progress: Callable[[Progress], None] | None = None
    ) -> Refreshed:
        """Bring the named sources (or all) up to date; questions see each as soon as it is done."""
        settings = self.settings
        return await refresh_sources(
            settings.sources,
            names,
            self.store,
            self.embedder,
            settings.data_dir,
            chunk_tokens=settings.knowledge.chunking.tokens,
            progress=progress,
            news=self.library.reload,
        )


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    embedder: Embedder | None = None,
    store: Store | None = None,
    model: ChatModel | None = None,
    reranker: Reranker | None = None,
    rebuild: bool = False,
) -> AsyncIterator[App]:
    """Open what answering needs, and close it at the end of the block.

    `rebuild` empties the store first, for another embedding model. Raises `StoreError`, `EmbeddingError`.
    """
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(make_data_dir, settings.data_dir)
        if embedder is None:
            embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
            stack.push_async_callback(embedder.close)
        if store is None:
            directory = settings.data_dir / "passages"
            if rebuild:
                # Before anything is emptied: can this model fill it again?
                await embedder.embed(["ready?"])
            with refresh_lock(settings.data_dir) if rebuild else nullcontext():
                store = await open_lance(directory, embedder.name, embedder.dimension, rebuild=rebuild)
            stack.push_async_callback(store.close)
        models = RoleModels.open(settings.models) if model is None else None
        if models:
            stack.push_async_callback(models.close)
        library = KnowledgeLibrary(settings, store, embedder)
        stack.push_async_callback(library.close)
        await library.load()
        reranker = reranker or make_reranker(settings.knowledge.search)
        own_prompts = {name: agent.prompts for name, agent in settings.agents.items()}
        prompts = await asyncio.to_thread(Prompts.read, settings.prompts, own_prompts)
        parts = Parts(settings, library, reranker, model or models, prompts)
        gc.freeze()
        gc.enable()
        yield App(settings, parts, library, store, embedder, models)


async def open_journal(settings: Settings) -> Journal:
    """Open the journal of a deployment."""
    from core.journal import Journal

    return await Journal.open(settings.data_dir / "journal.db")


def make_adapters(settings: Settings, journal: Journal) -> list[Adapter]:
    """Return an adapter per configured platform. Raises `UsageError` when none is configured."""
    adapters: list[Adapter] = []
    if settings.telegram:
        from bots.telegram.adapter import TelegramAdapter

        # Another bot's updates are numbered anew. The part of a token before the colon is the bot's id, no secret.
        bot = settings.telegram.token.value().split(":")[0]
        adapters.append(TelegramAdapter(settings.telegram, Offsets(journal, f"telegram:{bot}")))
    if not adapters:
        raise UsageError("no platform is configured: add a telegram section (docs/telegram.md says how)")
    return adapters


@dataclass(frozen=True, slots=True)
class Offsets:
    """One platform's place in its stream of updates, kept in the journal."""

    journal: Journal
    name: str

    async def load(self) -> int | None:
        """Return the place, or None at the first start."""
        return await self.journal.position(self.name)

    async def save(self, offset: int) -> None:
        """Keep the place."""
        await self.journal.advance(self.name, offset)
