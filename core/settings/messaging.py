"""Settings of the platforms and their bots, of commands and feedback, and of the daemon, its journal and its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from core.settings.base import CHAT_PATTERN, Name, Secret, Section, Strategy
from core.types.replies import Shortfall

# A person's id. Telegram's ids of groups and channels begin with a minus: they are no person.
PlatformUserId = Annotated[str, Field(pattern=r"^[a-z]+:[A-Za-z0-9_.@]{1,64}$")]

TIME_PATTERN = r"(?:[01]\d|2[0-3]):[0-5]\d"


class AdministrationSettings(Section):
    """Who may use the commands that change the bot."""

    owners: tuple[PlatformUserId, ...] = Field((), description="People who may do everything, as platform:user id")
    platform_admins: bool = Field(False, description="A chat's administrators may manage the bot in that chat")
    refresh_minutes: PositiveFloat = Field(5, description="Minimum time between two /refresh of one source, minutes")
    audit_days: PositiveFloat | None = Field(365, description="Days to keep entries of the audit log; null: for ever")


class FeedbackSettings(Section):
    """Thumbs under answers (docs/feedback.md)."""

    thumbs: bool = Field(True, description="Offer thumbs under every answer to a question")
    ask_why: bool = Field(True, description="After thumbs down, ask what was wrong")
    try_harder: bool = Field(True, description="Let the asker request a second, more thorough answer")
    strategy: Strategy = Field("planning", description="Strategy of that answer, if a model is configured")
    effort: float = Field(2, ge=1, le=10, description="Time limit of that answer, as a multiple of budget.deadline_s")


# A person on a platform: an id, or a name where the platform mentions people by name. `@NAME` is a further network.
EscalationContact = Annotated[
    str, Field(pattern=r"^(?:http:[^\s@]\S{0,127}|[a-z]+:@?[A-Za-z0-9_.]{1,64})$", max_length=256)
]


class HandoffSettings(Section):
    """Who is notified when the bot cannot help, and whose answers it learns (docs/feedback.md)."""

    people: tuple[EscalationContact, ...] = Field((), description="Who is notified, as platform:id or telegram:@name")
    when: tuple[Shortfall, ...] = Field(
        (), description="When, besides /escalate: nothing was found, no statement was supported, no model could answer"
    )
    cooldown_minutes: NonNegativeFloat = Field(10, description="Minimum time between two calls in one chat, minutes")
    trusted: tuple[PlatformUserId, ...] = Field(
        (), description="Whose replies become answers for review, as platform:user id; besides those who manage the bot"
    )


class FollowedFeedSettings(Section):
    """A feed whose new entries are posts."""

    url: str = Field(pattern=r"^https?://[^/\s]+", description="The feed's address: RSS or Atom")
    chat: str = Field(description="The chat for the comments, as platform:chat")
    every_minutes: float = Field(5, ge=1, le=1440, description="Minutes between two polls")
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
    """Auto-comments: the bot answers posts in these chats and feeds although nobody addressed it."""

    chats: tuple[str, ...] = Field((), description="Chats whose posts get a comment, as platform:chat")
    feeds: dict[Name, FollowedFeedSettings] = Field(
        default_factory=dict, description="Feeds whose new entries get a comment in a chat, by name"
    )
    include: tuple[str, ...] = Field((), description="Only posts with one of these words or phrases; empty: all posts")
    exclude: tuple[str, ...] = Field((), description="Skip posts with one of these words or phrases")
    min_relevance: float | None = Field(
        None, ge=-1, le=1, description="Minimum routing score of the best agent; null: no minimum"
    )
    needs_citation: bool = Field(True, description="Suppress comments without a citation")
    replies_per_post: PositiveInt = Field(2, description="Maximum number of replies by bots below a post")
    per_hour: PositiveInt | None = Field(12, description="Maximum number of comments per chat and hour; null: no limit")
    quiet_hours: str = Field(
        "",
        pattern=rf"^(?:{TIME_PATTERN}-{TIME_PATTERN})?$",
        description="No comments at these local times, such as 22:00-07:00",
    )
    deadline_s: PositiveFloat = Field(10, description="A comment must be posted this soon after the post, seconds")

    def get_chats(self, platform: str) -> frozenset[str]:
        """Return the chats on one platform, without the platform's name."""
        chat_parts = (entry.partition(":") for entry in self.chats)
        return frozenset(chat for chat_platform, _, chat in chat_parts if chat_platform == platform)


