"""The whole configuration as one typed model. `configuration` loads it from files, command line and environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

Share = Annotated[float, Field(gt=0, le=1)]
Strategy = Literal["none", "single", "parallel", "planning", "react", "simple"]
# Capitals only: a key pasted in place of a variable's name does not pass, so that no message repeats it.
VARIABLE = r"^[A-Z_][A-Z0-9_]*$"
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


class Section(BaseModel):
    """The base of every part: unknown keys are faults, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Secret(Section):
    """Where a secret comes from: an environment variable or a file. Never the configuration itself."""

    env: str | None = Field(None, pattern=VARIABLE, description="Name of an environment variable")
    file: Path | None = Field(None, description="A file that holds nothing but the secret")

    @model_validator(mode="after")
    def _exactly_one(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("give exactly one of env (a variable's name) or file (a path)")
        return self

    def missing(self, environment: Mapping[str, str] = os.environ) -> str:
        """Say what is missing, or return an empty string."""
        if self.env is not None:
            return "" if environment.get(self.env) else f"environment variable {self.env} is not set"
        try:
            return "" if self.value() else f"file {self.file} is empty"
        except (OSError, UnicodeDecodeError) as error:
            return f"file {self.file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"

    def value(self) -> str:
        """Return the secret. Raises `KeyError` or `OSError` when it is missing (`configuration` checks that first)."""
        return os.environ[self.env] if self.env is not None else Path(self.file or "").read_text("utf-8").strip()


class LinkedSource(Section):
    """What file-like sources share."""

    include: tuple[str, ...] = Field((), description="Git-style globs of the paths to take; none means all")
    exclude: tuple[str, ...] = Field((), description="Git-style globs of the paths to leave out")
    link: str = Field("", description="Link template with {path}, {start}, {end} and, for git, {commit}")
    max_file_kb: PositiveInt = Field(1024, description="Larger files are skipped and counted")


class FilesSource(LinkedSource):
    """A folder, or a single file."""

    kind: Literal["files"]
    path: Path = Field(description="The folder or file")


class GitSource(LinkedSource):
    """A git repository: a remote URL (cloned into the data directory) or a local path (its committed state)."""

    kind: Literal["git"]
    url: str = Field(min_length=1, description="Remote URL or local path")
    branch: str = Field("", description="Branch or tag; empty means the default branch")
    timeout_s: PositiveFloat = Field(300, description="Longest time a clone or fetch may take, seconds")


class FaqSource(Section):
    """Questions with answers, from YAML, CSV or JSON Lines."""

    kind: Literal["faq"]
    path: Path = Field(description="A file ending in .yaml, .yml, .csv or .jsonl")
    link: str = Field("", description="Link template with {path}, {start} and {end}")


SourceSettings = Annotated[FilesSource | GitSource | FaqSource, Field(discriminator="kind")]


class AgentSettings(Section):
    """A retrieval agent: one or a few similar sources, and what routing should know about them (KIMAs 3.2.2)."""

    sources: tuple[Name, ...] = Field(min_length=1, description="Names of its sources")
    description: str = Field("", description="Mixed into routing: what this agent knows, in the users' words")
    examples: tuple[str, ...] = Field((), description="Mixed into routing: questions this agent should get")
    mix_in_weight: float = Field(0.3, ge=0, le=1, description="Weight of description and examples against centroids")
    scale: PositiveFloat = Field(1.0, description="Multiplies the routing score")
    limit: PositiveInt = Field(12, description="Passages this agent returns at most")
    compression: Literal["none", "extract", "model"] = Field(
        "none", description="Raw passages, or what is made of them"
    )


class RoutingSettings(Section):
    """How questions find their agents."""

    agents: PositiveInt = Field(3, description="Agents asked per question at most")
    centroids: PositiveInt = Field(16, description="k-means centroids per agent at most")
    threshold: float = Field(0.0, ge=-1, le=1, description="Agents scoring below this are not asked")


class EmbeddingSettings(Section):
    """Which model makes the vectors: the built-in MiniLM, or an OpenAI-compatible endpoint."""

    provider: Literal["local", "openai"] = Field("local", description="local needs nothing and knows English only")
    base_url: str = Field("", description="For openai: the endpoint, for example http://localhost:11434/v1")
    model: str = Field("", description="For openai: the model's name")
    dimension: PositiveInt | None = Field(None, description="For openai: the vectors' length")
    api_key: Secret | None = None
    batch: PositiveInt = Field(64, description="For openai: texts per request")
    timeout_s: PositiveFloat = Field(30, description="For openai: longest time for one request, seconds")
    query_timeout_s: PositiveFloat = Field(1.5, description="Longest wait for a question's vector; then words alone do")

    @model_validator(mode="after")
    def _complete(self) -> EmbeddingSettings:
        if self.provider == "openai" and not (self.base_url and self.model and self.dimension):
            raise ValueError("provider openai needs base_url, model and dimension")
        return self


class ChunkingSettings(Section):
    """How long passages are, in words-and-symbols tokens as the local model counts them (about 4 characters each)."""

    tokens: int = Field(200, ge=50, le=2000, description="Length of a passage at most")


class SearchSettings(Section):
    """Hybrid search and reranking."""

    alpha: float = Field(0.5, ge=0, le=1, description="Weight of the dense score against the lexical one")
    candidates: PositiveInt = Field(100, description="Taken from each side before fusion")
    rerank: Literal["embedding", "none"] = Field("embedding", description="What orders the passages of all agents")
    min_similarity: float = Field(
        0.25, ge=-1, le=1, description="Without a language model: weaker evidence is no answer"
    )


class KnowledgeSettings(Section):
    """Everything about the passage store and how it is filled."""

    embedding: EmbeddingSettings = EmbeddingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    routing: RoutingSettings = RoutingSettings()
    search: SearchSettings = SearchSettings()
    refresh_minutes: float = Field(
        60, ge=0, description="How often `kimas run` refreshes all sources, beginning at its start; 0 means only then"
    )


class ModelSettings(Section):
    """One OpenAI-compatible chat endpoint."""

    base_url: str = Field(min_length=1, description="The endpoint, for example http://localhost:11434/v1")
    model: str = Field(min_length=1, description="The model's name there")
    api_key: Secret | None = Field(None, description="Leave out where the endpoint asks for none")
    temperature: float | None = Field(None, ge=0, le=2, description="null leaves it to the endpoint")
    max_tokens: PositiveInt = Field(1024, description="Length of a reply at most")
    timeout_s: PositiveFloat = Field(60, description="Longest time for one whole call, seconds")
    context_tokens: PositiveInt = Field(4000, description="Room for evidence in the prompt")
    json_schema: bool = Field(False, description="The endpoint can be told a reply's JSON Schema")
    tools: bool = Field(False, description="The endpoint and the model know tool calling")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="Sent as is, for what only this server knows")


