"""The wiring. This is THE place where everything is put together; every dependency can be handed in instead."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bots.common.open_storage import open_database, open_journal, open_refresh_repository
from core.answering.context.dependencies import AnswerDependencies
from core.answering.rewriting.strategies import REWRITES
from core.answering.service import AnswerService, make_answer_service
from core.errors import StoreError, UsageError
from core.llm.prompts import Prompts
from core.llm.role_models import RoleChatModel
from core.observability.logs import get_logger, make_redactor
from core.ports import ChatModel, Library, Reranker, Sink
from core.runtime.locks import make_data_dir, refresh_lock
from core.settings import Settings
from core.settings.loader import get_secret_values
from core.types import Question, Reply
from knowledge.embedding import open_embedder
from knowledge.ingestion.refresh import RefreshContext, RefreshResult, refresh_sources
from knowledge.ingestion.schedule import stored_sources
from knowledge.ingestion.scheduler import RefreshScheduler
from knowledge.ports import Embedder, Store
from knowledge.reranking.rerankers import make_reranker
from knowledge.retrieval.expiry_filter import ExpiryFilteringStore
from knowledge.retrieval.library import KnowledgeLibrary
from knowledge.retrieval.source_versions import SourceVersions
from knowledge.stores import open_store

if TYPE_CHECKING:
    from core.observability.recorder import MetricsRecorder
    from core.storage.engine import Database
    from core.storage.refresh_state import RefreshStateRepository
    from knowledge.ingestion.sync import Progress


__all__ = ["App", "open_app", "open_database", "open_journal", "open_refresh_repository"]

# How long a thread may keep the interpreter from the event loop, in seconds; Python's own is five times as long. With
# 200 conversations at once that made 41 ms of processor time an answer 31, and the longest stall a third shorter.
THREAD_SWITCH_INTERVAL_S = 0.001


@dataclass(frozen=True, slots=True)
class App:
    """Everything that answers questions, opened and wired."""

    settings: Settings
    deps: AnswerDependencies
    library: KnowledgeLibrary
    store: Store
    embedder: Embedder
    models: RoleChatModel | None
    answer_service: AnswerService

    async def warm_up(self) -> None:
        """Load what the first question would otherwise wait for: the model's client, and the passages into memory."""
        if self.models:
            await self.models.warm_up()
        try:
            await self.store.search("ready", None, list(self.settings.sources), 1)
        except StoreError as error:
            # The first question says so again, to whoever asked.
            get_logger(__name__).error("store.unusable", error=str(error))
        # What stays for good need not be looked through again: the event loop would stand still for that, some 60 ms.
        gc.collect()
        gc.freeze()

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink."""
        return await self.answer_service.answer(question, sink)

    async def refresh(
        self, names: Collection[str] = (), progress: Callable[[Progress], None] | None = None
    ) -> RefreshResult:
        """Bring the named sources (or all) up to date; questions see each as soon as it is done."""
        async with open_refresh_repository(self.settings) as refresh_repository:
            return await refresh_sources(
                self._make_refresh_context(refresh_repository),
                names,
                on_progress=progress,
                on_changed=self.library.reload,
            )

    def make_refresh_scheduler(
        self, database: Database, metrics_recorder: MetricsRecorder | None = None
    ) -> RefreshScheduler:
        """Return what keeps the sources up to date in a daemon. Its states are in the daemon's database."""
        from core.storage.refresh_state import RefreshStateRepository

        refresh_repository = RefreshStateRepository(database)
        refresh_context = replace(self._make_refresh_context(refresh_repository), throttled=True)
        return RefreshScheduler(
            self.settings, refresh_context, refresh_repository, self.library.reload, meter=metrics_recorder
        )

    def _make_refresh_context(self, refresh_repository: RefreshStateRepository) -> RefreshContext:
        settings = self.settings
        return RefreshContext(
            settings.sources,
            self.store,
            self.embedder,
            settings.data_dir,
            settings.knowledge.chunking.tokens,
            refresh_repository,
            make_redactor(get_secret_values(settings)),
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
    metrics_recorder: MetricsRecorder | None = None,
    with_answers: bool = True,
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
        models = RoleChatModel.open(settings.models, metrics_recorder) if model is None else None
        if models:
            stack.push_async_callback(models.close)
        library = await _open_library(settings, store, embedder, metrics_recorder, stack)
        if reranker is None:
            reranker = make_reranker(settings.knowledge.search)
            stack.push_async_callback(reranker.close)
        database = (
            await _open_database_if_needed(settings, model or models, stack)
            if with_answers and not database
            else database
        )
        overridden_library = _apply_overrides(library, settings, database)
        prompts = await _read_prompts(settings)
        deps = AnswerDependencies(settings, overridden_library, reranker, model or models, prompts, REWRITES)
        answer_service = _make_answer_service(deps, store, database) if with_answers else AnswerService(deps)
        sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)
        gc.freeze()
        gc.enable()
        yield App(settings, deps, library, store, embedder, models, answer_service)


