"""Settings of language models, answers, their stages and budgets, retrieval agents, the answer cache and quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Fraction, Name, Secret, Section, Strategy


class BudgetSettings(Section):
    """The deadline of one answer and the shares of its optional stages."""

    deadline_s: PositiveFloat = Field(30, description="Longest time for one answer, seconds")
    look_up: Fraction = Field(0.05, description="Share of the deadline for looking for an earlier answer")
    choose: Fraction = Field(0.1, description="Share of the deadline for choosing the strategy")
    gather: Fraction = Field(0.5, description="Share of the deadline for all rounds of a strategy that has several")
    step: Fraction = Field(0.15, description="Share of the deadline for one decision inside such a strategy")
    compress: Fraction = Field(0.1, description="Share of the deadline for shortening the passages")
    rewrite: Fraction = Field(
        0.15, description="Share of the deadline for making a question complete from its conversation"
    )
    requery: Fraction = Field(
        0.15, description="Share of the deadline for a retrieval agent's own rewriting of its query"
    )
    vision: Fraction = Field(0.3, description="Share of the deadline for fetching pictures and putting them into words")
    context: Fraction = Field(
        0.02, description="Share of the deadline, from the question on, for choosing the messages that matter"
    )
    route: Fraction = Field(0.1, description="Share of the deadline for choosing the agents")
    search: Fraction = Field(0.25, description="Share of the deadline for asking the agents")
    rerank: Fraction = Field(0.1, description="Share of the deadline for ordering their passages")
    write: Fraction = Field(
        0.2, description="Share of the deadline that all stages before it leave to writing the answer"
    )
    look_back: Fraction = Field(
        0.2, description="Share of the deadline for finding citations that the model did not give"
    )


class AnswerSettings(Section):
    """How answers are made."""

    history_turns: int = Field(10, ge=0, le=100, description="Earlier messages of a conversation that are considered")
    passages: PositiveInt = Field(8, description="Passages that reach the summarizer at most")
    max_question_chars: PositiveInt = Field(4000, description="Longer questions are refused with a hint")
    persona: str = Field("", description="Added to the summarizer's instructions")


class ContextSettings(Section):
    """The context manager (KIMAs 3.2): what of the conversation the other agents see."""

    complete: bool = Field(
        True, description="What a question leaves out is filled in from its conversation before it is searched"
    )
    select: bool = Field(
        True, description="The summarizer sees only the messages that matter for the question, with an analysis"
    )
    head_start: bool = Field(
        True,
        description="Where light calls are waited for, the answer is begun on what the rules say, and kept if it fits",
    )


class StrategySettings(Section):
    """Which strategies the router may choose, and how far each may go (docs/strategies.md)."""

    allowed: tuple[Strategy, ...] = Field(("single",), min_length=1, description="One alone is used without asking")
    default: Strategy = Field("single", description="Used when the router gives no usable answer; one of the allowed")
    sub_questions: int = Field(4, ge=2, le=8, description="For parallel: sub-questions at most")
    iterations: PositiveInt = Field(3, description="For planning: rounds of searching at most")
    documents: PositiveInt = Field(24, description="For planning: passages kept at most")
    model_calls: PositiveInt = Field(
        8, description="For planning: calls for its roadmap, filter, digests and decisions, with their repairs, at most"
    )
    max_retrieval_calls: PositiveInt = Field(4, description="For react: searches at most")

    @model_validator(mode="after")
    def _check_default_is_allowed(self) -> StrategySettings:
        # Of one alone nobody chooses, and nothing is ever defaulted to.
        if len(set(self.allowed)) > 1 and self.default not in self.allowed:
            raise ValueError(
                f"default: {self.default} is not among allowed ({', '.join(self.allowed)}): "
                "allow it too, or make one of those the default"
            )
        return self


ScoreWeight = Annotated[float, Field(gt=0, le=10)]


class EvidenceSettings(Section):
    """What of the passages found reaches the summarizer, and in which form."""

    layout: Literal["structured", "flat"] = Field("structured", description="With a header per passage, or text alone")
    order: Literal["edges", "ranked"] = Field(
        "edges", description="The best passage first and the second best last, or all by rank"
    )
    weights: dict[Name, ScoreWeight] = Field(
        default_factory=dict, description="By source: what its passages' scores are multiplied with, above 0 to 10"
    )
    duplicates: float = Field(
        0.85,
        gt=0,
        le=1,
        description="A passage of which a better one says this share already is left out; 1: copies only",
    )
    support_check: Literal["none", "words"] = Field(
        "words", description="Take citations away from sentences that their passage does not support"
    )


BUILT_IN_REWRITES = ("prompt", "retrieval", "keyword", "hyde", "translation", "rule", "decompose")
# Installed packages offer rewrites of their own under this group.
REWRITES_GROUP = "kimas.rewrites"


def _check_rewrite(name: str) -> str:
    if name in BUILT_IN_REWRITES:
        return name
    # Only now: reading what all installed packages offer takes a while.
    known_names = (
        *BUILT_IN_REWRITES,
        *sorted({entry_point.name for entry_point in entry_points(group=REWRITES_GROUP)}),
    )
    if name not in known_names:
        raise ValueError(f"no rewrite is named {name!r} (known: {', '.join(known_names)})")
    return name


Rewrite = Annotated[str, AfterValidator(_check_rewrite)]


class PairSettings(Section):
    """A question with its answer, as an example of what an agent knows."""

    question: str = Field(min_length=1, description="As users ask it")
    answer: str = Field(min_length=1, description="What the agent's sources say to it")


class MixInWeightSettings(Section):
    """What the kinds of mix-in count against each other: each one's cosine is multiplied with its weight."""

    description: float = Field(1.0, ge=0, le=1, description="Of the description; 0 leaves it out")
    examples: float = Field(1.0, ge=0, le=1, description="Of the examples; 0 leaves them out")
    pairs: float = Field(1.0, ge=0, le=1, description="Of questions with answers; 0 leaves them out")


