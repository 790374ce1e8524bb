"""Settings of what members may cost, and how many questions the daily limits admit by default."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, PositiveFloat, PositiveInt, Tag

from core.settings.base import Section

AUTO: Literal["auto"] = "auto"
DAILY_LIMITS = (
    "daily_tokens",
    "daily_tokens_per_chat",
    "daily_tokens_per_user",
    "daily_cost",
    "daily_cost_per_chat",
    "daily_cost_per_user",
)
# How many questions of the usual size `auto` admits in a day.
AUTO_QUESTIONS = {"daily_tokens": 500, "daily_tokens_per_chat": 150, "daily_tokens_per_user": 30}

DailyTokens = Annotated[
    Annotated[Literal["auto"], Tag(AUTO)] | Annotated[PositiveInt | None, Tag("number")],
    Discriminator(lambda value: AUTO if value == AUTO else "number"),
]


class LimitsSettings(Section):
    """Daily quotas, and how many pictures are looked at. A day begins at midnight in the machine's time zone.

    null sets no limit; auto limits the tokens where a model is paid. Costs are in the currency of the models' prices; a
    model without prices costs nothing.
    """

    daily_tokens: DailyTokens = Field(
        AUTO, description="tokens of all models, for everybody together; `null`: no limit"
    )
    daily_tokens_per_chat: DailyTokens = Field(AUTO, description="the same for one chat with all its threads")
    daily_tokens_per_user: DailyTokens = Field(AUTO, description="the same for one person, in all chats together")
    daily_cost: PositiveFloat | None = Field(None, description="cost by the models' prices, for everybody together")
    daily_cost_per_chat: PositiveFloat | None = Field(None, description="the same for one chat")
    daily_cost_per_user: PositiveFloat | None = Field(None, description="the same for one person")
    second_opinions_per_hour: int = Field(
        60,
        ge=0,
        description="messages that a model judges before an unprompted answer (docs/groups.md#the-second-opinion), in "
        "an hour, in all chats together",
    )
    images_per_hour: PositiveInt = Field(20, description="pictures of one person that are looked at in an hour")
