"""Discord."""

from __future__ import annotations

from pydantic import Field

from core.settings.base import Secret, Section


class DiscordSettings(Section):
    """One Discord bot."""

    token: Secret = Field(description="From the developer portal")
    api_url: str = Field("https://discord.com/api/v10", description="Another API server, for a proxy or tests")
    catch_up_hours: float = Field(
        24, ge=0, le=336, description="After a break, read what was written in so many hours; 0 reads nothing"
    )
    follow_threads: bool = Field(True, description="In a thread where the bot has answered, follow-ups need no mention")
