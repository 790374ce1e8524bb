"""The wiring: the only place that constructs everything. Callers may pass any part instead."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from bots.common.open_storage import has_database, open_database, open_refresh_repository, open_refreshes
from bots.common.store_owner import open_store_owner
from bots.daemon.store_outage import enter_when_reachable
from core.answering.cache import CachedAnswers, GetVersions, fingerprint
from core.answering.chat_models import ChatModels
from core.answering.context import AnswerDependencies
from core.answering.head_start_policy import HeadStartPolicy
from core.answering.image_quota import ImageQuota
from core.answering.overridden_library import OverriddenLibrary
from core.answering.quota import QuotaLimiter, max_usage_per_call
from core.answering.rewriting.rewrites import REWRITES
from core.answering.service import AnswerService
from core.answering.withholding import OutgoingFilter
from core.errors import StoreError, UsageError
from core.llm.model_sets import ModelSets
from core.llm.moderation import Moderator
from core.llm.prompts import Prompts
from core.observability.logs import get_logger, make_redactor
from core.ports import ChatModel, Library, Reranker, Sink
from core.runtime.data_dir import make_data_dir
from core.runtime.locks import refresh_lock
from core.runtime.tasks import task_group
from core.runtime.tuning import freeze_loaded, tune_interpreter
from core.settings import LiveSource, Settings
from core.settings.audience import Audiences
from core.settings.loader import get_secret_values
from core.types import Question, Reply
from knowledge.embedding import open_embedder
from knowledge.formats.attached import AttachedFileReader
from knowledge.ingestion.refresh import (
    RefreshContext,
    RefreshResult,
    fill_sources,
    purge_passages_for_others,
    refresh_sources,
)
from knowledge.ingestion.schedule import stored_sources
from knowledge.ingestion.scheduler import RefreshScheduler
from knowledge.parsing.parser import Parser
from knowledge.parsing.pool import WorkerPool
from knowledge.ports import Embedder, Store
from knowledge.reranking.rerankers import make_reranker
from knowledge.retrieval.library import KnowledgeLibrary
from knowledge.stores import NOTHING_INGESTED, open_store

if TYPE_CHECKING:
    from bots.daemon.alerts import Alerts
    from bots.daemon.feeds import FeedFollower
    from bots.daemon.gap_report import GapReporter
    from bots.daemon.monitor import Monitor
    from bots.daemon.sharing import Sharing
    from core.messaging.commands.context import CommandContext, CommandHandler, SettingsLoader
    from core.messaging.commands.dispatcher import CommandDispatcher
    from core.messaging.inbox import Inbox
    from core.messaging.policy.command_table import Command
    from core.observability.metrics import MetricsRecorder
    from core.ports import Adapter, AnswerFunction, SourceRefresher
    from core.storage.engine import Database
    from core.storage.feedback import FeedbackRepository
    from core.storage.leases import Leases
    from core.storage.messages import Journal
    from core.storage.overrides import LiveSettings, TakeUp
    from core.storage.refresh_state import RefreshStateRepository
    from knowledge.ingestion.sync import SyncProgress

_log = get_logger(__name__)

# After the latest end of the answers that a reload has overtaken, in seconds: their searches have ended by then.
CLOSE_DELAY_S = 30.0
# Deletes passages, and returns the sources that had them. Raises `KimasError`.
Purge = Callable[[], Awaitable[Sequence[str]]]


@dataclass(slots=True)
class App:
    """Everything that answers questions, opened and wired.

    `shared_library` is for whoever keeps it longer than an answer takes: `take_up` renews it.
    """

    settings: Settings
    deps: AnswerDependencies
    library: KnowledgeLibrary
    store: Store
    embedder: Embedder
    models: ModelSets
    answer_service: AnswerService
    parser: Parser
    shared_library: Library
    metrics_recorder: MetricsRecorder | None = None
    _former_libraries: dict[KnowledgeLibrary, asyncio.Task[None]] = field(default_factory=dict)

    def get_deps(self) -> AnswerDependencies:
        """Return what answers are made with."""
        return self.deps

    async def take_up(self, settings: Settings, live: LiveSettings, purge: Purge, readers: Audiences) -> None:
        """Answer from the sources and agents of other settings from now on, without the words that never leave now.

        Answers in progress end as they began. Lessons are chosen for `readers`. `purge` deletes from the store what
        must not be found by then. Raises `KimasError`; then nothing has changed, but what was deleted is read again.
        """
        parts = (settings, self.store, self.embedder, readers, _read_now(live))
        library = KnowledgeLibrary(*parts, metrics_recorder=self.metrics_recorder)
        try:
            await library.load()
            prompts = await _read_prompts(settings)
            # Last: all else that can fail has not.
            if purged_names := await purge():
                await library.reload(purged_names)
        except BaseException:
            await library.close()
            raise
        overridden_library = OverriddenLibrary(library, live.overrides, settings)
        self.deps = replace(self.deps, settings=settings, library=overridden_library, prompts=prompts)
        self.answer_service = _with_deps(self.answer_service, self.deps, library)
        if isinstance(self.shared_library, OverriddenLibrary):
            self.shared_library.follow(overridden_library)
        former_library = self.library
        former_library.stop_loading()
        # Second answers may take longer than first ones.
        answer_s = self.settings.budget.deadline_s * self.settings.feedback.effort
        close = self._close_former(former_library, answer_s + CLOSE_DELAY_S)
        self._former_libraries[former_library] = asyncio.create_task(close)
        self.library = library
        self.settings = settings

    async def reload_library(self, sources: Collection[str]) -> None:
        """Let questions see what has changed in sources."""
        await self.library.reload(sources)

    async def _close_former(self, library: KnowledgeLibrary, delay_s: float) -> None:
        """Close a library when the last answer that uses it has ended."""
        await asyncio.sleep(delay_s)
        await library.close()
        del self._former_libraries[library]

    async def close(self) -> None:
        """Close the libraries. Idempotent."""
        tasks = list(self._former_libraries.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for library in (self.library, *self._former_libraries):
            await library.close()

    async def warm_up(self) -> None:
        """Load what the first question would otherwise wait for: the clients of the models, the passages in memory."""
        await self.models.warm_up()
        await self.embedder.warm_up()
        try:
            await self.store.search("ready", None, list(self.settings.sources), 1)
        except StoreError as error:
            # The first question reports it again, to its asker.
            _log.error("store.unusable", error=str(error))
        freeze_loaded()

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink."""
        return await self.answer_service.answer(question, sink)

    async def refresh(
        self,
        names: Collection[str] = (),
        progress: Callable[[SyncProgress], None] | None = None,
        *,
        is_filling: bool = True,
    ) -> RefreshResult:
        """Refresh the named sources, or all; questions see each source as soon as it is read.

        Then their vectors are made, unless `is_filling` is off.
        """
        async with open_refreshes(self.settings) as (refresh_repository, leases):
            context = replace(self._make_refresh_context(refresh_repository), leases=leases)
            reload = self.library.reload
            result = await refresh_sources(context, names, on_progress=progress, on_changed=reload)
            if not is_filling:
                return result
            return await fill_sources(context, names, result, on_progress=progress, on_changed=reload)

    async def fill(self, progress: Callable[[SyncProgress], None] | None = None) -> RefreshResult:
        """Make the vectors that are missing in all sources; questions see them soon."""
        async with open_refreshes(self.settings) as (refresh_repository, leases):
            context = replace(self._make_refresh_context(refresh_repository), leases=leases)
            return await fill_sources(context, on_progress=progress, on_changed=self.library.reload)

    def make_refresh_scheduler(
        self, database: Database, metrics_recorder: MetricsRecorder | None = None, leases: Leases | None = None
    ) -> RefreshScheduler:
        """Return the scheduler that refreshes the sources in a daemon; `database` keeps its states.

        With `leases`, only one of several daemons refreshes a source at a time.
        """
        from core.storage.refresh_state import RefreshStateRepository

        repository = RefreshStateRepository(database)
        context = replace(self._make_refresh_context(repository), throttled=True, leases=leases)
        recorder = metrics_recorder
        return RefreshScheduler(self.settings, context, repository, self.reload_library, metrics_recorder=recorder)

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
            parser=self.parser,
            journal=settings.journal,
            audiences=Audiences.from_settings(settings),
            store_place=settings.knowledge.store.place,
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
    live: LiveSettings | None = None,
    metrics_recorder: MetricsRecorder | None = None,
    parser: Parser | None = None,
    with_answers: bool = True,
    rebuild: bool = False,
) -> AsyncIterator[App]:
    """Open what answering needs, and close it at the end of the block; `with_answers=False` opens no database.

    `rebuild` empties the store first, for another embedding model. Raises `StoreError`, `EmbeddingError`.
    """
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(make_data_dir, settings.data_dir)
        if embedder is None:
            embedder = await _open_embedder(settings, stack)
        if store is None:
            store = await _open_store(settings, embedder, stack, rebuild=rebuild)
            if database:
                from core.storage.refresh_state import RefreshStateRepository

                # Without the journal, only the terminal asks: it sees everything.
                audiences = Audiences.from_settings(settings)
                await purge_passages_for_others(store, settings, audiences, RefreshStateRepository(database))
        models = ModelSets.open(settings.models, metrics_recorder) if model is None else ModelSets()
        stack.push_async_callback(models.close)
        library = KnowledgeLibrary(settings, store, embedder, None, _read_now(live), metrics_recorder=metrics_recorder)
        stack.push_async_callback(library.close)
        await library.load()
        model = model or models.general
        if with_answers and not database:
            database = await _open_database_if_needed(settings, stack, has_model=any((model, *models.by_name.values())))
        live = live or (make_live_settings(settings, database) if database else None)
        answer_library = OverriddenLibrary(library, live.overrides, settings) if live else library
        deps = await _make_deps(settings, answer_library, reranker, model, stack)
        if parser is None:
            parser = await stack.enter_async_context(WorkerPool(settings.knowledge.parsing))
        deps = replace(
            deps,
            head_starts=HeadStartPolicy(settings.context, metrics_recorder),
            file_reader=AttachedFileReader(parser),
            transcriber=models.transcriber,
            chat_models=_make_chat_models(settings, models, live),
            mask_key=await _get_mask_key(database if with_answers else None),
        )
        outgoing = OutgoingFilter.open(settings.outgoing)
        stack.push_async_callback(outgoing.close)
        answer_service = _make_answer_service(deps, library, database if with_answers else None, live)
        answer_service = replace(answer_service, outgoing=outgoing)
        tune_interpreter()
        opened_parts = (deps, library, store, embedder, models, answer_service, parser)
        app = App(settings, *opened_parts, copy(answer_library), metrics_recorder)
        stack.push_async_callback(app.close)
        yield app


