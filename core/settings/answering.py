"""Settings of language models, answers, their stages and budgets, retrieval agents and the answer cache."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from core.settings.base import EVERYONE, Audience, Fraction, Name, Secret, Section, Strategy

BUILT_IN_REWRITES = ("prompt", "retrieval", "keyword", "hyde", "translation", "rule", "decompose")

# Installed packages offer their rewrites under this entry point group.
REWRITES_GROUP = "kimas.rewrites"

# Names of machines in private networks: RFC 6761, 6762, 8375, ICANN's `internal`, and the usual `lan`.
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".lan")


class BudgetSettings(Section):
    """The deadline of one answer and the shares of its optional stages."""

    deadline_s: PositiveFloat = Field(30, description="Longest time for one answer, seconds")
    second_opinion: Fraction = Field(0.15, description="Share of the deadline for asking a model whether to speak")
    look_up: Fraction = Field(0.05, description="Share of the deadline for looking for an earlier answer")
    choose: Fraction = Field(0.1, description="Share of the deadline for choosing the strategy")
    gather: Fraction = Field(0.5, description="Share of the deadline for all rounds of a multi-round strategy")
    step: Fraction = Field(0.15, description="Share of the deadline for one decision inside such a strategy")
    compress: Fraction = Field(0.1, description="Share of the deadline for shortening the passages")
    rewrite: Fraction = Field(0.15, description="Share of the deadline for completing a question from its conversation")
    requery: Fraction = Field(0.15, description="Share of the deadline for the query rewrites of one retrieval agent")
    vision: Fraction = Field(0.3, description="Share of the deadline for fetching pictures and describing them")
    context: Fraction = Field(
        0.02, description="Share of the deadline for choosing the relevant messages, counted from the question"
    )
    route: Fraction = Field(0.1, description="Share of the deadline for choosing the agents")
    search: Fraction = Field(0.25, description="Share of the deadline for the searches of all agents")
    rerank: Fraction = Field(0.1, description="Share of the deadline for reranking the passages")
    write: Fraction = Field(
        0.2, description="Share of the deadline that earlier stages must leave for writing the answer"
    )
    look_back: Fraction = Field(0.2, description="Share of the deadline for adding citations that the model left out")


class AnswerSettings(Section):
    """How answers are made."""

    history_turns: int = Field(10, ge=0, le=100, description="Number of earlier messages of a conversation to consider")
    history_hours: PositiveFloat = Field(6, description="Older messages of a conversation are forgotten, hours")
    passages: PositiveInt | None = Field(
        None, description="Maximum number of passages for an answer; null: what fits into the prompt (context_tokens)"
    )
    max_question_chars: PositiveInt = Field(4000, description="Longer questions are rejected with a hint")
    persona: str = Field("", description="Added to the summarizer's instructions")
    personas: dict[Name, str] = Field(
        default_factory=dict,
        description="By language code (zh): replaces persona for questions in that language",
    )

    def get_persona(self, language: str) -> str:
        """Return the persona for a language code of `detect_language`."""
        return self.personas.get(language, self.persona)


class ContextSettings(Section):
    """The context manager (KIMAs 3.2): which part of the conversation the other agents see."""

    complete: bool = Field(True, description="Complete a question from its conversation before the search")
    select: bool = Field(
        True, description="Show the summarizer only the relevant messages of the conversation, with an analysis"
    )
    select_min_tokens: NonNegativeInt = Field(
        300, description="A shorter conversation of the asker alone is shown whole, without that call; 0: never"
    )
    translate: bool = Field(
        True,
        description="Also search a question in the sources' language, when it is in another: one call per question",
    )
    head_start: bool = Field(
        True, description="Start the answer on the rules' result while a light model call runs; keep it if both agree"
    )
    head_start_max_extra: float = Field(
        0.15,
        ge=0,
        le=1,
        description="Tokens of discarded head starts: at most this share of those that answers needed",
    )
    head_start_min_kept: float = Field(
        0.5, ge=0, le=1, description="When a smaller share of the last head starts was kept, none is made for a while"
    )
    head_start_pause_minutes: PositiveFloat = Field(60, description="How long none is made then, minutes")


class StrategySettings(Section):
    """Which strategies the router may choose, and the limits of each (docs/answering.md)."""

    allowed: tuple[Strategy, ...] = Field(("single",), min_length=1, description="With only one, the router is skipped")
    default: Strategy = Field("single", description="Used when the router's reply is unusable; one of allowed")
    sub_questions: int = Field(4, ge=2, le=8, description="For parallel: maximum number of sub-questions")
    iterations: PositiveInt = Field(3, description="For planning: maximum number of search rounds")
    documents: PositiveInt = Field(24, description="For planning: maximum number of passages to keep")
    model_calls: PositiveInt = Field(
        8, description="For planning: maximum number of model calls (roadmap, filter, digests, decisions, repairs)"
    )
    max_retrieval_calls: PositiveInt = Field(4, description="For react: maximum number of searches")

    @model_validator(mode="after")
    def _check_default_is_allowed(self) -> StrategySettings:
        # With only one strategy there is no choice, so the default is never used.
        if len(set(self.allowed)) > 1 and self.default not in self.allowed:
            raise ValueError(
                f"default: {self.default} is not among allowed ({', '.join(self.allowed)}): "
                "add it there, or choose one of those"
            )
        return self


ScoreWeight = Annotated[float, Field(gt=0, le=10)]


class EvidenceSettings(Section):
    """Which of the retrieved passages reach the summarizer, and in which form."""

    layout: Literal["structured", "flat"] = Field(
        "structured", description="With a header per passage (structured), or only its text"
    )
    order: Literal["edges", "ranked"] = Field(
        "edges", description="edges: best passage first, second best last; ranked: best to worst"
    )
    weights: dict[Name, ScoreWeight] = Field(
        default_factory=dict, description="By source: factor for the scores of its passages, up to 10"
    )
    duplicates: float = Field(
        0.85,
        gt=0,
        le=1,
        description="Drop a passage when a better one already contains this share of it; 1: drop only copies",
    )
    support_check: Literal["none", "words"] = Field(
        "words", description="words: remove citations from sentences that the passage does not support; none: keep all"
    )


def _check_rewrite(name: str) -> str:
    if name in BUILT_IN_REWRITES:
        return name
    # Reading the entry points of all packages is slow, so only for names that are not built in.
    known_names = (
        *BUILT_IN_REWRITES,
        *sorted({entry_point.name for entry_point in entry_points(group=REWRITES_GROUP)}),
    )
    if name not in known_names:
        raise ValueError(f"no rewrite is named {name!r} (known: {', '.join(known_names)})")
    return name


Rewrite = Annotated[str, AfterValidator(_check_rewrite)]


class PairSettings(Section):
    """A question and its answer, as an example of what an agent knows."""

    question: str = Field(min_length=1, description="As users ask it")
    answer: str = Field(min_length=1, description="What the agent's sources answer")


class MixInWeightSettings(Section):
    """The weights of the kinds of mix-in: the cosine of each kind is multiplied by its weight."""

    description: float = Field(1.0, ge=0, le=1, description="Weight of the description; 0 ignores it")
    examples: float = Field(1.0, ge=0, le=1, description="Weight of the examples; 0 ignores them")
    pairs: float = Field(1.0, ge=0, le=1, description="Weight of the pairs; 0 ignores them")


class AgentSettings(Section):
    """A retrieval agent: one or a few similar sources, and hints for routing (KIMAs 3.2.2)."""

    sources: tuple[Name, ...] = Field(min_length=1, description="Names of its sources")
    audience: Audience = (EVERYONE,)
    description: str = Field("", description="For routing: what this agent knows, in the users' words")
    examples: tuple[str, ...] = Field((), description="For routing: typical questions or passages of this agent")
    pairs: tuple[PairSettings, ...] = Field((), description="For routing: typical questions with their answers")
    mix_in_weight: float = Field(0.3, ge=0, le=1, description="Weight of these three against the centroids")
    mix_in_weights: MixInWeightSettings = Field(
        MixInWeightSettings(), description="Weights of description, examples and pairs against each other"
    )
    scale: PositiveFloat = Field(1.0, description="Multiplies the routing score")
    limit: PositiveInt = Field(12, description="Maximum number of passages from this agent")
    prompts: dict[Name, Path] = Field(
        default_factory=dict, description="Prompt templates for this agent, by name as in core/llm/prompts"
    )
    compression: Literal["none", "extract", "model"] = Field(
        "none", description="none: whole passages; extract: their best sentences; model: the light model shortens them"
    )
    rewrites: tuple[Rewrite, ...] = Field(
        (),
        max_length=6,
        description="Query rewrites for this agent, in order. Built in: " + ", ".join(BUILT_IN_REWRITES),
    )
    language: str = Field(
        "", max_length=40, description="Language of its knowledge (en, English); the target of the rewrite translation"
    )
    keep_original: bool = Field(
        False, description="Search with the original question too, for knowledge in several languages"
    )
    synonyms: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Users' words or phrases, each with the terms that the knowledge uses"
    )

    def mix_ins(self) -> Mapping[str, Sequence[str]]:
        """Return the routing texts by kind, named as in `mix_in_weights`, without blank ones.

        A pair gives two texts, the question alone and with its answer: users may use the words of either.
        """
        pairs = [text for pair in self.pairs for text in (pair.question, f"{pair.question}\n{pair.answer}")]
        texts = {"description": (self.description,), "examples": self.examples, "pairs": pairs}
        return {kind: [text for text in kind_texts if text.strip()] for kind, kind_texts in texts.items()}


class CacheSettings(Section):
    """Answers that are reused if the same question is asked again in the same chat, until their sources change."""

    enabled: bool = Field(False, description="Reuse an earlier answer when the same question is asked again")
    hours: PositiveFloat = Field(24, description="How long an answer may be reused, hours")
    entries: PositiveInt = Field(1000, description="Maximum number of cached answers; the newest stay")
    similarity: float = Field(
        0.85, gt=0, le=1, description="Minimum cosine of a rephrased question; 1 requires the same words"
    )


class FallbackSettings(Section):
    """One OpenAI-compatible chat endpoint."""

    base_url: str = Field(min_length=1, description="The endpoint, for example http://localhost:11434/v1")
    model: str = Field(min_length=1, description="The model's name there")
    api_key: Secret | None = Field(None, description="Omit it if the endpoint needs none")
    temperature: float | None = Field(None, ge=0, le=2, description="null: the endpoint's default")
    max_tokens: PositiveInt = Field(1024, description="Maximum length of a reply, tokens")
    timeout_s: PositiveFloat = Field(60, description="Time limit for one whole call, seconds")
    json_schema: bool = Field(False, description="The endpoint accepts a JSON Schema for the reply")
    tools: bool = Field(False, description="The endpoint and the model support tool calling")
    starts_in_reasoning: bool = Field(
        False, description="The chat template opens a block of reasoning itself, so that replies only hold its end"
    )
    extra_body: dict[str, Any] = Field(default_factory=dict, description="Extra fields of the request body")
    price_prompt: NonNegativeFloat | None = Field(
        None, description="Price of a million prompt tokens, in any currency; null: unknown"
    )
    price_completion: NonNegativeFloat | None = Field(
        None, description="Price of a million completion tokens, in the same currency"
    )

    def is_paid(self) -> bool:
        """Return whether the model has a price; where none is given, whether it is outside of the own network."""
        prices = (self.price_prompt, self.price_completion)
        return any(prices) or (None in prices and not _is_private_host(self.base_url))


def _is_private_host(url: str) -> bool:
    host = ""
    try:
        host = urlsplit(url).hostname or ""
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        # A name without a dot is a container's or a machine's in the own network.
        return "." not in host or host.endswith(_PRIVATE_SUFFIXES)


class ModelSettings(FallbackSettings):
    """The endpoint of a role, its fallbacks, and the timeouts for all of them."""

    context_tokens: PositiveInt = Field(
        4000, description="Room for evidence in a prompt, tokens; the fallbacks need the same; not used for vision"
    )
    fallbacks: dict[Name, FallbackSettings] = Field(
        default_factory=dict, description="Other endpoints by name, tried in this order when this one fails"
    )
    first_token_s: PositiveFloat = Field(
        8, description="Maximum wait for the first token while another endpoint is left to try, seconds"
    )
    whole_s: PositiveFloat = Field(
        10, description="The same for replies that are not streamed: maximum wait for the whole reply, seconds"
    )
    stall_s: PositiveFloat = Field(20, description="Maximum pause between two tokens of a reply, seconds")
    images: bool = Field(False, description="For main: it accepts images itself, so no vision model is needed")


class CircuitSettings(Section):
    """The circuit breaker: when to stop calling a failing endpoint."""

    failures: PositiveInt = Field(3, description="Failures in a row that open the circuit")
    rest_s: PositiveFloat = Field(30, description="Time without calls before one call probes the endpoint, seconds")


class ModelsSettings(Section):
    """Language models by role. Without any, answers are extractive and nothing leaves the machine."""

    main: ModelSettings | None = Field(None, description="Writes the answers")
    light: ModelSettings | None = Field(None, description="For rewriting, decisions and look-back; default: main")
    vision: ModelSettings | None = Field(
        None, description="Describes attached screenshots; without it and main.images the bot cannot see them"
    )
    judge: ModelSettings | None = Field(
        None, description="Judges answers for kimas eval; another model than the one that writes them"
    )
    circuit: CircuitSettings = CircuitSettings()

    @model_validator(mode="after")
    def _check_vision_has_writer(self) -> ModelsSettings:
        if self.vision and not (self.main or self.light):
            raise ValueError("vision needs main or light: another model must write the answer")
        return self

    def iter_endpoints(self) -> Iterator[tuple[str, FallbackSettings]]:
        """Yield every model and fallback with its path in the configuration, such as `models.main.fallbacks.spare`."""
        roles = {"main": self.main, "light": self.light, "vision": self.vision, "judge": self.judge}
        for role, model in roles.items():
            if model is not None:
                yield f"models.{role}", model
                yield from ((f"models.{role}.fallbacks.{name}", value) for name, value in model.fallbacks.items())

    def find_paid(self) -> Sequence[str]:
        """Return the paths of the models that cost money, as far as the configuration tells."""
        # The daemon never calls the judge.
        endpoints = [(path, model) for path, model in self.iter_endpoints() if not path.startswith("models.judge")]
        return [path for path, model in endpoints if model.is_paid()]

    def estimate_question_tokens(self) -> int:
        """Return the tokens of a usual question: the answer's prompt and reply, and as much for the calls before it."""
        model = self.main or self.light or ModelSettings(base_url="-", model="-")
        return 2 * (model.context_tokens + model.max_tokens)

    def get_vision_model(self) -> ModelSettings | None:
        """Return the model that accepts images, or None."""
        writing_model = self.main or self.light
        return self.vision or (writing_model if writing_model and writing_model.images else None)