class AgentSettings(Section):
    """A retrieval agent: one or a few similar sources, and what routing should know about them (KIMAs 3.2.2)."""

    sources: tuple[Name, ...] = Field(min_length=1, description="Names of its sources")
    description: str = Field("", description="Mixed into routing: what this agent knows, in the users' words")
    examples: tuple[str, ...] = Field((), description="Mixed into routing: questions or passages this agent stands for")
    pairs: tuple[PairSettings, ...] = Field((), description="Mixed into routing: questions with their answers")
    mix_in_weight: float = Field(0.3, ge=0, le=1, description="Weight of all that is mixed in against centroids")
    mix_in_weights: MixInWeightSettings = Field(
        MixInWeightSettings(), description="What the kinds of mix-in count against each other"
    )
    scale: PositiveFloat = Field(1.0, description="Multiplies the routing score")
    limit: PositiveInt = Field(12, description="Passages this agent returns at most")
    prompts: dict[Name, Path] = Field(
        default_factory=dict, description="Templates of this agent's own, by their name in core/prompts"
    )
    compression: Literal["none", "extract", "model"] = Field(
        "none", description="Raw passages, or what is made of them"
    )
    rewrites: tuple[Rewrite, ...] = Field(
        (),
        max_length=6,
        description="How a query is rewritten for this agent, in this order: " + ", ".join(BUILT_IN_REWRITES),
    )
    language: str = Field(
        "", max_length=40, description="Language of its knowledge (en, English): what translation translates into"
    )
    keep_original: bool = Field(
        False, description="Its knowledge is in several languages: search the question as it is beside its translation"
    )
    synonyms: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Words or phrases of users, each with what the knowledge says instead"
    )

    def mix_ins(self) -> Mapping[str, Sequence[str]]:
        """Return the texts mixed into routing by kind, as `mix_in_weights` names them; blank ones are left out.

        A pair is two texts, its question alone and with its answer: users ask in the words of either.
        """
        pairs = [text for pair in self.pairs for text in (pair.question, f"{pair.question}\n{pair.answer}")]
        texts = {"description": (self.description,), "examples": self.examples, "pairs": pairs}
        return {kind: [text for text in kind_texts if text.strip()] for kind, kind_texts in texts.items()}


class CacheSettings(Section):
    """Answers given again to a question that was asked before in the same chat, while their sources do not change."""

    enabled: bool = Field(False, description="Give an earlier answer again when the same question is asked")
    hours: PositiveFloat = Field(24, description="How long an answer may be given again")
    entries: PositiveInt = Field(1000, description="Answers kept at most, the newest ones")
    similarity: float = Field(
        0.85, gt=0, le=1, description="Least cosine of a question in other words; 1 wants the same words"
    )