async def _get_mask_key(database: Database | None) -> bytes:
    # Without the journal, what commands ask is no part of a conversation.
    if database is None:
        return secrets.token_bytes()
    from core.storage.deployment import get_mask_key

    return await get_mask_key(database)


def _make_answer_service(
    deps: AnswerDependencies, library: KnowledgeLibrary, database: Database | None, live: LiveSettings | None
) -> AnswerService:
    if not (database and live and (deps.has_model or deps.settings.cache.enabled)):
        return AnswerService(deps)
    return make_answer_service(deps, library.get_versions, database, live)


def _read_now(live: LiveSettings | None) -> Callable[[], Audiences]:
    return lambda: live.audiences if live else Audiences()


def _with_deps(service: AnswerService, deps: AnswerDependencies, library: KnowledgeLibrary) -> AnswerService:
    """Return the service with other settings and another library, and what it counts as it is."""
    settings = deps.settings
    answers = service.cached_answers
    if answers:
        answers = replace(
            answers,
            cache=answers.cache.for_fingerprint(fingerprint(settings, deps.prompts)),
            library=deps.library,
            get_versions=library.get_versions,
            sources=tuple(settings.sources),
        )
    outgoing = replace(service.outgoing, settings=settings.outgoing) if service.outgoing else None
    deps = replace(deps, image_quota=service.deps.image_quota)
    return replace(service, deps=deps, cached_answers=answers, outgoing=outgoing)


