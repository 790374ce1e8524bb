"""Auto-comments: the replies below a post, the comments of the last hour, and the state of each feed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, or_, select, update

from core.runtime.tasks import uncancellable
from core.storage.engine import Repository
from core.storage.tables import bot_values, chat_values, feeds, identity_values, messages, within_last
from core.types import Message

HOUR_S = 3600.0

# Of entries that have left a feed; all that are in it are kept.
MAX_REMEMBERED_IDS = 2000


class AutoCommentRepository(Repository):
    """The journal's data about posts and comments. Every method raises `StoreError` when the database fails."""

    async def count_competitor_replies(self, post: Message) -> int:
        """Return how many replies of other bots are below a post."""
        columns = messages.c
        # A thread below a post has the id of the post.
        is_below = or_(columns.reply_to == post.id, columns.thread == (post.key.thread or post.id))
        # Each of our bots journals the messages of others itself.
        query = select(func.count()).select_from(messages).filter_by(**bot_values(post))
        return int(await self._database.fetch_value(query.where(is_below, columns.id != post.id, columns.is_by_bot)))

    async def count_recent_comments(self, post: Message, excluded_ids: Collection[str]) -> int:
        """Return how many other messages of a chat got an unprompted answer within the last hour."""
        columns = messages.c
        query = (
            select(func.count())
            .select_from(messages)
            .filter_by(**chat_values(post.key))
            .where(
                columns.state == "answered",
                columns.addressed.is_(False),
                columns.id.not_in(excluded_ids),
                within_last(columns.settled_at, HOUR_S),
            )
        )
        return int(await self._database.fetch_value(query))

    async def set_thread(self, post: Message, reply_id: str) -> None:
        """Record that the conversation about a post continues in the thread of the comment, which has its id."""
        await self._database.write(update(messages).filter_by(**identity_values(post)).values(thread=reply_id))


@dataclass(frozen=True, slots=True)
class FeedState:
    """The state of a feed at the last successful poll.

    `polled_at` is in seconds since 1970, `known_ids` are those of the entries, and `etag` and `modified` are what the
    server called that state.
    """

    polled_at: float
    known_ids: tuple[str, ...] = ()
    etag: str = ""
    modified: str = ""


class FeedStateRepository(Repository):
    """The states of all feeds. Every method raises `StoreError` when the database fails."""

    async def load(self, feed: str) -> FeedState | None:
        """Return the state of a feed, or None before the first poll."""
        row = await self._database.fetch_first(select(feeds).filter_by(feed=feed))
        return None if row is None else FeedState(row.polled_at, tuple(row.known_ids), row.etag, row.modified)

    @uncancellable
    async def save(self, feed: str, state: FeedState) -> None:
        """Store the state of a feed."""
        values = {"known_ids": list(state.known_ids), "etag": state.etag, "modified": state.modified}
        async with self._database.transaction() as connection:
            await connection.execute(delete(feeds).filter_by(feed=feed))
            await connection.execute(insert(feeds).values(feed=feed, polled_at=state.polled_at, **values))


def merge_known_ids(current_ids: Sequence[str], previous_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the entries in the feed, then a limited number of those that have left it."""
    current_set = set(current_ids)
    return (
        *dict.fromkeys(current_ids),
        *[entry_id for entry_id in previous_ids if entry_id not in current_set][:MAX_REMEMBERED_IDS],
    )
