"""Further bots beside the one that each platform's own section describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Secret, Section

GateMode = Literal["off", "mention", "auto"]
ChatName = Annotated[str, Field(pattern=r"^[a-z]+:\S+$")]
Probability = Annotated[float, Field(ge=0, le=1)]


class TelegramSettings(Section):
    """One Telegram bot."""

    token: Secret = Field(description="From @BotFather")
    api_url: str = Field("https://api.telegram.org", description="Another Bot API server, for a local one")


class GateWeightSettings(Section):
    """What the signs of a question for the bot weigh (logistic regression). `kimas eval gate --fit` finds others."""

    base: float = Field(-2.5, description="Where the sum begins")
    personal: float = Field(-2.0, description="1 where it is about people, plans or opinions")
    match: float = Field(16.5, description="Cosine of the best passage times the share of the words that it has")
    foreign: float = Field(-5.5, description="Share of the names in it that the nearest passages do not know")


class GateSettings(Section):
    """Where and when the bot may speak. Elsewhere it is silent, and the journal says why."""

    private: bool = Field(True, description="Answer in private chats")
    chats: tuple[str, ...] = Field((), description="Groups where the bot answers, as platform:chat; none means all")
    mode: GateMode = Field("mention", description="In groups: off, when mentioned, or also unasked (auto)")
    modes: dict[ChatName, GateMode] = Field(default_factory=dict, description="Another mode by platform:chat")
    threshold: Probability = Field(0.5, description="For auto: how sure it must be that it can help")
    thresholds: dict[ChatName, Probability] = Field(
        default_factory=dict, description="Another threshold by platform:chat"
    )
    grey: Literal["silent", "suggest", "clarify"] = Field(
        "silent", description="For auto: just below the threshold, be silent, offer an answer, or ask for details"
    )
    grey_width: Probability = Field(0.15, description="How far below the threshold that reaches")
    wait_s: float = Field(15, ge=0, le=600, description="For auto: how long people have to answer first, seconds")
    cooldown_s: NonNegativeFloat = Field(60, description="For auto: time between two answers in one chat, seconds")
    repeated: Literal["silent", "point"] = Field(
        "silent", description="For auto: when it was answered in the chat before, be silent or point there"
    )
    repeated_hours: NonNegativeFloat = Field(24, description="How long ago that may be; 0: never")
    follow_up_minutes: NonNegativeFloat = Field(
        30, description="In a thread: how long after an answer a question needs no mention; 0: always needs one"
    )
    answers_in_10_min: int = Field(20, ge=1, le=200, description="Answers to one account in one chat; more is a loop")
    weights: GateWeightSettings = GateWeightSettings()

    def get_mode(self, chat: str, *, private: bool) -> GateMode:
        """Return the mode of a chat (`platform:chat`); a private one is off only where it is named."""
        return self.modes.get(chat, "mention" if private else self.mode)

    def get_threshold(self, chat: str) -> float:
        """Return the threshold of a chat (`platform:chat`)."""
        return self.thresholds.get(chat, self.threshold)


class DiscordSettings(Section):
    """One Discord bot."""

    token: Secret = Field(description="From the developer portal")
    api_url: str = Field("https://discord.com/api/v10", description="Another API server, for a proxy or tests")
    catch_up_hours: float = Field(
        24, ge=0, le=336, description="After a break, read what was written in so many hours; 0 reads nothing"
    )
    follow_threads: bool = Field(True, description="In a thread where the bot has answered, follow-ups need no mention")


class SlackSettings(Section):
    """One Slack app in one workspace. Exactly one of `app_token` and `signing_secret` says how events arrive."""

    bot_token: Secret = Field(description="Begins with xoxb-")
    app_token: Secret | None = Field(None, description="Begins with xapp-: events come through Socket Mode")
    signing_secret: Secret | None = Field(None, description="Slack sends the events to us over HTTP, signed with it")
    host: str = Field("127.0.0.1", description="For HTTP: the address to listen on")
    port: int = Field(3000, ge=0, le=65535, description="For HTTP: the port to listen on")
    path: str = Field("/slack/events", pattern="^/", description="For HTTP: the path of the request URLs")
    api_url: str = Field("https://slack.com/api/", description="Another Web API server, for a gateway or tests")

    @model_validator(mode="after")
    def _check_event_transport(self) -> SlackSettings:
        if (self.app_token is None) == (self.signing_secret is None):
            raise ValueError("give exactly one of app_token (Socket Mode) or signing_secret (events over HTTP)")
        return self


class HttpSettings(Section):
    """A network that posts its messages to us and takes the replies at an address of its own."""

    secret: Secret = Field(description="Shared with the network: it signs what it sends, we sign what we send")
    callback_url: str = Field(pattern=r"^https?://", description="Where replies are posted")
    host: str = Field("127.0.0.1", description="The address to listen on")
    port: int = Field(8088, ge=0, le=65535, description="The port to listen on")
    max_kb: PositiveInt = Field(64, description="Larger events are refused")
    partials: bool = Field(False, description="Send the reply while it is being written, too")
    timeout_s: PositiveFloat = Field(10, description="Longest time for one callback, seconds")
    allow_private: tuple[str, ...] = Field((), description="Host names of the callback that may have private addresses")


Platform = Literal["telegram", "discord", "slack", "http"]
PlatformSettings = TelegramSettings | DiscordSettings | SlackSettings | HttpSettings


class BotSettings(Section):
    """One further bot, on exactly one platform."""

    telegram: TelegramSettings | None = Field(None, description="A Telegram bot, as in the section `telegram`")
    discord: DiscordSettings | None = Field(None, description="A Discord bot, as in the section `discord`")
    slack: SlackSettings | None = Field(None, description="A Slack app, as in the section `slack`")
    http: HttpSettings | None = Field(None, description="Another network, as in the section `http`")

    @model_validator(mode="after")
    def _check_exactly_one_platform(self) -> BotSettings:
        if len(list(self.iter_platforms())) != 1:
            raise ValueError("give exactly one of telegram, discord, slack or http")
        return self

    def iter_platforms(self) -> Iterator[tuple[Platform, PlatformSettings]]:
        """Yield the platform with its section."""
        if self.telegram:
            yield "telegram", self.telegram
        if self.discord:
            yield "discord", self.discord
        if self.slack:
            yield "slack", self.slack
        if self.http:
            yield "http", self.http
