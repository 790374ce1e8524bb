"""Further bots beside the one that each platform's own section describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from core.settings.base import Section
from core.settings.discord import DiscordSettings
from core.settings.http import HttpSettings
from core.settings.platforms import TelegramSettings
from core.settings.slack import SlackSettings

Platform = Literal["telegram", "discord", "slack", "http"]
PlatformSettings = TelegramSettings | DiscordSettings | SlackSettings | HttpSettings


class BotSettings(Section):
    """One further bot, on exactly one platform."""

    telegram: TelegramSettings | None = Field(None, description="A Telegram bot, as in the section `telegram`")
    discord: DiscordSettings | None = Field(None, description="A Discord bot, as in the section `discord`")
    slack: SlackSettings | None = Field(None, description="A Slack app, as in the section `slack`")
    http: HttpSettings | None = Field(None, description="Another network, as in the section `http`")

    @model_validator(mode="after")
    def _exactly_one_platform(self) -> BotSettings:
        if len(list(self.platforms())) != 1:
            raise ValueError("give exactly one of telegram, discord, slack or http")
        return self

    def platforms(self) -> Iterator[tuple[Platform, PlatformSettings]]:
        """Yield the platform with its section."""
        if self.telegram:
            yield "telegram", self.telegram
        if self.discord:
            yield "discord", self.discord
        if self.slack:
            yield "slack", self.slack
        if self.http:
            yield "http", self.http