class LimitsSettings(Section):
    """What may be used up in a day, which begins at midnight of the machine's time zone. null sets no limit.

    Costs are in the currency of the models' prices; a model without prices costs nothing.
    """

    daily_tokens: PositiveInt | None = Field(None, description="Tokens of all language models, by everybody together")
    daily_tokens_per_chat: PositiveInt | None = Field(None, description="The same in one chat, with its threads")
    daily_tokens_per_user: PositiveInt | None = Field(None, description="The same by one person, in all chats together")
    daily_cost: PositiveFloat | None = Field(None, description="What the models' prices add up to, by everybody")
    daily_cost_per_chat: PositiveFloat | None = Field(None, description="The same in one chat")
    daily_cost_per_user: PositiveFloat | None = Field(None, description="The same by one person")


class FallbackSettings(Section):
    """One OpenAI-compatible chat endpoint."""

    base_url: str = Field(min_length=1, description="The endpoint, for example http://localhost:11434/v1")
    model: str = Field(min_length=1, description="The model's name there")
    api_key: Secret | None = Field(None, description="Leave out where the endpoint asks for none")
    temperature: float | None = Field(None, ge=0, le=2, description="null leaves it to the endpoint")
    max_tokens: PositiveInt = Field(1024, description="Length of a reply at most")
    timeout_s: PositiveFloat = Field(60, description="Longest time for one whole call, seconds")
    json_schema: bool = Field(False, description="The endpoint can be told a reply's JSON Schema")
    tools: bool = Field(False, description="The endpoint and the model know tool calling")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="Sent as is, for what only this server knows")
    price_prompt: NonNegativeFloat | None = Field(
        None, description="Price of a million tokens sent, in a currency of your choice; null when unknown"
    )
    price_completion: NonNegativeFloat | None = Field(
        None, description="Price of a million tokens received, in the same currency"
    )


class ModelSettings(FallbackSettings):
    """The endpoint of a role, what takes its place when it fails, and how patient to be with all of them."""

    context_tokens: PositiveInt = Field(
        4000, description="Room for evidence in its prompts, tokens; the fallbacks need as much; not for vision"
    )
    fallbacks: dict[Name, FallbackSettings] = Field(
        default_factory=dict, description="Other endpoints by name, tried in this order when this one fails"
    )
    first_token_s: PositiveFloat = Field(
        8, description="Longest wait for the first token while another endpoint is left to try, seconds"
    )
    whole_s: PositiveFloat = Field(
        10, description="The same for replies that are not streamed: longest wait for the whole, seconds"
    )
    stall_s: PositiveFloat = Field(20, description="Longest silence between two tokens of a reply, seconds")
    hedge_after_s: PositiveFloat | None = Field(
        None, description="After this wait ask a second endpoint too and take the faster, seconds; null: never"
    )
    hedge_share: Fraction = Field(
        0.1, description="Share of the calls that may be asked twice, so that load stays bounded"
    )
    images: bool = Field(False, description="For main: it can look at pictures itself, no vision model is needed")


class CircuitSettings(Section):
    """When a failing endpoint is left alone."""

    failures: PositiveInt = Field(3, description="Failures in a row after which an endpoint is left alone")
    rest_s: PositiveFloat = Field(30, description="How long it is left alone before one call tries it again, seconds")


class ModelsSettings(Section):
    """Language models by role. None at all: answers are extractive and nothing leaves the machine."""

    main: ModelSettings | None = Field(None, description="Writes the answers")
    light: ModelSettings | None = Field(
        None, description="For rewriting and look-back; main is used when this is empty"
    )
    vision: ModelSettings | None = Field(
        None, description="Puts attached screenshots into words; none, and no images of main: the bot says it sees none"
    )
    circuit: CircuitSettings = CircuitSettings()

    @model_validator(mode="after")
    def _check_vision_has_writer(self) -> ModelsSettings:
        if self.vision and not (self.main or self.light):
            raise ValueError("vision needs main or light beside it: a picture in words is still to be answered")
        return self

    def get_vision_model(self) -> ModelSettings | None:
        """Return the model that looks at pictures, or None where there is none."""
        writing_model = self.main or self.light
        return self.vision or (writing_model if writing_model and writing_model.images else None)
