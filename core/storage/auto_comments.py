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


async def count_competitor_replies(database: Database, post: Message) -> int:
    """Return how many replies of other bots the platform has shown below a post. Raises `StoreError`."""
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
    async with database.connect() as connection:
        return int(await connection.scalar(query) or 0)


async def count_recent_comments(database: Database, post: Message, excluded_ids: Collection[str]) -> int:
    """Return how many messages of a chat were answered unasked within the last hour, `making` left out.

    Raises `StoreError`.
    """
    columns, key = messages.c, post.key
    query = select(func.count()).where(
        and_(columns.platform == key.platform, columns.chat == key.chat),
        columns.state == "answered",
        columns.addressed.is_(False),
        columns.id.not_in(excluded_ids),
        columns.settled_at >= datetime.now(UTC) - HOUR,
    )
    async with database.connect() as connection:
        return int(await connection.scalar(query) or 0)


@uncancellable
async def set_thread(database: Database, post: Message, reply_id: str) -> None:
    """Note that the conversation about a post goes on below the comment, whose id is that of its thread.

    Raises `StoreError`.
    """
    columns, key = messages.c, post.key
    conditions = (
        columns.platform == key.platform,
        columns.bot == post.bot,
        columns.chat == key.chat,
        columns.id == post.id,
    )
    async with database.transaction() as connection:
        await connection.execute(update(messages).where(*conditions).values(thread=reply_id))
