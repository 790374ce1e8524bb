"""What people may say about answers, and what becomes of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat

from core.settings.administration import Person
from core.settings.answering import Strategy
from core.settings.base import Section


class FeedbackSettings(Section):
    """Thumbs under answers (docs/feedback.md)."""

    thumbs: bool = Field(True, description="Offer thumbs under every answer to a question")
    ask_why: bool = Field(True, description="Ask who pressed thumbs down what was wrong")
    try_harder: bool = Field(
        True, description="Let the asker have an unhelpful answer made once more, with more effort"
    )
    strategy: Strategy = Field("planning", description="For that: the search strategy, where a model is configured")
    effort: float = Field(2, ge=1, le=10, description="For that: how many times budget.deadline_s it may take")


# A person of a platform: an id, or a name where the platform mentions people by it.
Called = Annotated[str, Field(pattern=r"^[a-z]+:@?[A-Za-z0-9_.]{1,64}$")]
Occasion = Literal["nothing_found", "unsupported", "quoted"]


class HandoffSettings(Section):
    """Who is called when the bot cannot help, and whose answers it learns (docs/feedback.md)."""

    people: tuple[Called, ...] = Field((), description="Who is called, as platform:id or telegram:@name")
    when: tuple[Occasion, ...] = Field(
        (), description="Besides /escalate: nothing was found, no statement was supported, no model could answer"
    )
    cooldown_minutes: NonNegativeFloat = Field(10, description="Least time between two calls in one chat, minutes")
    trusted: tuple[Person, ...] = Field(
        (), description="Whose replies become answers to be reviewed, as platform:user id; those who look after it, too"
    )