class RunSettings(Section):
    """The daemon."""

    workers: PositiveInt = Field(64, description="Maximum number of answers at the same time")
    grace_s: PositiveFloat = Field(20, description="After SIGTERM: time to finish messages in flight, seconds")
    redeliver_hours: NonNegativeFloat = Field(
        6, description="Time to deliver an answer that the platform does not take, hours after the question"
    )


class MetricsSettings(Section):
    """The HTTP endpoint for metrics and health. Without a port nothing is counted."""

    host: str = Field("127.0.0.1", description="The address to listen on")
    port: int | None = Field(None, ge=0, le=65535, description="The port to listen on; null: no endpoint")
    allowed_hosts: tuple[str, ...] = Field((), description="Host names that requests may use beside this machine's own")


class TracingSettings(Section):
    """Traces for OpenTelemetry (the extra otel): where the time of each message went, and never what it says."""

    endpoint: str | None = Field(
        None, pattern=r"^https?://[^/\s]+", description="The address of an OTLP collector, over HTTP; null: no traces"
    )
    headers: dict[str, Secret] = Field(default_factory=dict, description="Headers of the requests, such as a token")
    service: str = Field("kimas", min_length=1, description="The name of this service there")


class OperatorPageSettings(Section):
    """The operator's page (docs/operate.md). Without a port there is none.

    It shows what members wrote. So a token opens it, also on this machine, where other accounts reach the port.
    """

    host: str = Field("127.0.0.1", description="The address to listen on")
    port: int | None = Field(None, ge=0, le=65535, description="The port to listen on; null: no page")
    allowed_hosts: tuple[str, ...] = Field((), description="Host names that requests may use beside this machine's own")
    token: Secret | None = Field(None, description="Opens the page for reading")
    owner_token: Secret | None = Field(None, description="Opens the page for reading and teaching")

    @model_validator(mode="after")
    def _check_token(self) -> OperatorPageSettings:
        if self.port is not None and not (self.token or self.owner_token):
            raise ValueError("with a port, give a token or an owner_token: the page shows what members wrote")
        return self


class JournalSettings(Section):
    """Where the journal is, and how long it keeps messages and replies. null: for ever."""

    url: str | None = Field(
        None, description="PostgreSQL database, postgresql://USER@HOST/DATABASE; null: a file in data_dir"
    )
    password: Secret | None = Field(None, description="The password of the user in url, if it needs one")
    lease_s: float = Field(
        15, ge=1, description="With a url: how long after a daemon died the others take over its work, seconds"
    )
    keep_days: PositiveFloat | None = Field(90, description="Days to keep texts, names and usage of finished messages")
    keep_unanswered_days: PositiveFloat | None = Field(7, description="The same for messages without an answer")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url)
            is_complete = parts.scheme in ("postgresql", "postgres") and parts.path.strip("/") and parts.port != 0
        except ValueError:
            is_complete = False
        if not is_complete:
            raise ValueError("give it as postgresql://HOST/DATABASE, with the user and @ before the host")
        if parts.password is not None or "password=" in parts.query:
            raise ValueError("the password does not belong here: name it in journal.password, as env or file")
        return url


