"""The wiring. This is THE place where everything is put together; every dependency can be handed in instead."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.answering.context.dependencies import Parts
from core.answering.service import Answering, open_answering
from core.errors import StoreError, UsageError
from core.llm.prompts import Prompts
from core.llm.role_models import RoleModels
from core.observability.logs import logger, redactor
from core.ports import ChatModel, Library, Reranker, Sink
from core.runtime.locks import make_data_dir, refresh_lock
from core.settings import Settings
from core.settings.loader import secret_values
from core.types import Question, Reply
from knowledge.embedding import open_embedder
from knowledge.ingestion.refresh import Refreshed, Refreshing, refresh_sources
from knowledge.ingestion.scheduler import Keeper
from knowledge.ingestion.stored_sources import stored
from knowledge.ports import Embedder, Store
from knowledge.reranking.rerankers import make_reranker
from knowledge.retrieval.expiry_filter import Unexpired
from knowledge.retrieval.library import KnowledgeLibrary
from knowledge.retrieval.source_versions import SourceVersions
from knowledge.stores import open_store

if TYPE_CHECKING:
    from core.observability.recorder import Meter
    from core.storage.engine import Database
    from core.storage.messages import Journal
    from core.storage.refresh_state import UpkeepRecord
    from knowledge.ingestion.sync import Progress


async def open_database(settings: Settings, name: str = "journal.db") -> Database:
    """Open the database of a deployment: its journal, its ledger and the answers to be given again."""
    from core.storage.engine import Database

    return await Database.open(settings.data_dir / name)


@asynccontextmanager
async def open_record(settings: Settings) -> AsyncIterator[UpkeepRecord]:
    """Open the record of refreshes, and close its database at the end of the block."""
    from core.storage.refresh_state import UpkeepRecord

    database = await open_database(settings)
    try:
        yield UpkeepRecord(database)
    finally:
        await database.close()


async def open_journal(settings: Settings, name: str = "journal.db", meter: Meter | None = None) -> Journal:
    """Open the journal of a deployment."""
    from core.storage.messages import Journal

    return Journal(await open_database(settings, name), meter)


__all__ = ["App", "open_app", "open_database", "open_journal", "open_record"]

# How long a thread may keep the interpreter from the event loop, in seconds; Python's own is five times as long. With
# 200 conversations at once that made 41 ms of processor time an answer 31, and the longest stall a third shorter.
SWITCH_S = 0.001


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
        """Load what the first question would otherwise wait for: the model's client, and the passages into memory."""
        if self.models:
            await self.models.warm_up()
        try:
            await self.store.search("ready", None, list(self.settings.sources), 1)
        except StoreError as fault:
            # The first question says so again, to whoever asked.
            logger(__name__).error("store.unusable", error=str(fault))
        # What stays for good need not be looked through again: the event loop would stand still for that, some 60 ms.
        gc.collect()
        gc.freeze()

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink."""
        return await self.answering.answer(question, sink)

    async def refresh(
        self, names: Collection[str] = (), progress: Callable[[Progress], None] | None = None
    ) -> Refreshed:
        """Bring the named sources (or all) up to date; questions see each as soon as it is done."""
        async with open_record(self.settings) as record:
            return await refresh_sources(self._refreshing(record), names, progress=progress, news=self.library.reload)

    def keeper(self, database: Database, meter: Meter | None = None) -> Keeper:
        """Return what keeps the sources up to date in a daemon. Its states are in the daemon's database."""
        from core.storage.refresh_state import UpkeepRecord

        record = UpkeepRecord(database)
        work = replace(self._refreshing(record), gently=True)
        return Keeper(self.settings, work, record, self.library.reload, meter=meter)

    def _refreshing(self, record: UpkeepRecord) -> Refreshing:
        settings = self.settings
        return Refreshing(
            settings.sources,
            self.store,
            self.embedder,
            settings.data_dir,
            settings.knowledge.chunking.tokens,
            record,
            redactor(secret_values(settings)),
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
    meter: Meter | None = None,
    answers: bool = True,
    rebuild: bool = False,
) -> AsyncIterator[App]:
    """Open what answering needs, and close it at the end of the block; without `answers` no database is opened.

    `rebuild` empties the store first, for another embedding model. Raises `StoreError`, `EmbeddingError`.
    """
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(make_data_dir, settings.data_dir)
        if embedder is None:
            embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
            stack.push_async_callback(embedder.close)
        if store is None:
            store = await _open_store(settings, embedder, rebuild=rebuild)
            stack.push_async_callback(store.close)
        models = RoleModels.open(settings.models, meter) if model is None else None
        if models:
            stack.push_async_callback(models.close)
        library = await _open_library(settings, store, embedder, meter, stack)
        if reranker is None:
            reranker = make_reranker(settings.knowledge.search)
            stack.push_async_callback(reranker.close)
        database = await _database(settings, model or models, stack) if answers and not database else database
        steered = _steered(library, settings, database)
        parts = Parts(settings, steered, reranker, model or models, await _read_prompts(settings))
        answering = _answering(parts, store, database) if answers else Answering(parts)
        sys.setswitchinterval(SWITCH_S)
        gc.freeze()
        gc.enable()
        yield App(settings, parts, library, store, embedder, models, answering)


