"""Alerts to the chats of the people who run the bot."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat

from core.settings.base import Section


class AlertsSettings(Section):
    """Alerts to the chats of those who run the bot, once a day for each problem at most. Without chats, none."""

    chats: tuple[Annotated[str, Field(pattern=r"^[a-z]+:\S+$")], ...] = Field(
        (), description="Chats that get the alerts, as platform:chat"
    )
    language: str = Field("en", pattern=r"^[a-z]{2}$", description="The language of the alerts: en or zh")
    source_hours: PositiveFloat | None = Field(
        24, description="Hours without a successful refresh of a source that fails; null: no alert"
    )
    down_minutes: PositiveFloat | None = Field(
        5, description="Minutes for which a platform or a model's endpoint is away; null: no alert"
    )
    budget_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        0.8, description="Used share of a daily limit for all users together; null: no alert"
    )
    silent_hours: PositiveFloat | None = Field(
        24, description="Hours without an unprompted answer, if there was at least one a day before; null: no alert"
    )
