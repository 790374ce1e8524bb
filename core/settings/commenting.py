"""Comments of the bot's own accord, below posts."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Section

TIME = r"(?:[01]\d|2[0-3]):[0-5]\d"


class AutoCommentSettings(Section):
    """The auto-comment mode: posts in these chats are answered though nobody addressed the bot."""

    chats: tuple[str, ...] = Field((), description="Whose posts are commented on, as platform:chat")
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