async def _open_embedder(settings: Settings, stack: AsyncExitStack) -> Embedder:
    embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
    stack.push_async_callback(embedder.close)
    return embedder


async def _make_deps(
    settings: Settings, library: Library, reranker: Reranker | None, model: ChatModel | None, stack: AsyncExitStack
) -> AnswerDependencies:
    if reranker is None:
        reranker = make_reranker(settings.knowledge.search, settings.data_dir / "models")
        stack.push_async_callback(reranker.close)
    return AnswerDependencies(settings, library, reranker, model, await _read_prompts(settings), REWRITES)


def _make_chat_models(settings: Settings, models: ModelSets, live: LiveSettings | None) -> ChatModels:
    reranker = make_reranker(settings.knowledge.search.model_copy(update={"rerank": "embedding"}))
    return ChatModels(models.by_name, lambda: live.settings if live else settings, reranker, models.transcribers)


async def _read_prompts(settings: Settings) -> Prompts:
    agent_prompts = {name: agent.prompts for name, agent in settings.agents.items()}
    return await asyncio.to_thread(Prompts.read, settings.prompts, agent_prompts)


async def _open_store(settings: Settings, embedder: Embedder, stack: AsyncExitStack, *, rebuild: bool) -> Store:
    if rebuild:
        # Before the store is emptied: can this model fill it again?
        await embedder.embed(["ready?"])
    is_on_server = settings.knowledge.store.provider == "weaviate"
    owner = await open_store_owner(settings) if is_on_server else None
    with refresh_lock(settings.data_dir) if rebuild else nullcontext():
        store = await open_store(
            settings.knowledge.store,
            settings.data_dir,
            embedder.name,
            embedder.dimension,
            owner=owner,
            rebuild=rebuild,
        )
        stack.push_async_callback(store.close)
        if rebuild:
            async with open_refresh_repository(settings) as refresh_repository:
                await refresh_repository.mark_invalidated(stored_sources(settings.sources))
        return store


