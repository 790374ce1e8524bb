"""Settings of the platforms and their bots, of commands and feedback, and of the daemon, its journal and its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    Field,
    IPvAnyNetwork,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from core.settings.base import PAGE_CLIENT, Name, RequestingSection, Secret, Section, Strategy, WebAddress
from core.settings.chats import Chat, Contact, Person
from core.types import PlatformName
from core.types.replies import Shortfall

# Of the tokens that open the operator's page and the API: nobody may guess one.
MIN_TOKEN_CHARS = 16

# Of a web page, as browsers send it.
Origin = Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
TIME_PATTERN = r"(?:[01]\d|2[0-3]):[0-5]\d"


class ListeningSection(Section):
    """The base of what listens on a port."""

    host: str = Field("127.0.0.1", description="the address to listen on (on Slack for events over HTTP)")


class LocalServerSection(ListeningSection):
    """The base of servers for those who run the bot."""

    port: int | None = Field(
        None, ge=0, le=65535, description="the port to listen on; without one, nothing is served or counted"
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="while `host` is this machine only: further names that a request may use in its `Host` header, "
        "for example behind a proxy that passes the header on",
    )


class AdministrationSettings(Section):
    """Who may control the bot by slash commands (docs/commands.md)."""

    owners: tuple[Person, ...] = Field(
        (),
        description='people who may do everything, as `platform:user id`, for example `["telegram:123456789", '
        '"discord:9876"]`',
    )
    platform_admins: bool = Field(False, description="a chat's administrators count as admins of the bot in that chat")
    refresh_minutes: PositiveFloat = Field(5, description="least time between two `/refresh` of one source, minutes")
    audit_days: PositiveFloat | None = Field(
        365, description="how long the audit keeps its entries, days; `null`: forever"
    )


class FeedbackSettings(Section):
    """What people may say about answers (docs/feedback.md)."""

    thumbs: bool = Field(True, description="show rating buttons below every answer to a question")
    ask_why: bool = Field(True, description="after a thumbs down, ask what was wrong")
    try_harder: bool = Field(True, description="offer the asker a second answer, made with more effort")
    strategy: Strategy = Field(
        "planning", description="for the second answer: the search strategy, if a model is configured"
    )
    effort: float = Field(
        2, ge=1, le=10, description="for the second answer: how many times `budget.deadline_s` it may take"
    )


class HandoffSettings(Section):
    """Who is called when the bot cannot help, and whose answers it learns (docs/feedback.md)."""

    people: tuple[Contact, ...] = Field(
        (), description="people whom the bot calls, as `platform:id` or `telegram:@name`; it mentions nobody else"
    )
    when: tuple[Shortfall, ...] = Field(
        (),
        description="besides `/escalate`: `nothing_found`, `unsupported` (no citation supported its statement), "
        "`quoted` (no model could answer)",
    )
    cooldown_minutes: NonNegativeFloat = Field(10, description="minimum time between two calls in one chat, minutes")
    trusted: tuple[Person, ...] = Field(
        (),
        description="people whose replies become answers to review, as `platform:user id`; people who look after the "
        "bot are trusted, too",
    )


class FollowedFeedSettings(RequestingSection):
    """A feed whose new entries are posts."""

    url: WebAddress = Field(
        examples=["https://example.org/feed.xml"],
        description="the feed's address: RSS or Atom",
    )
    chat: Chat = Field(
        examples=["telegram:-1001234567890"],
        description="the chat for the comments, as `platform:chat`; with `@NAME` at the end, the bot of that name "
        "writes there",
    )
    every_minutes: float = Field(5, ge=1, le=1440, description="time between two fetches, minutes")


class AutoCommentSettings(Section):
    """Unprompted comments below posts in these chats and on entries of feeds (docs/auto-comment.md)."""

    chats: tuple[Chat, ...] = Field((), description="chats whose posts get comments, as `platform:chat`")
    feeds: dict[Name, FollowedFeedSettings] = Field(
        default_factory=dict,
        description="feeds (docs/auto-comment.md#feeds) whose new entries are commented on in a chat, each with a name",
    )
    include: tuple[str, ...] = Field((), description="only posts with one of these words or phrases; none: all posts")
    exclude: tuple[str, ...] = Field((), description="no posts with one of these words or phrases")
    min_relevance: float | None = Field(
        None, ge=-1, le=1, description="minimum routing score of the best agent; without it, the score is not checked"
    )
    needs_citation: bool = Field(True, description="do not post comments that cite nothing")
    replies_per_post: PositiveInt = Field(2, description="replies of bots below a post at most, including ours")
    per_hour: PositiveInt | None = Field(12, description="comments per chat in an hour at most; `null` sets no limit")
    quiet_hours: str = Field(
        "",
        pattern=rf"^(?:{TIME_PATTERN}-{TIME_PATTERN})?$",
        description="no comments then, for example `22:00-07:00`, local time",
    )
    deadline_s: PositiveFloat = Field(10, description="after this many seconds from the post on, no comment is posted")

    def get_chats(self, platform: str) -> frozenset[str]:
        """Return the chats on one platform, without the platform's name."""
        return frozenset(chat.id for chat in map(PlatformName.parse, self.chats) if chat.platform == platform)