class LogSettings(Section):
    """The log, which goes to standard error. auto: console in a terminal, JSON in a service."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Lowest level to log")
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="json: one object per event; console: a coloured line"
    )


GateMode = Literal["off", "mention", "auto"]
ChatName = Annotated[str, Field(pattern=r"^[a-z]+:\S+$")]
Probability = Annotated[float, Field(ge=0, le=1)]


class TelegramSettings(Section):
    """One Telegram bot."""

    token: Secret = Field(description="From @BotFather")
    api_url: str = Field("https://api.telegram.org", description="Address of the Bot API server")
    rich_messages: bool = Field(True, description="Show tables, headings and formulas as such, in rich messages")


class GateSettings(Section):
    """Where and when the bot may answer. Otherwise it is silent, and the journal records the reason."""

    private: bool = Field(True, description="Answer in private chats")
    chats: tuple[str, ...] = Field((), description="Groups where the bot answers, as platform:chat; empty: all")
    mode: GateMode = Field("mention", description="In groups: off, only when mentioned, or also without (auto)")
    modes: dict[ChatName, GateMode] = Field(default_factory=dict, description="Mode of single chats, by platform:chat")
    threshold: Probability = Field(0.5, description="For auto: minimum probability that the bot can help")
    thresholds: dict[ChatName, Probability] = Field(
        default_factory=dict, description="Threshold of single chats, by platform:chat"
    )
    grey: Literal["silent", "suggest", "clarify"] = Field(
        "silent", description="For auto: just below the threshold be silent, offer an answer, or ask for details"
    )
    grey_width: Probability = Field(0.15, description="How far below the threshold grey applies")
    doubt_width: Probability = Field(
        0.25, description="For auto: how close to the threshold the light model judges a message; 0: never"
    )
    wait_s: float = Field(15, ge=0, le=600, description="For auto: how long people may answer first, seconds")
    cooldown_s: NonNegativeFloat = Field(60, description="For auto: pause after an answer in the chat, seconds")
    repeated: Literal["silent", "point"] = Field(
        "silent", description="For auto: when the chat has the answer already, be silent or point to it"
    )
    repeated_hours: NonNegativeFloat = Field(24, description="How old that answer may be, hours; 0: never")
    follow_up_minutes: NonNegativeFloat = Field(
        30, description="In a thread: minutes after an answer in which a question needs no mention; 0: always needs one"
    )
    answers_in_10_min: int = Field(20, ge=1, le=200, description="Answers to one account in one chat; more is a loop")
    model: Path | None = Field(
        None, description="The file of a model fitted by `kimas eval gate --fit`; null: the one that is shipped"
    )

    def get_mode(self, chat: str, *, private: bool) -> GateMode:
        """Return the mode of a chat (`platform:chat`). A private chat is off only if `modes` names it."""
        return self.modes.get(chat, "mention" if private else self.mode)

    def get_threshold(self, chat: str) -> float:
        """Return the threshold of a chat (`platform:chat`)."""
        return self.thresholds.get(chat, self.threshold)


class DiscordSettings(Section):
    """One Discord bot."""

    token: Secret = Field(description="From the developer portal")
    api_url: str = Field("https://discord.com/api/v10", description="Address of the API server, for a proxy or tests")
    catch_up_hours: float = Field(
        24, ge=0, le=336, description="After a lost connection, read the messages of up to this many hours; 0: none"
    )
    follow_threads: bool = Field(True, description="In a thread where the bot has answered, follow-ups need no mention")


class SlackSettings(Section):
    """One Slack app in one workspace. Events arrive by `app_token` or `signing_secret`: exactly one is set."""

    bot_token: Secret = Field(description="Begins with xoxb-")
    app_token: Secret | None = Field(None, description="Begins with xapp-: events arrive through Socket Mode")
    signing_secret: Secret | None = Field(None, description="Signs Slack's requests: events arrive over HTTP")
    host: str = Field("127.0.0.1", description="For HTTP: the address to listen on")
    port: int = Field(3000, ge=0, le=65535, description="For HTTP: the port to listen on")
    path: str = Field("/slack/events", pattern="^/", description="For HTTP: the path of the request URLs")
    api_url: str = Field("https://slack.com/api/", description="Address of the Web API server, for a gateway or tests")

    @model_validator(mode="after")
    def _check_event_transport(self) -> SlackSettings:
        if (self.app_token is None) == (self.signing_secret is None):
            raise ValueError("give exactly one of app_token (Socket Mode) or signing_secret (events over HTTP)")
        return self


class HttpSettings(Section):
    """Another network: it posts messages to the bot and receives replies at its callback URL."""

    secret: Secret = Field(description="Shared with the network: both sides sign their requests with it")
    callback_url: str = Field(pattern=r"^https?://", description="Where replies are posted")
    host: str = Field("127.0.0.1", description="The address to listen on")
    port: int = Field(8088, ge=0, le=65535, description="The port to listen on")
    max_kb: PositiveInt = Field(64, description="Larger events are rejected, KB")
    partials: bool = Field(False, description="Also send the reply while it is being written")
    timeout_s: PositiveFloat = Field(10, description="Time limit for one callback, seconds")
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
        for platform in get_args(Platform):
            if section := getattr(self, platform):
                yield platform, section