async def _open_library(
    settings: Settings, store: Store, embedder: Embedder, meter: Meter | None, stack: AsyncExitStack
) -> KnowledgeLibrary:
    library = KnowledgeLibrary(settings, store, embedder, meter=meter)
    stack.push_async_callback(library.close)
    await library.load()
    return library


async def _read_prompts(settings: Settings) -> Prompts:
    own = {name: agent.prompts for name, agent in settings.agents.items()}
    return await asyncio.to_thread(Prompts.read, settings.prompts, own)


async def _open_store(settings: Settings, embedder: Embedder, *, rebuild: bool) -> Store:
    if rebuild:
        # Before anything is emptied: can this model fill it again?
        await embedder.embed(["ready?"])
    with refresh_lock(settings.data_dir) if rebuild else nullcontext():
        store = await open_store(
            settings.knowledge.store, settings.data_dir, embedder.name, embedder.dimension, rebuild=rebuild
        )
        if rebuild:
            async with open_record(settings) as record:
                await record.emptied(stored(settings.sources))
        return store


async def _database(settings: Settings, model: ChatModel | None, stack: AsyncExitStack) -> Database | None:
    """Open the deployment's database where answers need one, or where a command may have switched something off."""
    there = await asyncio.to_thread((settings.data_dir / "journal.db").exists)
    if not (model or settings.cache.enabled or there):
        return None
    database = await open_database(settings)
    stack.push_async_callback(database.close)
    return database


def _steered(library: KnowledgeLibrary, settings: Settings, database: Database | None) -> Library:
    """Return the library as commands have changed it, where there is a database that could say so."""
    if database is None:
        return library
    from core.answering.overridden_library import SteeredLibrary
    from core.storage.overrides import Steering

    return SteeredLibrary(library, settings, Steering(database))


def _answering(parts: Parts, store: Store, database: Database | None) -> Answering:
    """Wire the limits, the ledger and earlier answers."""
    if database is None or (parts.model is None and not parts.settings.cache.enabled):
        return Answering(parts)
    # An answer made from results that are no longer shown must not be given again.
    shown = Unexpired(store, parts.settings.sources, parts.settings.data_dir)
    return open_answering(parts, SourceVersions(shown).of, database)


NOTHING_INGESTED = "nothing has been ingested yet: run `kimas ingest` first"


def require_knowledge(app: App) -> None:
    """Raise `UsageError` where nothing has been ingested."""
    if app.library.empty:
        raise UsageError(NOTHING_INGESTED)