async def _open_library(
    settings: Settings,
    store: Store,
    embedder: Embedder,
    metrics_recorder: MetricsRecorder | None,
    stack: AsyncExitStack,
) -> KnowledgeLibrary:
    library = KnowledgeLibrary(settings, store, embedder, meter=metrics_recorder)
    stack.push_async_callback(library.close)
    await library.load()
    return library


async def _read_prompts(settings: Settings) -> Prompts:
    agent_prompts = {name: agent.prompts for name, agent in settings.agents.items()}
    return await asyncio.to_thread(Prompts.read, settings.prompts, agent_prompts)


async def _open_store(settings: Settings, embedder: Embedder, *, rebuild: bool) -> Store:
    if rebuild:
        # Before anything is emptied: can this model fill it again?
        await embedder.embed(["ready?"])
    with refresh_lock(settings.data_dir) if rebuild else nullcontext():
        store = await open_store(
            settings.knowledge.store, settings.data_dir, embedder.name, embedder.dimension, rebuild=rebuild
        )
        if rebuild:
            async with open_refresh_repository(settings) as refresh_repository:
                await refresh_repository.mark_invalidated(stored_sources(settings.sources))
        return store


async def _open_database_if_needed(
    settings: Settings, model: ChatModel | None, stack: AsyncExitStack
) -> Database | None:
    """Open the deployment's database where answers need one, or where a command may have switched something off."""
    journal_exists = await asyncio.to_thread((settings.data_dir / "journal.db").exists)
    if not (model or settings.cache.enabled or journal_exists):
        return None
    database = await open_database(settings)
    stack.push_async_callback(database.close)
    return database


def _apply_overrides(library: KnowledgeLibrary, settings: Settings, database: Database | None) -> Library:
    """Return the library as commands have changed it, where there is a database that could say so."""
    if database is None:
        return library
    from core.answering.overridden_library import OverriddenLibrary
    from core.storage.overrides import RuntimeOverrides

    return OverriddenLibrary(library, settings, RuntimeOverrides(database))


def _make_answer_service(deps: AnswerDependencies, store: Store, database: Database | None) -> AnswerService:
    """Wire the limits, the ledger and earlier answers."""
    if database is None or (deps.model is None and not deps.settings.cache.enabled):
        return AnswerService(deps)
    # An answer made from results that are no longer shown must not be given again.
    unexpired_store = ExpiryFilteringStore(store, deps.settings.sources, deps.settings.data_dir)
    return make_answer_service(deps, SourceVersions(unexpired_store).get_versions, database)


NOTHING_INGESTED = "nothing has been ingested yet: run `kimas ingest` first"


def require_knowledge(app: App) -> None:
    """Raise `UsageError` where nothing has been ingested."""
    if app.library.is_empty:
        raise UsageError(NOTHING_INGESTED)
