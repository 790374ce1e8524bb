"""How an answer is made: its deadline, its strategy, its limits."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Section, Share

Strategy = Literal["none", "single", "parallel", "planning", "react", "simple"]


class BudgetSettings(Section):
    """The deadline of one answer and the shares of its optional stages."""

    deadline_s: PositiveFloat = Field(30, description="Longest time for one answer, seconds")
    look_up: Share = Field(0.05, description="Share of the deadline for looking for an earlier answer")
    choose: Share = Field(0.1, description="Share of the deadline for choosing the strategy")
    gather: Share = Field(0.5, description="Share of the deadline for all rounds of a strategy that has several")
    step: Share = Field(0.15, description="Share of the deadline for one decision inside such a strategy")
    compress: Share = Field(0.1, description="Share of the deadline for shortening the passages")
    rewrite: Share = Field(
        0.15, description="Share of the deadline for making a question complete from its conversation"
    )
    requery: Share = Field(0.15, description="Share of the deadline for a retrieval agent's own rewriting of its query")
    vision: Share = Field(0.3, description="Share of the deadline for fetching pictures and putting them into words")
    context: Share = Field(
        0.02, description="Share of the deadline, from the question on, for choosing the messages that matter"
    )
    route: Share = Field(0.1, description="Share of the deadline for choosing the agents")
    search: Share = Field(0.25, description="Share of the deadline for asking the agents")
    rerank: Share = Field(0.1, description="Share of the deadline for ordering their passages")
    write: Share = Field(0.2, description="Share of the deadline that all stages before it leave to writing the answer")
    look_back: Share = Field(0.2, description="Share of the deadline for finding citations that the model did not give")


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
    def _default_is_allowed(self) -> StrategySettings:
        # Of one alone nobody chooses, and nothing is ever defaulted to.
        if len(set(self.allowed)) > 1 and self.default not in self.allowed:
            raise ValueError(
                f"default: {self.default} is not among allowed ({', '.join(self.allowed)}): "
                "allow it too, or make one of those the default"
            )
        return self
