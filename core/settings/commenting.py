"""Comments of the bot's own accord, below posts."""

from __future__ import annotations

import re

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from core.settings.base import Name, Section

TIME = r"(?:[01]\d|2[0-3]):[0-5]\d"
# A chat as each platform numbers it, with the name of a further bot where that one is to write there.
WRITABLE = re.compile(r"(?:telegram:-?\d+|discord:\d+|slack:[A-Z0-9]+|http:[^\s@]\S*?)(?:@[a-z0-9][a-z0-9_-]*)?")


class FollowedFeedSettings(Section):
    """A feed whose new entries are posts."""

    url: str = Field(pattern=r"^https?://[^/\s]+", description="The feed's address: RSS or Atom")
    chat: str = Field(description="Where its entries are commented on, as platform:chat")
    every_minutes: float = Field(5, ge=1, le=1440, description="Time between two looks at it")
    allow_private: tuple[str, ...] = Field((), description="Host names that may have private addresses")

    @field_validator("chat")
    @classmethod
    def _can_be_written_to(cls, chat: str) -> str:
        if not WRITABLE.fullmatch(chat):
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
        "", pattern=rf"^(?:{TIME}-{TIME})?$", description="No comments then, as 22:00-07:00, local time"
    )
    deadline_s: PositiveFloat = Field(10, description="After so many seconds from the post on nothing is posted")

    def chats_on(self, platform: str) -> frozenset[str]:
        """Return those of the chats that are on one platform, by their names there."""
        named = (one.partition(":") for one in self.chats)
        return frozenset(chat for where, _, chat in named if where == platform)
