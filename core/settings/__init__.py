"""The whole configuration as one typed model, a module per part of it.

`configuration` loads it from files, command line and environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field, model_validator

from core.settings.agents import AgentSettings
from core.settings.answering import AnswerSettings, BudgetSettings, ContextSettings, Strategy, StrategySettings
from core.settings.base import VARIABLE, Name, Secret, Section, Share
from core.settings.commenting import AutoCommentSettings
from core.settings.discord import DiscordSettings
from core.settings.evidence import EvidenceSettings
from core.settings.http import HttpSettings
from core.settings.knowledge import (
    ChunkingSettings,
    EmbeddingSettings,
    KnowledgeSettings,
    RoutingSettings,
    SearchSettings,
    StoreSettings,
    WeaviateSettings,
)
from core.settings.models import FallbackSettings, ModelSettings, ModelsSettings
from core.settings.platforms import GateSettings, TelegramSettings
from core.settings.running import JournalSettings, LogSettings, RunSettings
from core.settings.slack import SlackSettings
from core.settings.sources import (
    FaqSource,
    FeedSource,
    FilesSource,
    ForgeSource,
    GithubSource,
    GitlabSource,
    GitSource,
    HttpApiSource,
    LinkedSource,
    LiveSource,
    RemoteRagSource,
    SearchApiSource,
    SourceSettings,
    WebsiteSource,
    WebSource,
)
from core.settings.usage import CacheSettings, LimitsSettings

__all__ = [
    "VARIABLE",
    "AgentSettings",
    "AnswerSettings",
    "AutoCommentSettings",
    "BudgetSettings",
    "CacheSettings",
    "ChunkingSettings",
    "ContextSettings",
    "DiscordSettings",
    "EmbeddingSettings",
    "EvidenceSettings",
    "FallbackSettings",
    "FaqSource",
    "FeedSource",
    "FilesSource",
    "ForgeSource",
    "GateSettings",
    "GitSource",
    "GithubSource",
    "GitlabSource",
    "HttpApiSource",
    "HttpSettings",
    "JournalSettings",
    "KnowledgeSettings",
    "LimitsSettings",
    "LinkedSource",
    "LiveSource",
    "LogSettings",
    "ModelSettings",
    "ModelsSettings",
    "Name",
    "RemoteRagSource",
    "RoutingSettings",
    "RunSettings",
    "SearchApiSource",
    "SearchSettings",
    "Secret",
    "Section",
    "Settings",
    "Share",
    "SlackSettings",
    "SourceSettings",
    "StoreSettings",
    "Strategy",
    "StrategySettings",
    "TelegramSettings",
    "WeaviateSettings",
    "WebSource",
    "WebsiteSource",
]


class Settings(Section):
    """The whole configuration."""

    name: str = Field("KIMAs", min_length=1, max_length=64, description="What the bot calls itself")
    data_dir: Path = Field(
        Path("~/.local/share/kimas"), description="Passages, clones, the journal and the model's cache"
    )
    sources: dict[Name, SourceSettings] = Field(default_factory=dict)
    agents: dict[Name, AgentSettings] = Field(default_factory=dict, description="Empty: one agent per source")
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
        default_factory=dict, description="Templates of your own in place of those in core/prompts, by their name"
    )
    gate: GateSettings = GateSettings()
    telegram: TelegramSettings | None = None
    discord: DiscordSettings | None = None
    slack: SlackSettings | None = None
    http: HttpSettings | None = None
    auto_comment: AutoCommentSettings = AutoCommentSettings()
    run: RunSettings = RunSettings()
    journal: JournalSettings = JournalSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _agents_name_known_sources(self) -> Settings:
        for name, agent in self.agents.items():
            for source in agent.sources:
                if source not in self.sources:
                    known = ", ".join(sorted(self.sources)) or "none"
                    raise ValueError(f"agents.{name}.sources: no source is named {source!r} (known: {known})")
        for source in self.evidence.weights:
            if source not in self.sources:
                known = ", ".join(sorted(self.sources)) or "none"
                raise ValueError(f"evidence.weights: no source is named {source!r} (known: {known})")
        return self

    def secrets(self) -> dict[str, Secret]:
        """Return every configured secret by its dotted path, for example `models.main.api_key`."""
        return dict(_secrets(self, ()))

    def evidence_tokens(self) -> int:
        """Return the room for evidence in the prompt of the model that writes, in tokens."""
        writer = self.models.main or self.models.light or ModelSettings(base_url="-", model="-")
        return writer.context_tokens

    def retrieval_agents(self) -> dict[str, AgentSettings]:
        """Return the configured agents, or one agent per source where none are configured."""
        return dict(self.agents) or {name: AgentSettings(sources=(name,)) for name in self.sources}


def _secrets(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, Secret]]:
    if isinstance(value, Secret):
        yield ".".join(path), value
    elif isinstance(value, Section):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name), (*path, name))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, (*path, str(name)))
