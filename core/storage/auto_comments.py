"""What the journal knows of comments: those of other bots below a post, and our own of the last hour."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from sqlalchemy import and_, func, or_, select, update

from core.runtime.tasks import uncancellable
from core.storage.engine import Database
from core.storage.tables import messages
from core.types import BY_BOT, Message

HOUR = timedelta(hours=1)


class AutoCommentRepository:
    """What comments need to know of a post. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_competitor_replies(self, post: Message) -> int:
        """Return how many replies of other bots the platform has shown below a post."""
        columns, key = messages.c, post.key
        # A thread that somebody opened below a post has the post's id.
        is_below = or_(columns.reply_to == post.id, columns.thread == (key.thread or post.id))
        query = select(func.count()).where(
            columns.platform == key.platform,
            columns.chat == key.chat,
            # Each of several bots of ours has its own record of what others write.
            columns.bot == post.bot,
            is_below,
            columns.id != post.id,
            columns.reference[BY_BOT].as_boolean().is_(True),
        )
        async with self._database.connect() as connection:
            return int(await connection.scalar(query) or 0)

    async def count_recent_comments(self, post: Message, excluded_ids: Collection[str]) -> int:
        """Return how many other messages of a chat were answered unasked within the last hour."""
        columns, key = messages.c, post.key
        query = select(func.count()).where(
            and_(columns.platform == key.platform, columns.chat == key.chat),
            columns.state == "answered",
            columns.addressed.is_(False),
            columns.id.not_in(excluded_ids),
            columns.settled_at >= datetime.now(UTC) - HOUR,
        )
        async with self._database.connect() as connection:
            return int(await connection.scalar(query) or 0)

    @uncancellable
    async def set_thread(self, post: Message, reply_id: str) -> None:
        """Note that the conversation about a post goes on below the comment, whose id is that of its thread."""
        columns, key = messages.c, post.key
        conditions = (
            columns.platform == key.platform,
            columns.bot == post.bot,
            columns.chat == key.chat,
            columns.id == post.id,
        )
        async with self._database.transaction() as connection:
            await connection.execute(update(messages).where(*conditions).values(thread=reply_id))