class ModelsSettings(Section):
    """Language models by role. None at all: answers are extractive and nothing leaves the machine."""

    main: ModelSettings | None = Field(None, description="Writes the answers")
    light: ModelSettings | None = Field(
        None, description="For rewriting and look-back; main is used when this is empty"
    )


class BudgetSettings(Section):
    """The deadline of one answer and the shares of its optional stages."""

    deadline_s: PositiveFloat = Field(30, description="Longest time for one answer, seconds")
    choose: Share = Field(0.1, description="Share of the deadline for choosing the strategy")
    gather: Share = Field(0.5, description="Share of the deadline for all rounds of a strategy that has several")
    step: Share = Field(0.15, description="Share of the deadline for one decision inside such a strategy")
    compress: Share = Field(0.1, description="Share of the deadline for shortening the passages")
    rewrite: Share = Field(
        0.15, description="Share of the deadline for making a question complete from its conversation"
    )
    route: Share = Field(0.1, description="Share of the deadline for choosing the agents")
    search: Share = Field(0.25, description="Share of the deadline for asking the agents")
    rerank: Share = Field(0.1, description="Share of the deadline for ordering their passages")
    look_back: Share = Field(0.2, description="Share of the deadline for finding citations that the model did not give")


class AnswerSettings(Section):
    """How answers are made."""

    history_turns: int = Field(10, ge=0, le=100, description="Earlier messages of a conversation that are considered")
    passages: PositiveInt = Field(8, description="Passages that reach the summarizer at most")
    max_question_chars: PositiveInt = Field(4000, description="Longer questions are refused with a hint")
    persona: str = Field("", description="Added to the summarizer's instructions")


class StrategySettings(Section):
    """Which strategies the router may choose, and how far each may go (docs/strategies.md)."""

    allowed: tuple[Strategy, ...] = Field(("single",), min_length=1, description="One alone is used without asking")
    default: Strategy = Field("single", description="Used when the router gives no usable answer")
    sub_questions: int = Field(4, ge=2, le=8, description="For parallel: sub-questions at most")
    iterations: PositiveInt = Field(3, description="For planning: rounds of searching at most")
    documents: PositiveInt = Field(24, description="For planning: passages kept at most")
    model_calls: PositiveInt = Field(8, description="For planning: calls of the light model at most")
    max_retrieval_calls: PositiveInt = Field(4, description="For react: searches at most")


class TelegramSettings(Section):
    """One Telegram bot."""

    token: Secret = Field(description="From @BotFather")
    api_url: str = Field("https://api.telegram.org", description="Another Bot API server, for a local one")


class GateSettings(Section):
    """Where the bot may speak. Elsewhere it is silent, and the journal says why."""

    private: bool = Field(True, description="Answer in private chats")
    chats: tuple[str, ...] = Field((), description="Groups where the bot answers, as platform:chat; none means all")


class RunSettings(Section):
    """The daemon."""

    workers: PositiveInt = Field(64, description="Answers in the making at the same time")
    grace_s: PositiveFloat = Field(20, description="After SIGTERM: time to finish what is in flight")


class LogSettings(Section):
    """Where the log goes is standard error; this is how it looks. auto: console in a terminal, JSON in a service."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="From which level up")
    format: Literal["auto", "json", "console"] = Field("auto", description="One JSON object or one coloured line each")


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
    strategies: StrategySettings = StrategySettings()
    budget: BudgetSettings = BudgetSettings()
    gate: GateSettings = GateSettings()
    telegram: TelegramSettings | None = None
    run: RunSettings = RunSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _agents_name_known_sources(self) -> Settings:
        for name, agent in self.agents.items():
            for source in agent.sources:
                if source not in self.sources:
                    known = ", ".join(sorted(self.sources)) or "none"
                    raise ValueError(f"agents.{name}.sources: no source is named {source!r} (known: {known})")
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
