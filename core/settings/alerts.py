"""Alerts to the chats of the people who run the bot."""

from __future__ import annotations

from pydantic import Field, PositiveFloat

from core.settings.base import Section
from core.settings.chats import Chat


class AlertsSettings(Section):
    """Alerts about problems (docs/operate.md#alerts-in-a-chat), each once a day at most. Without chats, none."""

    chats: tuple[Chat, ...] = Field((), description="chats that get the alerts, as `platform:chat`")
    language: str = Field("en", pattern=r"^[a-z]{2}$", description="the language of the alerts: `en` or `zh`")
    source_hours: PositiveFloat | None = Field(
        24, description="hours without a successful refresh of a source that fails; `null`: no alert"
    )
    down_minutes: PositiveFloat | None = Field(
        5, description="minutes for which a platform or a model's endpoint must be away; `null`: no alert"
    )
    silent_hours: PositiveFloat | None = Field(
        24, description="hours without an unprompted answer, if there was at least one a day before; `null`: no alert"
    )
    gap_report: bool = Field(
        True, description="post to these chats, on Mondays, which questions of the week had no good answer"
    )
