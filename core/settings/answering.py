"""Settings of language models, answers, their stages and budgets, retrieval agents and the answer cache."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal, Self
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

from core.settings.base import Address, Fraction, Name, RestrictedSection, Route, Secret, Section, Strategy

BUILT_IN_REWRITES = ("prompt", "retrieval", "keyword", "hyde", "translation", "rule", "decompose")

# Installed packages offer their rewrites under this entry point group.
REWRITES_GROUP = "kimas.rewrites"

# What models do, in the order in which they are named.
MODEL_ROLES = ("main", "light", "vision", "judge")
# Names of machines in private networks: RFC 6761, 6762, 8375, ICANN's `internal`, and the usual `lan`.
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".lan")


class BudgetSettings(Section):
    """The deadline of one answer, and the shares of its optional stages: one that takes longer is cut short."""

    deadline_s: PositiveFloat = Field(30, description="longest time for one answer, seconds")
    step: Fraction = Field(
        0.15,
        description="one call of the light model before the answer: completing the question, rewriting it for an "
        "agent, planning, filtering, deciding; two thirds of it for choosing the strategy, ordering passages and "
        "shortening them",
    )
    search: Fraction = Field(0.25, description="searching with the agents")
    gather: Fraction = Field(
        0.5,
        description="all rounds of a strategy that has several (`planning`, `react`); if nothing was found by then, "
        "KIMAs still waits for the first search",
    )
    vision: Fraction = Field(
        0.3,
        description="fetching pictures (docs/groups.md#pictures-voice-messages-and-files) and putting them into words",
    )
    write: Fraction = Field(0.2, description="reserved for writing the answer; earlier stages cannot use it")


class AnswerSettings(Section):
    """How answers are made."""

    history_turns: int = Field(10, ge=0, le=100, description="earlier messages of a conversation that are considered")
    history_hours: PositiveFloat = Field(
        6, description="older messages are forgotten, hours: a question after that begins a new conversation"
    )
    passages: PositiveInt | None = Field(
        None,
        description="passages for an answer at most; null: as many as fit into the prompt (`context_tokens` of the "
        "model); without a model 8",
    )
    persona: str = Field("", description="added to the summarizer's instructions")
    personas: dict[Name, str] = Field(
        default_factory=dict,
        description="by language code (`zh`): replaces `persona` for questions in that language",
    )

    def get_persona(self, language: str) -> str:
        """Return the persona for a language code of `detect_language`."""
        return self.personas.get(language, self.persona)


class ContextSettings(Section):
    """Which part of a conversation the bot considers (the context manager of KIMAs 3.2)."""

    complete: bool = Field(
        True,
        description="complete a question (`it`, `and on Windows?`) from its conversation before the search, and "
        "search a repeated question from another angle; `false`: every strategy, and the choice of one, "
        "sees only the question",
    )
    select: bool = Field(
        True,
        description="the summarizer sees only the messages of a conversation that matter for the question, with a "
        "sentence on what the asker wants; `false`: the whole conversation, shortened",
    )
    select_min_tokens: NonNegativeInt = Field(
        300,
        description="a conversation with fewer (estimated) tokens, in which only the asker and the bot take part, is "
        "shown whole: there is little to leave out, and the call would cost more than it saves; `0`: "
        "always select",
    )
    translate: bool = Field(
        True,
        description="if a question is in another language than the sources, or than most of them, the light model "
        "translates it once, and both versions are searched; `false` saves the call. Without a model, the words of "
        "a Chinese question are looked up in a dictionary and searched in English if the question itself finds nothing "
        "in Chinese. Agents with the "
        "rewrite `translation` translate by themselves",
    )
    head_start: bool = Field(
        True,
        description="while the light model completes a question, begin the answer on an early search, and keep it "
        "if the completed question finds the same; not where messages are selected; `false` saves the tokens of "
        "discarded answers",
    )


class StrategySettings(Section):
    """Which strategies the router may choose, and the limits of each (docs/answering.md)."""

    allowed: tuple[Route, ...] = Field(
        ("single",),
        min_length=1,
        description="of `none`, `single`, `parallel`, `planning`, `react` and `simple`; one alone is used without "
        "asking a model. With `clarify` the router may ask one question back where a question has two likely readings",
    )
    default: Strategy = Field(
        "single", description="one of the allowed ones, used if the router gives no usable answer"
    )
    sub_questions: int = Field(4, ge=2, le=8, description="for parallel: sub-questions at most")
    iterations: PositiveInt = Field(3, description="for planning: rounds of searching at most")
    documents: PositiveInt = Field(24, description="for planning: passages kept at most")
    model_calls: PositiveInt = Field(
        8,
        description="for planning: calls of the light model at most, for the roadmap, filtering, digests, decisions, "
        "and a repair of each. Not counted: choosing the strategy, completing the question, the agents' "
        "rewrites (docs/answering.md#rewriting-a-query), ordering by a model, and selecting messages",
    )
    max_retrieval_calls: PositiveInt = Field(4, description="for react: searches at most")

    @model_validator(mode="after")
    def _check_default_is_allowed(self) -> StrategySettings:
        if set(self.allowed) == {"clarify"}:
            raise ValueError("allowed: clarify alone answers nothing: add another strategy, such as single")
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

    weights: dict[Name, ScoreWeight] = Field(
        default_factory=dict,
        description="by source: factor for its passages' scores, for example `{handbook: 1.5, forum: 0.7}`; above 0, "
        "at most 10",
    )
    support_check: Literal["none", "words", "model"] = Field(
        "model",
        description="what becomes of a citation whose passage does not support the sentence. `words`: it moves to the "
        "passage that does, or is removed; `model`: the same, and the `light` model, if there is one, decides where "
        "words are in doubt; `none`: all stay as they are",
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

    question: str = Field(min_length=1, description="as users ask it")
    answer: str = Field(min_length=1, description="the answer in the agent's sources")


class MixInWeightSettings(Section):
    """The weights of the kinds of mix-in: the cosine of each kind is multiplied by its weight."""

    description: float = Field(
        1.0, ge=0, le=1, description="factor for the cosine with the description; 0 leaves it out"
    )
    examples: float = Field(1.0, ge=0, le=1, description="the same for the examples")
    pairs: float = Field(1.0, ge=0, le=1, description="the same for questions with answers")


class AgentSettings(RestrictedSection):
    """A retrieval agent: one or a few similar sources, and hints for routing (KIMAs 3.3.2)."""

    sources: tuple[Name, ...] = Field(min_length=1, examples=[["files", "faq"]], description="names of its sources")
    description: str = Field(
        "",
        description="what this agent knows, in the users' words: for routing, and for prompts, which otherwise name "
        "some of its documents",
    )
    examples: tuple[str, ...] = Field(
        (), description="for routing: questions that this agent should get, or passages of what it knows"
    )
    pairs: tuple[PairSettings, ...] = Field(
        (),
        description="for routing: questions with answers, such as `{question: How do I install it?, answer: With "
        "apt.}`",
    )
    mix_in_weight: float = Field(
        0.3,
        ge=0,
        le=1,
        description="weight of these three, the mix-in (docs/answering.md#routing), against what the passages say",
    )
    mix_in_weights: MixInWeightSettings = Field(
        MixInWeightSettings(), description="weights of the three against each other"
    )
    scale: PositiveFloat = Field(1.0, description="multiplies the routing score")
    limit: PositiveInt = Field(12, description="passages this agent returns at most")
    prompts: dict[Name, Path] = Field(
        default_factory=dict,
        description="templates for this agent alone, by their name in `core/llm/prompts`: `{compress: "
        "prompts/compress.md}`",
    )
    compression: Literal["none", "extract", "model"] = Field(
        "none",
        description="`none`: raw passages; `extract`: their sentences closest to the query; `model`: the light "
        "model's summary of them",
    )
    rewrites: tuple[Rewrite, ...] = Field(
        (),
        max_length=6,
        description="how a query is rewritten (docs/answering.md#rewriting-a-query) for this agent, in this order: "
        "`prompt`, "
        "`retrieval`, `keyword`, `hyde`, `translation`, `rule`, `decompose`, or your own; none: the "
        "question is searched unchanged",
    )
    language: str = Field(
        "",
        max_length=40,
        description="language of its knowledge, as a code or a name (`en`, `English`): what `translation` translates "
        "into",
    )
    keep_original: bool = Field(
        False,
        description="set this if its knowledge is in several languages: `translation` then adds the question in "
        "`language`, and the original question is searched as well",
    )
    synonyms: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="words or phrases of users, each with what the knowledge says instead: `{k8s: [kubernetes]}`",
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

    enabled: bool = Field(False, description="use an earlier answer when the same question is asked in the same chat")
    hours: PositiveFloat = Field(24, description="how long an answer is reused, hours")
    similarity: float = Field(
        0.85, gt=0, le=1, description="minimum cosine for a question in other words; `1`: the same words only"
    )


class EndpointSettings(Section):
    """One OpenAI-compatible endpoint."""

    base_url: Address = Field(
        min_length=1,
        examples=["https://api.openai.com/v1"],
        description="the endpoint, for example `http://localhost:11434/v1`",
    )
    model: str = Field(min_length=1, examples=["gpt-5-mini"], description="the model's name there")
    api_key: Secret | None = Field(None, description="a secret; leave it out where the endpoint asks for none")
    timeout_s: PositiveFloat = Field(60, description="longest time for one whole call, seconds")


class TranscriptionSettings(EndpointSettings):
    """An OpenAI-compatible endpoint that writes down what is said (`POST /audio/transcriptions`)."""


class FallbackSettings(EndpointSettings):
    """One OpenAI-compatible chat endpoint."""

    temperature: float | None = Field(None, ge=0, le=2, description="null: the endpoint decides; from 0 to 2")
    max_tokens: PositiveInt = Field(
        1024, description="length of a reply at most; for `judge`, which has more to write, 4096 unless you set it"
    )
    json_schema: bool = Field(
        False, description="the endpoint accepts a JSON Schema for replies; if it refuses, KIMAs continues without"
    )
    tools: bool = Field(
        False,
        description="the endpoint and the model support tool calling (used by `react`); if it refuses, KIMAs "
        "continues without",
    )
    starts_in_reasoning: bool = Field(
        False,
        description="set this to `true` if the chat template itself opens a block of reasoning (`<think>`), so that "
        "replies hold only its end. Complete blocks are always removed. Without this setting, KIMAs "
        "notices such a template at its first reply; people see the reasoning in that one",
    )
    extra_body: dict[str, Any] = Field(default_factory=dict, description="sent as is, for what only this server knows")
    price_prompt: NonNegativeFloat | None = Field(
        None, description="price of a million tokens sent, in a currency of your choice; null: unknown"
    )
    price_completion: NonNegativeFloat | None = Field(
        None, description="price of a million tokens received, in the same currency"
    )

    def is_paid(self) -> bool:
        """Return whether the model has a price; where none is given, whether it is outside of the own network."""
        prices = (self.price_prompt, self.price_completion)
        return any(prices) or (None in prices and not is_private_host(self.base_url))


def is_private_host(url: str) -> bool:
    """Return whether an address is in the own network, as far as its name tells."""
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
        4000,
        description="room for passages in the prompts, in estimated tokens: that of `main` for the answer, that of "
        "`light` (without one, `main`'s) for filtering, ordering, digests, decisions and look-back. "
        "Fallbacks need as much room",
    )
    fallbacks: dict[Name, FallbackSettings] = Field(
        default_factory=dict, description="other endpoints by name, tried in this order when this one fails"
    )
    first_token_s: PositiveFloat = Field(
        8,
        description="longest wait for the first token while another endpoint is left to try, seconds; more for models "
        "that think first; a quarter longer for replies that are not streamed",
    )
    images: bool = Field(
        False,
        description="for `main`: it can look at pictures (docs/groups.md#pictures-voice-messages-and-files) itself, no "
        "`vision` is needed",
    )

    @property
    def whole_s(self) -> float:
        """The longest wait for a reply that is not streamed while another endpoint is left to try, in seconds."""
        return 1.25 * self.first_token_s


@dataclass(frozen=True, slots=True)
class CircuitSettings:
    """When to stop calling a failing endpoint: after so many failures in a row, for so many seconds."""

    failures: int = 3
    rest_s: float = 30.0


class PrivacySettings(Section):
    """What people write, before it reaches models and services."""

    mask: Literal["remote", "always", "never"] = Field(
        "remote",
        description="secrets and personal data in questions are masked: `remote` where a model or a live source is not "
        "on this machine, `always` or `never`",
    )


class ModelSetSettings(Section):
    """Language models by what they do. Without `main` and `light`, answers are quoted from the passages."""

    main: ModelSettings | None = Field(None, description="writes the answers")
    light: ModelSettings | None = Field(
        None,
        examples=[{"base_url": "http://localhost:11434/v1", "model": "qwen3:4b"}],
        description="rewrites questions, makes small decisions, and adds missing citations; without it, `main` does "
        "this",
    )
    vision: ModelSettings | None = Field(
        None,
        examples=[{"base_url": "http://localhost:11434/v1", "model": "qwen3-vl:8b"}],
        description="puts attached pictures (docs/groups.md#pictures-voice-messages-and-files) into words; without it "
        "and without `images` of `main`, "
        "the bot says that it cannot see pictures",
    )
    transcription: TranscriptionSettings | None = Field(
        None,
        examples=[{"base_url": "http://localhost:8000/v1", "model": "Systran/faster-whisper-small"}],
        description="writes down voice messages (docs/groups.md#voice-messages); without it, the bot says that it "
        "cannot listen to them",
    )

    @model_validator(mode="after")
    def _check_vision_has_writer(self) -> Self:
        if self.vision and not (self.main or self.light):
            raise ValueError("vision needs main or light: another model must write the answer")
        return self

    def iter_endpoints(self, path: str = "models") -> Iterator[tuple[str, FallbackSettings]]:
        """Yield every model and fallback with its path in the configuration, such as `models.main.fallbacks.spare`.

        The set itself is at `path`.
        """
        for role in MODEL_ROLES:
            model: ModelSettings | None = getattr(self, role, None)
            if model is not None:
                yield f"{path}.{role}", model
                yield from ((f"{path}.{role}.fallbacks.{name}", value) for name, value in model.fallbacks.items())

    def iter_transcriptions(self, path: str = "models") -> Iterator[tuple[str, TranscriptionSettings]]:
        """Yield every endpoint for voice messages with its path in the configuration."""
        if self.transcription:
            yield f"{path}.transcription", self.transcription

    def is_local(self) -> bool:
        """Return whether every endpoint that reads text is in the own network, as far as the addresses tell."""
        return all(is_private_host(model.base_url) for _, model in self.iter_endpoints())

    def get_vision_model(self) -> ModelSettings | None:
        """Return the model that accepts images, or None."""
        writing_model = self.main or self.light
        return self.vision or (writing_model if writing_model and writing_model.images else None)


class ModelsSettings(ModelSetSettings):
    """Language models: any OpenAI-compatible endpoints. Without any, answers are quoted from the passages."""

    judge: ModelSettings | None = Field(
        None,
        examples=[{"base_url": "https://api.openai.com/v1", "model": "gpt-5"}],
        description="judges answers for `kimas eval` (docs/evaluate.md#compare-strategies); preferably not the model "
        "of `main`; the daemon never calls it",
    )
    sets: dict[Name, ModelSetSettings] = Field(
        default_factory=dict,
        examples=[{"team": {"main": {"base_url": "http://localhost:11434/v1", "model": "qwen3:8b"}}}],
        description="other models, by a name that `chats.NAME.models` gives: these alone read what is written in such "
        "a chat (docs/models.md#other-models-in-some-chats)",
    )

    def iter_endpoints(self, path: str = "models") -> Iterator[tuple[str, FallbackSettings]]:
        """Yield also the endpoints of the sets, such as `models.sets.team.main`."""
        yield from super().iter_endpoints(path)
        for name, model_set in self.sets.items():
            yield from model_set.iter_endpoints(f"{path}.sets.{name}")

    def iter_transcriptions(self, path: str = "models") -> Iterator[tuple[str, TranscriptionSettings]]:
        """Yield also those of the sets, such as `models.sets.team.transcription`."""
        yield from super().iter_transcriptions(path)
        for name, model_set in self.sets.items():
            yield from model_set.iter_transcriptions(f"{path}.sets.{name}")

    def get_set(self, name: str) -> ModelsSettings:
        """Return the models of the chats that name a set, without all others; for an unknown set none."""
        return ModelsSettings.model_construct(**dict(self.sets.get(name, ModelSetSettings())))

    def find_paid(self) -> Sequence[str]:
        """Return the paths of the models that cost money, as far as the configuration tells."""
        # The daemon never calls the judge.
        endpoints = [(path, model) for path, model in self.iter_endpoints() if not path.startswith("models.judge")]
        return [path for path, model in endpoints if model.is_paid()]

    def estimate_question_tokens(self) -> int:
        """Return the tokens of a usual question: the answer's prompt and reply, and as much for the calls before it."""
        model = self.main or self.light or ModelSettings(base_url="-", model="-")
        return 2 * (model.context_tokens + model.max_tokens)
