"""What answers may cost, and when an earlier answer is given again."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from core.settings.base import Section


class CacheSettings(Section):
    """Answers given again to a question that was asked before."""

    enabled: bool = Field(False, description="Give an earlier answer again when the same question is asked")


class LimitsSettings(Section):
    """Tokens of all language models that may be used up in a day (in the machine's time zone)."""

    daily_tokens: PositiveInt | None = Field(None, description="By everybody together; null sets no limit")