class RunSettings(Section):
    """The daemon."""

    workers: PositiveInt = Field(64, description="answers in progress at the same time at most")
    grace_s: PositiveFloat = Field(20, description="after SIGTERM: time to finish answers in progress, seconds")
    redeliver_hours: NonNegativeFloat = Field(
        6,
        description="how many hours after the question, or after a team let its draft be posted, KIMAs still tries to "
        "deliver an answer that the platform does not take (docs/operate.md#outages); answers to questions that were "
        "not addressed to the bot get at most ten minutes",
    )


class MetricsSettings(LocalServerSection):
    """Numbers and health over HTTP (docs/operate.md#metrics): `/metrics`, `/healthz`, `/readyz`."""


class TracingSettings(Section):
    """Traces for OpenTelemetry (docs/operate.md#traces): where the time of each message went, never what it says."""

    endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+",
        description="the address of an OTLP collector over HTTP, such as `http://127.0.0.1:4318/v1/traces`; null: no "
        "traces",
    )
    headers: dict[str, Secret] = Field(
        default_factory=dict,
        description="headers of the requests by name, each a secret: `{env: NAME}` or `{file: PATH}`",
    )
    service: str = Field("kimas", min_length=1, description="the name of this service there")


class OperatorPageSettings(LocalServerSection):
    """What the bot did, in a browser: the operator's page (docs/operate.md#the-operators-page).

    It shows what members wrote. So a token opens it, also on this machine, where other accounts reach the port.
    """

    token: Secret | None = Field(None, description="opens the page for reading, at least 16 characters")
    owner_token: Secret | None = Field(
        None, description="opens it for reading, teaching and setting up, at least 16 characters"
    )

    @model_validator(mode="after")
    def _check_token(self) -> OperatorPageSettings:
        if self.port is not None and not (self.token or self.owner_token):
            raise ValueError("with a port, give a token or an owner_token: the page shows what members wrote")
        return self


class ApiClientSettings(Section):
    """A program that asks."""

    token: Secret = Field(
        examples=[{"env": "KIMAS_WEBUI_TOKEN"}],
        description="what the program sends as its API key, at least 16 characters; whoever has it may ask",
    )


class PageSettings(Section):
    """A page that anybody may ask on, at `/ask`, and its widget for other pages (docs/page.md).

    Visitors need no token. All of them are one chat and one person for audiences and limits: `api:page`.
    """

    enabled: bool = Field(False, description="serve the page: everybody who reaches the port may ask")
    allowed_origins: tuple[Origin, ...] = Field(
        (), description="sites that may embed the widget, such as `https://docs.example.org`"
    )
    per_minute: PositiveInt = Field(10, description="questions of one address a minute")
    all_per_minute: PositiveInt = Field(300, description="questions of all visitors a minute")
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        (),
        description="addresses of the web servers in front, whose `X-Forwarded-For` says who asks; without them all "
        "visitors behind one have its address",
    )


