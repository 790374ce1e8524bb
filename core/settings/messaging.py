"""Settings of the platforms and their bots, of commands and feedback, and of the daemon, its journal and its log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from core.settings.base import Name, Secret, Section, Strategy

# A person: a number or a code. Telegram's ids of groups and channels begin with a minus and stand for many people.
PlatformUserId = Annotated[str, Field(pattern=r"^[a-z]+:[A-Za-z0-9_.@]{1,64}$")]


class AdministrationSettings(Section):
    """Who may give the commands that change the bot, and how often it can be sent for news."""

    owners: tuple[PlatformUserId, ...] = Field((), description="Who may do everything, as platform:user id")
    platform_admins: bool = Field(False, description="A chat's administrators may look after the bot in that chat")
    refresh_minutes: PositiveFloat = Field(5, description="Least time between two /refresh of one source, minutes")
    audit_days: PositiveFloat | None = Field(365, description="How long the audit keeps its entries; null: for ever")


class FeedbackSettings(Section):
    """Thumbs under answers (docs/feedback.md)."""

    thumbs: bool = Field(True, description="Offer thumbs under every answer to a question")
    ask_why: bool = Field(True, description="Ask who pressed thumbs down what was wrong")
    try_harder: bool = Field(
        True, description="Let the asker have an unhelpful answer made once more, with more effort"
    )
    strategy: Strategy = Field("planning", description="For that: the search strategy, where a model is configured")
    effort: float = Field(2, ge=1, le=10, description="For that: how many times budget.deadline_s it may take")


# A person of a platform: an id, or a name where the platform mentions people by it.
EscalationContact = Annotated[str, Field(pattern=r"^[a-z]+:@?[A-Za-z0-9_.]{1,64}$")]
EscalationReason = Literal["nothing_found", "unsupported", "quoted"]


class HandoffSettings(Section):
    """Who is called when the bot cannot help, and whose answers it learns (docs/feedback.md)."""

    people: tuple[EscalationContact, ...] = Field((), description="Who is called, as platform:id or telegram:@name")
    when: tuple[EscalationReason, ...] = Field(
        (), description="Besides /escalate: nothing was found, no statement was supported, no model could answer"
    )
    cooldown_minutes: NonNegativeFloat = Field(10, description="Least time between two calls in one chat, minutes")
    trusted: tuple[PlatformUserId, ...] = Field(
        (), description="Whose replies become answers to be reviewed, as platform:user id; those who look after it, too"
    )


TIME_PATTERN = r"(?:[01]\d|2[0-3]):[0-5]\d"
# A chat as each platform numbers it, with the name of a further bot where that one is to write there.
CHAT_PATTERN = re.compile(r"(?:telegram:-?\d+|discord:\d+|slack:[A-Z0-9]+|http:[^\s@]\S*?)(?:@[a-z0-9][a-z0-9_-]*)?")


class FollowedFeedSettings(Section):
    """A feed whose new entries are posts."""

    url: str = Field(pattern=r"^https?://[^/\s]+", description="The feed's address: RSS or Atom")
    chat: str = Field(description="Where its entries are commented on, as platform:chat")
    every_minutes: float = Field(5, ge=1, le=1440, description="Time between two looks at it")
    allow_private: tuple[str, ...] = Field((), description="Host names that may have private addresses")

    @field_validator("chat")
    @classmethod
    def _check_chat(cls, chat: str) -> str:
        if not CHAT_PATTERN.fullmatch(chat):
            raise ValueError(
                "must be platform:chat, such as telegram:-1001234567890, discord:123456789012345678, slack:C0123456789 "
                "or http:lobby"
            )
        return chat


class AutoCommentSettings(Section):
    """The auto-comment mode: posts in these chats and feeds are answered though nobody addressed the bot."""

    chats: tuple[str, ...] = Field((), description="Whose posts are commented on, as platform:chat")
    feeds: dict[Name, FollowedFeedSettings] = Field(
        default_factory=dict, description="Feeds whose new entries are commented on in a chat, each with a name"
    )
    include: tuple[str, ...] = Field((), description="Only posts with one of these words or phrases; none: all posts")
    exclude: tuple[str, ...] = Field((), description="No posts with one of these")
    min_relevance: float | None = Field(
        None, ge=-1, le=1, description="Least routing score of the best agent; null asks none"
    )
    needs_citation: bool = Field(True, description="Keep back comments that cite nothing")
    replies_per_post: PositiveInt = Field(2, description="Replies of bots below a post at most, ours included")
    per_hour: PositiveInt | None = Field(12, description="Comments per chat in an hour at most; null sets no limit")
    quiet_hours: str = Field(
        "", pattern=rf"^(?:{TIME_PATTERN}-{TIME_PATTERN})?$", description="No comments then, as 22:00-07:00, local time"
    )
    deadline_s: PositiveFloat = Field(10, description="After so many seconds from the post on nothing is posted")

    def get_chats(self, platform: str) -> frozenset[str]:
        """Return those of the chats that are on one platform, by their names there."""
        chat_parts = (entry.partition(":") for entry in self.chats)
        return frozenset(chat for chat_platform, _, chat in chat_parts if chat_platform == platform)


class RunSettings(Section):
    """The daemon."""

    workers: PositiveInt = Field(64, description="Answers in the making at the same time")
    grace_s: PositiveFloat = Field(20, description="After SIGTERM: time to finish what is in flight")


class MetricsSettings(Section):
    """Where numbers and health are asked for over HTTP. Nothing is counted without a port."""

    host: str = Field("127.0.0.1", description="The address to listen on")
    port: int | None = Field(None, ge=0, le=65535, description="The port to listen on; null: none")


class JournalSettings(Section):
    """How long the journal keeps what people said and were told. null keeps it for ever."""

    keep_days: PositiveFloat | None = Field(90, description="Texts and names of settled messages; whose usage it was")
    keep_unanswered_days: PositiveFloat | None = Field(7, description="The same of messages that got no answer")


class LogSettings(Section):
    """Where the log goes is standard error; this is how it looks. auto: console in a terminal, JSON in a service."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="From which level up")
    format: Literal["auto", "json", "console"] = Field("auto", description="One JSON object or one coloured line each")


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
