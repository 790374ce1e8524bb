"""The wiring. This is THE place where everything is put together; every dependency can be handed in instead."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bots.answering import Answering, open_answering
from core.errors import UsageError
from core.llm import RoleModels
from core.parts import Parts
from core.ports import Adapter, ChatModel, Reranker, Sink
from core.prompts import Prompts
from core.settings import Settings
from core.types import ConversationKey, Question, Reply
from knowledge.embedding import open_embedder
from knowledge.library import KnowledgeLibrary
from knowledge.locks import make_data_dir, refresh_lock
from knowledge.ports import Embedder, Store
from knowledge.refresh import Refreshed, refresh_sources
from knowledge.rerank import make_reranker
from knowledge.stores import open_store
from knowledge.versions import SourceVersions

if TYPE_CHECKING:
    from core.database import Database
    from core.journal import Journal
    from knowledge.sync import Progress


NO_PLATFORM = (
    "no platform is configured: add a telegram, discord, slack or http section "
    "(docs/telegram.md, docs/discord.md, docs/slack.md and docs/http.md say how)"
)


@dataclass(frozen=True, slots=True)
class App:
    """Everything that answers questions, opened and wired."""

    settings: Settings
    parts: Parts
    library: KnowledgeLibrary
    store: Store
    embedder: Embedder
    models: RoleModels | None
    answering: Answering

    async def warm_up(self) -> None:
        """Load what the first question would otherwise wait for."""
        if self.models:
            await self.models.warm_up()

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink."""
        return await self.answering.answer(question, sink)

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
    database: Database | None = None,
    answers: bool = True,
    rebuild: bool = False,
) -> AsyncIterator[App]:
    """Open what answering needs, and close it at the end of the block.

    `rebuild` empties the store first, for another embedding model. With `answers` False, for what asks nothing, no
    database is opened. Raises `StoreError`, `EmbeddingError`.
    """
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(make_data_dir, settings.data_dir)
        if embedder is None:
            embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
            stack.push_async_callback(embedder.close)
        if store is None:
            store = await _open_store(settings, embedder, rebuild=rebuild)
            stack.push_async_callback(store.close)
        models = RoleModels.open(settings.models) if model is None else None
        if models:
            stack.push_async_callback(models.close)
        library = KnowledgeLibrary(settings, store, embedder)
        stack.push_async_callback(library.close)
        await library.load()
        if reranker is None:
            reranker = make_reranker(settings.knowledge.search)
            stack.push_async_callback(reranker.close)
        parts = Parts(settings, library, reranker, model or models, await _read_prompts(settings))
        answering = await _answering(parts, store, database, stack) if answers else Answering(parts)
        gc.freeze()
        gc.enable()
        yield App(settings, parts, library, store, embedder, models, answering)


async def _read_prompts(settings: Settings) -> Prompts:
    own = {name: agent.prompts for name, agent in settings.agents.items()}
    return await asyncio.to_thread(Prompts.read, settings.prompts, own)


async def _open_store(settings: Settings, embedder: Embedder, *, rebuild: bool) -> Store:
    if rebuild:
        # Before anything is emptied: can this model fill it again?
        await embedder.embed(["ready?"])
    with refresh_lock(settings.data_dir) if rebuild else nullcontext():
        return await open_store(
            settings.knowledge.store, settings.data_dir, embedder.name, embedder.dimension, rebuild=rebuild
        )


async def _answering(parts: Parts, store: Store, database: Database | None, stack: AsyncExitStack) -> Answering:
    """Wire the limits, the ledger and earlier answers, over a database of its own where none is handed in."""
    if parts.model is None and not parts.settings.cache.enabled:
        return Answering(parts)
    if database is None:
        database = await open_database(parts.settings)
        stack.push_async_callback(database.close)
    return open_answering(parts, SourceVersions(store).of, database)


async def open_database(settings: Settings) -> Database:
    """Open the database of a deployment: its journal, its ledger and the answers to be given again."""
    from core.database import Database

    return await Database.open(settings.data_dir / "journal.db")


async def open_journal(settings: Settings) -> Journal:
    """Open the journal of a deployment."""
    from core.journal import Journal

    return Journal(await open_database(settings))


def make_adapters(settings: Settings, journal: Journal) -> list[Adapter]:
    """Return an adapter per configured platform. Raises `UsageError` when none is configured."""
    adapters: list[Adapter] = []
    if settings.telegram:
        from bots.telegram.adapter import TelegramAdapter

        # Another bot's updates are numbered anew. The part of a token before the colon is the bot's id, no secret.
        bot = settings.telegram.token.value().split(":")[0]
        adapters.append(TelegramAdapter(settings.telegram, Offsets(journal, f"telegram:{bot}")))
    if settings.discord:
        from bots.discord.adapter import DiscordAdapter

        adapters.append(DiscordAdapter(settings.discord, Positions(journal, "discord")))
    if settings.slack:
        from bots.slack.adapter import SlackAdapter

        async def answered_in(key: ConversationKey) -> bool:
            return bool(await journal.conversation(key, 1))

        adapters.append(SlackAdapter(settings.slack, answered_in))
    if settings.http:
        from bots.http.adapter import HttpAdapter

        adapters.append(HttpAdapter(settings.http))
    if not adapters:
        raise UsageError(NO_PLATFORM)
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


@dataclass(frozen=True, slots=True)
class Positions:
    """Many numbers of one platform, kept in the journal by their names."""

    journal: Journal
    platform: str

    async def load(self, name: str) -> int | None:
        """Return a number, or None when it was never saved."""
        return await self.journal.position(f"{self.platform}:{name}")

    async def save(self, name: str, position: int) -> None:
        """Keep a number."""
        await self.journal.advance(f"{self.platform}:{name}", position)
