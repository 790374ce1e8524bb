"""Slack."""

from __future__ import annotations

from pydantic import Field

from core.settings.base import Secret, Section


class SlackSettings(Section):
    """One Slack app."""

    bot_token: Secret = Field(description="Begins with xoxb-")