async def _open_database_if_needed(settings: Settings, stack: AsyncExitStack, *, has_model: bool) -> Database | None:
    """Open the deployment's database where answers need it, or where a command may have overridden settings."""
    if not (has_model or settings.cache.enabled or await has_database(settings)):
        return None
    database = await open_database(settings)
    stack.push_async_callback(database.close)
    return database


def make_answer_service(
    deps: AnswerDependencies, versions: GetVersions, database: Database, live: LiveSettings
) -> AnswerService:
    """Wire the quotas, the usage records and the answer cache over one database."""
    from core.storage.answer_cache import AnswerCache
    from core.storage.usage import UsageRepository

    settings = deps.settings
    answers = None
    if settings.cache.enabled:
        cache = AnswerCache(database, settings.cache, fingerprint(settings, deps.prompts))
        sources = tuple(settings.sources)
        similarity = settings.cache.similarity
        answers = CachedAnswers(cache, deps.library, versions, sources, similarity, lambda: live.audiences)
    if not deps.has_model:
        return AnswerService(deps, cached_answers=answers)
    usage_repository = UsageRepository(database)
    limiter = QuotaLimiter(live, usage_repository, max_usage_per_call(settings))
    limited_deps = replace(deps, image_quota=ImageQuota(lambda: live.settings.limits))
    return AnswerService(limited_deps, limiter, usage_repository, answers)


def make_live_settings(settings: Settings, database: Database) -> LiveSettings:
    """Return the settings in force, with the overrides that the database keeps. One object per process."""
    from core.storage.overrides import LiveSettings, RuntimeOverrides

    return LiveSettings(settings, RuntimeOverrides(database))


