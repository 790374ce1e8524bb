"""What answers may cost, and when an earlier answer is given again."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Section


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
