"""Discord."""

from __future__ import annotations

from pydantic import Field

from core.settings.base import Secret, Section


class DiscordSettings(Section):
    """One Discord bot."""

    token: Secret = Field(description="From the developer portal")
