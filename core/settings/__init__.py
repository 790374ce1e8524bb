"""The whole configuration as one typed model, a module per part of it.

`core.settings.loader` loads it from files, command line and environment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, model_validator

from core.settings.alerts import AlertsSettings as AlertsSettings
from core.settings.answering import (
    AgentSettings as AgentSettings,
    AnswerSettings as AnswerSettings,
    BudgetSettings as BudgetSettings,
    CacheSettings as CacheSettings,
    ContextSettings as ContextSettings,
    EvidenceSettings as EvidenceSettings,
    FallbackSettings as FallbackSettings,
    ModelSetSettings as ModelSetSettings,
    ModelSettings as ModelSettings,
    ModelsSettings as ModelsSettings,
    PrivacySettings as PrivacySettings,
    StrategySettings as StrategySettings,
    TranscriptionSettings as TranscriptionSettings,
    is_private_host as is_private_host,
)
from core.settings.audience import check_audiences
from core.settings.base import (
    API_PLATFORM,
    ENV_VARIABLE_PATTERN as ENV_VARIABLE_PATTERN,
    Name as Name,
    Secret as Secret,
    Section as Section,
    Strategy as Strategy,
)
from core.settings.chats import Chat as Chat
from core.settings.gate import (
    ASKER_PLATFORMS,
    UNPROMPTED_MODES,
    ChatSettings as ChatSettings,
    GateMode as GateMode,
    GateSettings as GateSettings,
)
from core.settings.knowledge import (
    ChunkingSettings as ChunkingSettings,
    EmbeddingSettings as EmbeddingSettings,
    KnowledgeSettings as KnowledgeSettings,
    ParsingSettings as ParsingSettings,
    RoutingSettings as RoutingSettings,
    SearchSettings as SearchSettings,
    StoreSettings as StoreSettings,
    WeaviateSettings as WeaviateSettings,
)
from core.settings.limits import AUTO, AUTO_QUESTIONS, LimitsSettings as LimitsSettings
from core.settings.messaging import (
    AdministrationSettings as AdministrationSettings,
    ApiSettings as ApiSettings,
    AutoCommentSettings as AutoCommentSettings,
    BlueskySettings as BlueskySettings,
    BotSettings as BotSettings,
    DiscordSettings as DiscordSettings,
    FeedbackSettings as FeedbackSettings,
    GithubSettings as GithubSettings,
    GitlabSettings as GitlabSettings,
    HandoffSettings as HandoffSettings,
    HttpSettings as HttpSettings,
    JournalSettings as JournalSettings,
    LogSettings as LogSettings,
    MastodonSettings as MastodonSettings,
    MetricsSettings as MetricsSettings,
    OperatorPageSettings as OperatorPageSettings,
    PageSettings as PageSettings,
    Platform as Platform,
    PlatformSettings as PlatformSettings,
    PlatformsSection as PlatformsSection,
    RunSettings as RunSettings,
    SlackSettings as SlackSettings,
    TelegramSettings as TelegramSettings,
    TracingSettings as TracingSettings,
)
from core.settings.outgoing import (
    ModerationSettings as ModerationSettings,
    OutgoingSettings as OutgoingSettings,
)
from core.settings.sources import (
    DocumentSource as DocumentSource,
    FaqSource as FaqSource,
    FeedSource as FeedSource,
    FilesSource as FilesSource,
    ForgeSource as ForgeSource,
    GithubSource as GithubSource,
    GitlabSource as GitlabSource,
    GitSource as GitSource,
    HttpApiSource as HttpApiSource,
    LearnedSource as LearnedSource,
    LinkedSource as LinkedSource,
    LiveSource as LiveSource,
    MappedSource as MappedSource,
    McpSource as McpSource,
    OwnSource as OwnSource,
    RefreshSettings as RefreshSettings,
    RemoteRagSource as RemoteRagSource,
    SearchApiSource as SearchApiSource,
    SourceSettings as SourceSettings,
    StandingSource as StandingSource,
    StoredSource as StoredSource,
    WebsiteSource as WebsiteSource,
)

_VALUES_WITHOUT_SECRETS = (str, int, float, tuple, list, frozenset, Path)


class Settings(PlatformsSection):
    """The whole configuration."""

    name: str = Field("KIMAs", min_length=1, max_length=64, description="what the bot calls itself")
    data_dir: Path = Field(
        Path("~/.local/share/kimas"),
        description="passages, clones, the journal and the embedding model; use one per configuration: KIMAs deletes "
        "the data of other sources in it. A downloaded model is also kept in the account's cache "
        "(`~/.cache/kimas`)",
    )
    sources: dict[Name, SourceSettings] = Field(
        default_factory=dict,
        description="what the bot knows: names of your choice, each with a kind; paths are relative to the file's "
        "folder",
    )
    agents: dict[Name, AgentSettings] = Field(
        default_factory=dict,
        description="retrieval agents, by name; without any, one agent per source (a standing source shares the agent "
        "of its live source)",
    )
    knowledge: KnowledgeSettings = KnowledgeSettings()
    models: ModelsSettings = ModelsSettings()
    answer: AnswerSettings = AnswerSettings()
    context: ContextSettings = ContextSettings()
    strategies: StrategySettings = StrategySettings()
    budget: BudgetSettings = BudgetSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    cache: CacheSettings = CacheSettings()
    limits: LimitsSettings = LimitsSettings()
    prompts: dict[Name, Path] = Field(
        default_factory=dict,
        description="your own templates instead of those in `core/llm/prompts`, by name: `{summarizer: "
        "prompts/summarizer.md}`",
    )
    gate: GateSettings = GateSettings()
    chats: dict[Chat, ChatSettings] = Field(
        default_factory=dict,
        description="what is different in some chats, by chat",
    )
    administration: AdministrationSettings = AdministrationSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    handoff: HandoffSettings = HandoffSettings()
    bots: dict[Name, BotSettings] = Field(
        default_factory=dict,
        examples=[
            {
                "support": {"telegram": {"token": {"env": "SUPPORT_BOT_TOKEN"}}},
                "partners": {"discord": {"token": {"env": "PARTNERS_BOT_TOKEN"}}},
            }
        ],
        description="further bots beside the sections `telegram`, `discord`, `slack`, `mastodon`, `bluesky`, `github`, "
        "`gitlab` and `http`, see docs/groups.md#several-bots",
    )
    auto_comment: AutoCommentSettings = AutoCommentSettings()
    outgoing: OutgoingSettings = OutgoingSettings()
    privacy: PrivacySettings = PrivacySettings()
    run: RunSettings = RunSettings()
    journal: JournalSettings = JournalSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()
    alerts: AlertsSettings = AlertsSettings()
    operator_page: OperatorPageSettings = OperatorPageSettings()
    api: ApiSettings = ApiSettings()
    _files: frozenset[Path] = PrivateAttr(frozenset())

    @model_validator(mode="after")
    def _check_source_references(self) -> Settings:
        for name, agent in self.agents.items():
            for source in agent.sources:
                _require_known(f"agents.{name}.sources", "source", source, self.sources)
        live_names = [name for name, settings in self.sources.items() if isinstance(settings, LiveSource)]
        for name, settings in self.sources.items():
            if isinstance(settings, StandingSource):
                _require_known(f"sources.{name}.of", "live source", settings.of, live_names)
        for chat, chat_settings in self.chats.items():
            for source in chat_settings.sources:
                _require_known(f"chats.{chat}.sources", "source", source, self.sources)
            self._check_whole_agents(chat, chat_settings.sources)
            self._check_answers(chat, chat_settings)
            _check_client(chat, chat_settings)
            if chat_settings.models is not None:
                _require_known(f"chats.{chat}.models", "set of models.sets", chat_settings.models, self.models.sets)
        for source in self.evidence.weights:
            _require_known("evidence.weights", "source", source, self.sources)
        check_audiences(self)
        self._check_servers()
        return self

    def _check_servers(self) -> None:
        """Raise `ValueError` for bots on two servers of one kind of forge: both may have the same names."""
        for platform in ("github", "gitlab"):
            servers = {
                urlsplit(section.api_url).netloc.lower(): f"bots.{name}.{platform}" if name else platform
                for name, _, section in self.get_bots(platform)
                if isinstance(section, GithubSettings | GitlabSettings)
            }
            if len(servers) > 1:
                first, second, *_ = servers.values()
                raise ValueError(
                    f"{second}.api_url: it is on another server than {first}, where the same logins and projects may "
                    "be others: run a second daemon for it"
                )

    def _check_answers(self, chat: str, chat_settings: ChatSettings) -> None:
        """Raise `ValueError` where answers are for the asker alone, and cannot be."""
        if chat_settings.answers == "everyone":
            return
        path = f"chats.{chat}.answers"
        if chat.partition(":")[0] not in ASKER_PLATFORMS:
            raise ValueError(
                f"{path}: only Slack and Discord can show an answer to the asker alone: remove it, and let people ask "
                "in a private chat with the bot"
            )
        if self.get_mode(chat, private=False) in UNPROMPTED_MODES:
            raise ValueError(
                f"{path}: asker does not go with the mode {self.get_mode(chat, private=False)}, in which the bot "
                f"answers what nobody asked it: set chats.{chat}.mode to mention"
            )

    def _check_whole_agents(self, chat: str, sources: Collection[str]) -> None:
        """Raise `ValueError` for a source whose agents all search something else, too: it would not be searched."""
        agents = self.retrieval_agents()
        searched = {
            source for agent in agents.values() if set(sources).issuperset(agent.sources) for source in agent.sources
        }
        for source in sources:
            if source not in searched:
                others = {other for agent in agents.values() if source in agent.sources for other in agent.sources}
                names = ", ".join(sorted(others - set(sources)))
                together = f"only together with {names}: name these too" if names else "by no agent"
                raise ValueError(
                    f"chats.{chat}.sources: {source} is searched {together}; or give {source} an agent of its own"
                )

    def secrets(self) -> dict[str, Secret]:
        """Return every configured secret by its dotted path, for example `models.main.api_key`."""
        return dict(iter_secrets(self))

    def with_files(self, files: Iterable[Path]) -> Settings:
        """Return the same configuration, which knows the files that it was read from."""
        settings = self.model_copy()
        settings._files = frozenset(map(Path.absolute, files))
        return settings

    def list_private_files(self) -> frozenset[Path]:
        """Return the files of this configuration, its queries, prompts and secrets: no source tells of them."""
        files = [secret.file for secret in self.secrets().values()]
        # The prompts of an agent may tell of sources that are not for everyone.
        prompts = (self.prompts, *(agent.prompts for agent in self.agents.values()))
        files += [path for templates in prompts for path in templates.values()]
        files += [source.queries_file for source in self.sources.values() if isinstance(source, StandingSource)]
        return self._files.union(filter(None, files))

    def get_chat(self, chat: str) -> ChatSettings:
        """Return what is different in a chat (`platform:chat`)."""
        return self.chats.get(chat, ChatSettings())

    def get_mode(self, chat: str, *, private: bool) -> GateMode:
        """Return the mode of a chat (`platform:chat`). A private chat is off only if `chats` says so."""
        return self.get_chat(chat).mode or ("mention" if private else self.gate.mode)

    def get_drafts_chat(self, chat: str) -> str | None:
        """Return where the drafts of a chat (`platform:chat`) go; None: nowhere."""
        return self.get_chat(chat).drafts_to or self.gate.drafts_to

    def get_threshold(self, chat: str) -> float:
        """Return the threshold of a chat (`platform:chat`)."""
        threshold = self.get_chat(chat).threshold
        return self.gate.threshold if threshold is None else threshold

    def with_moved_chats(self, moves: Mapping[str, str]) -> Settings:
        """Return the same configuration where what it says of a chat's former id holds for its present one as well.

        What it says of the present one goes first. An audience does not follow: it would open something by itself.
        """
        if not moves:
            return self

        def follow(entry: str | None) -> str | None:
            return moves.get(entry, entry) if entry else entry

        formers = {moves[chat]: chat_settings for chat, chat_settings in self.chats.items() if chat in moves}
        chats = {
            chat: chat_settings.model_copy(update={"drafts_to": follow(chat_settings.drafts_to)})
            for chat, chat_settings in {**formers, **self.chats}.items()
        }
        gate_changes = {
            "chats": (*self.gate.chats, *(moves[chat] for chat in self.gate.chats if chat in moves)),
            "drafts_to": follow(self.gate.drafts_to),
        }
        alerts = self.alerts.model_copy(update={"chats": tuple(moves.get(chat, chat) for chat in self.alerts.chats)})
        gate = self.gate.model_copy(update=gate_changes)
        return self.model_copy(update={"chats": chats, "gate": gate, "alerts": alerts})

    def get_bots(self, platform: str = "") -> list[tuple[str, Platform, PlatformSettings]]:
        """Return the bots (of one platform) as name, platform and section; those with the name "" come first."""
        default_bot = BotSettings.model_construct(**{name: getattr(self, name) for name in get_args(Platform)})
        all_bots = [("", default_bot), *self.bots.items()]
        entries = [
            (name, bot_platform, section) for name, bot in all_bots for bot_platform, section in bot.iter_platforms()
        ]
        return [entry for entry in entries if platform in ("", entry[1])]

    def get_daily_limit(self, name: str) -> float | None:
        """Return the daily limit of this name that is in force, without what commands have set; None for none."""
        value: float | Literal["auto"] | None = getattr(self.limits, name)
        if value != AUTO:
            return value
        return AUTO_QUESTIONS[name] * self.models.estimate_question_tokens() if self.models.find_paid() else None

    def evidence_tokens(self, role: Literal["main", "light"] = "main") -> int:
        """Return the room for evidence in a prompt of the main or the light model, in tokens."""
        models = self.models
        candidates = (models.main, models.light) if role == "main" else (models.light, models.main)
        model = candidates[0] or candidates[1] or ModelSettings(base_url="-", model="-")
        return model.context_tokens

    def retrieval_agents(self) -> dict[str, AgentSettings]:
        """Return the configured agents, or one agent per source where none are configured.

        Standing queries then belong to the agent of their live source.
        """
        if self.agents:
            return dict(self.agents)
        sources_by_agent: dict[str, list[str]] = {}
        for name, source in self.sources.items():
            sources_by_agent.setdefault(source.of if isinstance(source, StandingSource) else name, []).append(name)
        return {name: AgentSettings(sources=tuple(sources)) for name, sources in sources_by_agent.items()}

    def describe_source(self, name: str) -> str:
        """Return what the agents that have a source say of what they know; empty where they say nothing."""
        agents = self.agents.values()
        return "; ".join(agent.description for agent in agents if name in agent.sources and agent.description)

    def without_models(self) -> Settings:
        """Return the same configuration for what needs no language model, so that no key of one is read."""
        return self.model_copy(update={"models": ModelsSettings()})

    def with_models_of(self, chat: str) -> Settings:
        """Return the same configuration with the models of a chat (`platform:chat`), and no others."""
        name = self.get_chat(chat).models
        return self if name is None else self.with_set(name)

    def with_set(self, name: str) -> Settings:
        """Return the same configuration with the models of a set, and no others.

        If these are all in the own network, no reranker and no moderation elsewhere gets the text either.
        """
        models = self.models.get_set(name)
        knowledge = self.knowledge
        outgoing = self.outgoing
        if models.is_local():
            search = knowledge.search
            if search.rerank == "api" and not is_private_host(search.reranker.url):
                search = search.model_copy(update={"rerank": "embedding"})
                knowledge = knowledge.model_copy(update={"search": search})
            if outgoing.moderation.base_url and not is_private_host(outgoing.moderation.base_url):
                outgoing = outgoing.model_copy(update={"moderation": ModerationSettings()})
        return self.model_copy(update={"models": models, "knowledge": knowledge, "outgoing": outgoing})

    def restricted_to(self, sources: Collection[str]) -> Settings:
        """Return the settings without other sources, and without agents that have one of those."""
        visible_names = set(sources)
        if visible_names.issuperset(self.sources):
            return self
        agents = {
            name: agent for name, agent in self.retrieval_agents().items() if visible_names.issuperset(agent.sources)
        }
        # Without agents each source would be one: a source that no agent is left for goes, too.
        kept_names = {source for agent in agents.values() for source in agent.sources}
        kept_sources = {name: source for name, source in self.sources.items() if name in kept_names}
        return self.model_copy(update={"sources": kept_sources, "agents": agents})


def _check_client(chat: str, chat_settings: ChatSettings) -> None:
    """Raise `ValueError` for a program or the page in a mode that it cannot have: who asks there is answered."""
    if not chat.startswith(f"{API_PLATFORM}:"):
        return
    for name in ("mode", "threshold", "drafts_to"):
        if getattr(chat_settings, name) is not None:
            raise ValueError(
                f"chats.{chat}.{name}: programs and visitors of the page are answered at once, in no mode: remove it. "
                "To answer them no more, remove the client from api.clients, or switch off api.page.enabled"
            )


def _require_known(location: str, kind: str, name: str, known_names: Collection[str]) -> None:
    if name not in known_names:
        names = ", ".join(sorted(known_names)) or "none"
        raise ValueError(f"{location}: no {kind} is named {name!r} (known: {names})")


def iter_secrets(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Secret]]:
    """Yield every secret of a section by its dotted path."""
    if isinstance(value, Secret):
        yield ".".join(path), value
        return
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, Section):
        items = value
    elif isinstance(value, Mapping):
        items = value.items()
    for name, item in items:
        # Nearly everything is one of these, and each opening of a configuration asks several times.
        if item is not None and not isinstance(item, _VALUES_WITHOUT_SECRETS):
            yield from iter_secrets(item, (*path, str(name)))
