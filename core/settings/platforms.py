"""The platforms, and where the bot may speak."""

from __future__ import annotations

from pydantic import Field

from core.settings.base import Secret, Section


class TelegramSettings(Section):
    """One Telegram bot."""

    token: Secret = Field(description="From @BotFather")
    api_url: str = Field("https://api.telegram.org", description="Another Bot API server, for a local one")


class GateSettings(Section):
    """Where the bot may speak. Elsewhere it is silent, and the journal says why."""

    private: bool = Field(True, description="Answer in private chats")
    chats: tuple[str, ...] = Field((), description="Groups where the bot answers, as platform:chat; none means all")