class ApiSettings(LocalServerSection):
    """Other programs ask: an endpoint as OpenAI's, `POST /ask` (docs/api.md), and MCP (docs/mcp.md).

    Each client has a token, and is a chat for audiences and limits: `api:NAME`.
    """

    clients: dict[Name, ApiClientSettings] = Field(
        default_factory=dict,
        examples=[{"webui": {"token": {"env": "KIMAS_WEBUI_TOKEN"}}}],
        description="the programs that may ask, by name",
    )
    allowed_origins: tuple[Origin, ...] = Field(
        (),
        description="web pages that may ask from a browser, by their origin such as `https://chat.example.org`; the "
        "browser then knows the token",
    )
    page: PageSettings = PageSettings()

    @property
    def asker_names(self) -> frozenset[str]:
        """The names of those who may ask: the clients, and `page` for the visitors where the page is on."""
        return frozenset(self.clients) | ({PAGE_CLIENT} if self.page.enabled else set())

    @model_validator(mode="after")
    def _check_clients(self) -> ApiSettings:
        if self.port is not None and not self.asker_names:
            raise ValueError("with a port, name at least one client, or switch on api.page: else nobody may ask")
        if self.port is None and self.page.enabled:
            raise ValueError("page.enabled: give a port, api.port; without one, nothing is served")
        if PAGE_CLIENT in self.clients:
            raise ValueError(f"clients.{PAGE_CLIENT}: this name stands for the visitors of the page; choose another")
        return self


