"""Who looks after the bot by slash commands."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat

from core.settings.base import Section

# A person: a number or a code. Telegram's ids of groups and channels begin with a minus and stand for many people.
Person = Annotated[str, Field(pattern=r"^[a-z]+:[A-Za-z0-9_.@]{1,64}$")]


class AdministrationSettings(Section):
    """Who may give the commands that change the bot, and how often it can be sent for news."""

    owners: tuple[Person, ...] = Field((), description="Who may do everything, as platform:user id")
    platform_admins: bool = Field(False, description="A chat's administrators may look after the bot in that chat")
    refresh_minutes: PositiveFloat = Field(5, description="Least time between two /refresh of one source, minutes")
    audit_days: PositiveFloat | None = Field(365, description="How long the audit keeps its entries; null: for ever")
