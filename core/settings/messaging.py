"""The daemon, its journal and its log."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator

from core.settings.base import Name, Section, Strategy

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