class JournalSettings(Section):
    """Where the journal is, and how long it keeps messages and answers."""

    url: str | None = Field(
        None,
        description="a PostgreSQL database, `postgresql://USER@HOST/DATABASE` (docs/scale.md); null: the file "
        "`journal.db` in `data_dir`",
    )
    password: Secret | None = Field(None, description="the password of the user in `url`, as `env` or `file`")
    lease_s: float = Field(
        15, ge=1, description="with a `url`: how long after a daemon's death the others take over its work, seconds"
    )
    keep_days: PositiveFloat | None = Field(
        90,
        description="how many days texts and names of finished messages are kept, and the record of who used how "
        "much; `null`: forever",
    )
    keep_unanswered_days: PositiveFloat | None = Field(
        7, description="the same for messages on which the bot stayed silent"
    )

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
    """The log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="`debug`, `info`, `warning` or `error`; libraries log from `warning` up"
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="`json`, `console`, or `auto`: console in a terminal, JSON in a service"
    )


class TelegramSettings(Section):
    """A Telegram bot (docs/telegram.md)."""

    token: Secret = Field(examples=[{"env": "TELEGRAM_TOKEN"}], description="from @BotFather")
    api_url: WebAddress = Field("https://api.telegram.org", description="another Bot API server, for a local one")
    rich_messages: bool = Field(
        True,
        description="show real tables, headings and formulas, in rich messages "
        "(docs/telegram.md#tables-headings-formulas)",
    )


class DiscordSettings(Section):
    """A Discord bot (docs/discord.md)."""

    token: Secret = Field(examples=[{"env": "DISCORD_TOKEN"}], description="from the developer portal")
    api_url: WebAddress = Field("https://discord.com/api/v10", description="another API server, for a proxy or tests")
    catch_up_hours: float = Field(
        24, ge=0, le=336, description="after an outage, read messages of this many past hours; 0 reads nothing"
    )
    follow_threads: bool = Field(True, description="follow-ups need no mention in threads where the bot has answered")


class SlackSettings(ListeningSection):
    """A Slack app in one workspace (docs/slack.md). Exactly one of `app_token` and `signing_secret` is set."""

    bot_token: Secret = Field(examples=[{"env": "SLACK_BOT_TOKEN"}], description="begins with `xoxb-`")
    app_token: Secret | None = Field(
        None,
        examples=[{"env": "SLACK_APP_TOKEN"}],
        description="begins with `xapp-`: events come through Socket Mode; this or `signing_secret`",
    )
    signing_secret: Secret | None = Field(
        None, description="instead of `app_token`: Slack sends the events over HTTP, signed with it"
    )
    port: int = Field(3000, ge=0, le=65535, description="for HTTP: the port to listen on")
    path: str = Field("/slack/events", pattern="^/", description="for HTTP: the path of the request URLs")
    api_url: WebAddress = Field("https://slack.com/api/", description="another Web API server, for a gateway or tests")

    @model_validator(mode="after")
    def _check_event_transport(self) -> SlackSettings:
        if (self.app_token is None) == (self.signing_secret is None):
            raise ValueError("give exactly one of app_token (Socket Mode) or signing_secret (events over HTTP)")
        return self


class HttpSettings(ListeningSection, RequestingSection):
    """Any other network (docs/http.md): it posts messages to the bot and receives replies at its callback URL."""

    secret: Secret = Field(
        examples=[{"env": "KIMAS_HTTP_SECRET"}],
        description="shared with the network; both sides sign what they send with it",
    )
    callback_url: WebAddress = Field(
        examples=["https://network.example.org/kimas"], description="where replies are posted"
    )
    port: int = Field(8088, ge=0, le=65535, description="the port to listen on")
    max_kb: PositiveInt = Field(64, description="larger events are refused, KB")
    partials: bool = Field(False, description="send the reply while it is being written, too")
    timeout_s: PositiveFloat = Field(10, description="longest time for one callback, seconds")


class MastodonSettings(Section):
    """An account on a Mastodon server (docs/mastodon.md)."""

    url: str = Field(
        pattern=r"^https?://[^/\s]+/?$",
        examples=["https://mastodon.example"],
        description="the server where the bot has its account",
    )
    token: Secret = Field(
        examples=[{"env": "MASTODON_TOKEN"}], description="from the account's preferences, Development"
    )
    answers_per_thread: PositiveInt = Field(
        5, description="answers in one thread at most: two programs that answer each other stop there"
    )


# Who agreed to comments: an account by its lasting id, or whoever follows the bot.
Consent = Annotated[str, Field(pattern=r"^(?:followers|did:(?:plc:[a-z2-7]{24}|web:[\w.%-]+))$")]


class BlueskySettings(Section):
    """An account on Bluesky, or on another server of the AT Protocol (docs/bluesky.md)."""

    url: WebAddress = Field("https://bsky.social", description="the server of the account (its PDS), if it is another")
    handle: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*\.[A-Za-z]+$",
        examples=["kimas.bsky.social"],
        description="the account's name, without the `@`",
    )
    app_password: Secret = Field(
        examples=[{"env": "BLUESKY_APP_PASSWORD"}], description="from the account's settings, *Privacy and security*"
    )
    answers_per_thread: PositiveInt = Field(
        5, description="answers in one thread at most: two programs that answer each other stop there"
    )
    comment_below: tuple[Consent, ...] = Field(
        (),
        examples=[["followers"]],
        description="who agreed to comments below posts, each as a DID; `followers`: whoever follows the bot",
    )


def require_different(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of projects. Raises `ValueError` where two are the same one: case does not count."""
    counts = Counter(name.casefold() for name in names)
    if doubles := [name for name in names if counts[name.casefold()] > 1]:
        raise ValueError(f"{' and '.join(doubles)} are the same project: name it once")
    return names


class ForgeSettings(ListeningSection):
    """What the sections of GitHub and GitLab share (docs/forges.md)."""

    poll_s: PositiveFloat = Field(60, description="how often the bot asks for what is new, seconds")
    webhook_secret: Secret | None = Field(
        None, description="shared with the forge's webhooks: they tell the bot at once; without it, nothing listens"
    )
    port: int = Field(8089, ge=0, le=65535, description="for webhooks: the port to listen on")
    wait_h: NonNegativeFloat = Field(
        0,
        description="how many hours people have to answer what is not for the bot; it stays silent where one did. "
        "`0`: none",
    )
    answers_per_thread: PositiveInt = Field(
        10, description="answers below one issue at most: two programs that answer each other stop there"
    )
    answered_label: str = Field("", max_length=50, description="a label for what the bot answered; none: no label")
    not_found_label: str = Field(
        "", max_length=50, description="a label for what the bot has found no answer to; none: no label"
    )