def make_dispatcher(
    live: LiveSettings,
    journal: Journal,
    *,
    refresher: SourceRefresher | None = None,
    reload_settings: SettingsLoader | None = None,
    take_up: TakeUp | None = None,
    library: Library | None = None,
    moderator: Moderator | None = None,
    commands: Sequence[Command] | None = None,
    extra_handlers: Mapping[str, CommandHandler] | None = None,
) -> CommandDispatcher:
    """Return the dispatcher of commands. `commands` replace the table, `extra_handlers` precede its handlers."""
    from bots.daemon.posting import start_post
    from core.messaging.commands.context import CommandContext
    from core.messaging.commands.dispatcher import CommandDispatcher
    from core.messaging.drafts import Drafts
    from core.messaging.policy.command_table import COMMANDS
    from core.messaging.policy.permissions import Permissions
    from core.storage.overrides import Audit

    audit = Audit(journal.database, lambda: live.settings.administration.audit_days)
    permissions = Permissions(live)
    drafts = Drafts(live, journal, permissions, start_post, moderator)
    steering = (refresher, reload_settings, take_up, library, moderator)
    context = CommandContext(live, journal, audit, permissions, drafts, *steering)
    return CommandDispatcher(context, COMMANDS if commands is None else commands, extra_handlers)


def make_inbox(
    journal: Journal,
    answer: AnswerFunction,
    dispatcher: CommandDispatcher,
    *,
    library: Library | None = None,
    feedback_repository: FeedbackRepository | None = None,
    service: AnswerService | None = None,
) -> Inbox:
    """Return the inbox of all adapters' messages. Without a `library` the bot never speaks unprompted.

    With a `service` its model may judge whether to speak.
    """
    from core.messaging.auto_comment.commenter import Commenter
    from core.messaging.feedback.handler import FeedbackHandler
    from core.messaging.feedback.handoff_handler import HandoffHandler
    from core.messaging.gate.gate import Gate
    from core.messaging.gate.second_opinion import SecondOpinion
    from core.messaging.handler import MessageStages
    from core.messaging.inbox import Inbox
    from core.storage.chat_history import ChatHistory
    from core.storage.feedback import FeedbackRepository
    from core.storage.lessons import TaughtAnswerRepository

    live = dispatcher.context.live
    permissions = dispatcher.context.permissions
    database = journal.database
    settings = live.settings
    feedback_repository = feedback_repository or FeedbackRepository(database)
    second_opinion = None
    if service and service.deps.has_model and service.quota_limiter and service.usage_repository:
        # It is kept longer than an answer takes, and needs no library of its own.
        deps = replace(service.deps, library=library) if library else service.deps
        second_opinion = SecondOpinion(live, deps, service.quota_limiter, service.usage_repository)
    stages = MessageStages(
        Gate(live, ChatHistory(database), library, permissions, second_opinion),
        dispatcher,
        Commenter(live, journal, answer, permissions, library),
        FeedbackHandler(settings, journal, feedback_repository, permissions, dispatcher.dispatch),
        HandoffHandler(settings, journal, TaughtAnswerRepository(database), permissions),
    )
    return Inbox(settings, journal, answer, stages)


@dataclass(frozen=True, slots=True)
class Daemon:
    """The opened parts of a daemon; its adapters each with the task that opens it."""

    app: App
    adapters: Mapping[Adapter, asyncio.Task[None]]
    feed_followers: Sequence[FeedFollower]
    inbox: Inbox
    journal: Journal
    refresh_scheduler: RefreshScheduler
    monitor: Monitor
    alerts: Alerts
    gap_reporter: GapReporter
    commands: CommandContext
    answer: AnswerFunction
    # None where this is the only daemon.
    sharing: Sharing | None = None

    @property
    def live(self) -> LiveSettings:
        """The settings in force."""
        return self.commands.live


async def open_daemon(
    settings: Settings,
    stack: AsyncExitStack,
    monitor: Monitor,
    reload_settings: SettingsLoader | None,
    *,
    dry_run: bool,
    keeps_going: bool = False,
) -> Daemon:
    """Open and wire the whole daemon; the stack closes it. Raises `KimasError`.

    With `keeps_going`, not for a platform that refuses a credential: whoever awaits its adapter learns of it.
    """
    from bots.common.dry_run import DryRunAdapter, open_daemon_journal
    from bots.daemon.adapters import make_adapters, start_opening
    from bots.daemon.alerts import make_alerts
    from bots.daemon.feeds import make_feed_followers
    from bots.daemon.gap_report import GapReporter
    from bots.daemon.sharing import join_daemons, share_work
    from core.storage.reports import ReportRepository

    recorder = monitor.metrics_recorder
    journal = await open_daemon_journal(settings, stack, recorder, dry_run=dry_run)
    leases = await stack.enter_async_context(join_daemons(settings, journal.database))
    live = make_live_settings(settings, journal.database)
    await live.publish_audiences(settings)
    if leases:
        leases.before_rejoin = live.overrides.republish_audiences
    platform_adapters = make_adapters(live, journal, read_only=dry_run)
    adapters = [DryRunAdapter(adapter) for adapter in platform_adapters] if dry_run else platform_adapters
    parser = await stack.enter_async_context(WorkerPool(settings.knowledge.parsing))
    feed_followers = make_feed_followers(settings, adapters, journal, parser)
    async with task_group() as startup_tasks:
        startup_task = startup_tasks.create_task(start_opening(adapters, stack, keeps_going=keeps_going))
        make_app = partial(open_app, settings, database=journal.database, live=live, parser=parser)
        app = await enter_when_reachable(stack, partial(make_app, metrics_recorder=recorder))
    library = app.shared_library
    scheduler = app.make_refresh_scheduler(journal.database, recorder, leases)
    dispatcher = make_dispatcher(
        live,
        journal,
        refresher=scheduler,
        reload_settings=reload_settings,
        take_up=partial(take_up_knowledge, app, scheduler, live, leases=leases),
        library=library,
        moderator=app.answer_service.get_moderator(),
    )
    answer = monitor.instrument_answer(app.answer)
    inbox = make_inbox(journal, answer, dispatcher, library=library, service=app.answer_service)
    sharing = await stack.enter_async_context(share_work(leases, inbox.share, journal.database))
    stack.push_async_callback(inbox.drain, 0)
    monitor.attach(platform_adapters, inbox, scheduler, app.models)
    alerts = make_alerts(live, journal.database, monitor, inbox.handler_for, startup_task.result())
    gap_reporter = GapReporter(alerts.sender, ReportRepository(journal.database), library, monitor.clock)
    parts = (app, alerts.sender.adapters, feed_followers, inbox, journal, scheduler, monitor, alerts, gap_reporter)
    return Daemon(*parts, dispatcher.context, answer, sharing)


async def take_up_knowledge(
    app: App,
    scheduler: RefreshScheduler,
    live: LiveSettings,
    settings: Settings,
    audiences: Audiences,
    *,
    leases: Leases | None = None,
) -> None:
    """Answer from the sources of other settings from now on: the new ones are read meanwhile. Raises `KimasError`.

    Taught answers are chosen for `audiences`.
    """
    from bots.daemon.sharing import require_reachable_store

    if leases and not stored_sources(app.settings.sources):
        await require_reachable_store(settings, leases)
    purge = partial(scheduler.purge_passages_for_others, settings, audiences)
    # What is read meanwhile is announced to the library that answers then.
    async with scheduler.notify_lock:
        await app.take_up(settings, live, purge, audiences)
    await scheduler.take_up(settings, audiences)


def require_knowledge(app: App) -> None:
    """Raise `UsageError` where nothing has been ingested and no source is live."""
    if app.library.is_empty and not any(isinstance(each, LiveSource) for each in app.settings.sources.values()):
        raise UsageError(NOTHING_INGESTED)