class GithubSettings(ForgeSettings):
    """An account or an app that answers on GitHub, or on a GitHub Enterprise server (docs/forges.md)."""

    token: Secret | None = Field(
        None,
        examples=[{"env": "GITHUB_TOKEN"}],
        description="an access token of the bot's account that may read and comment; or `app_id` and `private_key`",
    )
    app_id: str = Field("", pattern=r"^[A-Za-z0-9.]*$", description="of a GitHub App: its id, or its client id")
    private_key: Secret | None = Field(None, description="of a GitHub App: the key that GitHub made, as a file")
    repositories: tuple[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+/[A-Za-z0-9._-]+(?:\+[1-9][0-9]{0,17})?$")], ...
    ] = Field(min_length=1, examples=[["example/project"]], description="where it answers, each as `owner/name`")
    api_url: WebAddress = Field("https://api.github.com", description="of your own server: `https://HOST/api/v3`")
    discussions: bool = Field(
        False, description="whether it answers in discussions, too; the token has to allow it (docs/forges.md)"
    )
    discussion_categories: tuple[str, ...] = Field(
        (),
        examples=[["Q&A"]],
        description="in which categories of discussions; none: in those where an answer can be chosen",
    )
    _check_names = field_validator("repositories")(require_different)

    @model_validator(mode="after")
    def _check_credentials(self) -> GithubSettings:
        if (self.token is None) == (self.private_key is None) or bool(self.app_id) != bool(self.private_key):
            raise ValueError("give either token, or app_id and private_key (a GitHub App)")
        return self


class GitlabSettings(ForgeSettings):
    """An account that answers on GitLab, or on a server of one's own (docs/forges.md)."""

    token: Secret = Field(
        examples=[{"env": "GITLAB_TOKEN"}], description="an access token of the bot's account that may read and comment"
    )
    projects: tuple[Annotated[str, Field(pattern=r"^[\w.-]+(?:/[\w.-]+)+(?:\+[1-9][0-9]{0,17})?$")], ...] = Field(
        min_length=1, examples=[["example/project"]], description="where it answers, each as `group/name`"
    )
    api_url: WebAddress = Field("https://gitlab.com/api/v4", description="of your own server: `https://HOST/api/v4`")
    _check_names = field_validator("projects")(require_different)


Platform = Literal["telegram", "discord", "slack", "mastodon", "bluesky", "github", "gitlab", "http"]
PlatformSettings = (
    TelegramSettings
    | DiscordSettings
    | SlackSettings
    | MastodonSettings
    | BlueskySettings
    | GithubSettings
    | GitlabSettings
    | HttpSettings
)


class PlatformsSection(Section):
    """The base of what has sections of platforms."""

    telegram: TelegramSettings | None = None
    discord: DiscordSettings | None = None
    slack: SlackSettings | None = None
    mastodon: MastodonSettings | None = None
    bluesky: BlueskySettings | None = None
    github: GithubSettings | None = None
    gitlab: GitlabSettings | None = None
    http: HttpSettings | None = None


class BotSettings(PlatformsSection):
    """One further bot, on exactly one platform."""

    @model_validator(mode="after")
    def _check_exactly_one_platform(self) -> BotSettings:
        if len(list(self.iter_platforms())) != 1:
            raise ValueError("give exactly one of telegram, discord, slack, mastodon, bluesky, github, gitlab or http")
        return self

    def iter_platforms(self) -> Iterator[tuple[Platform, PlatformSettings]]:
        """Yield the platform with its section."""
        for platform in get_args(Platform):
            if section := getattr(self, platform):
                yield platform, section
