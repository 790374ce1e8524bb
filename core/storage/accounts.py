"""Which accounts on a platform are the bot's, or were: what it said is brought back also when another one is asked."""

from __future__ import annotations

from collections.abc import Collection, Set
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from core.storage.tables import cursors, messages
from core.types import NETWORK_PLATFORM

if TYPE_CHECKING:
    from core.storage.engine import Database


async def note_own_accounts(database: Database, platform: str, author_ids: Collection[str]) -> None:
    """Keep that some accounts are the bot's, by the ids that they have as authors. Raises `JournalError`."""
    names = {_to_name(platform, author_id) for author_id in author_ids}
    query = select(cursors.c.name).where(cursors.c.name.in_(names))

    def write(connection: Connection) -> None:
        for name in names - set(connection.scalars(query)):
            # Another daemon may write the same at this moment.
            with suppress(IntegrityError), connection.begin_nested():
                connection.execute(insert(cursors).values(name=name, position=1))

    if names:
        await database.change(write)


async def find_own_accounts(database: Database, platform: str, author_ids: Set[str]) -> frozenset[str]:
    """Return which of some authors are, or were, the bot. Raises `JournalError`."""
    ids_by_name = {_to_name(platform, author_id): author_id for author_id in author_ids}
    rows = await database.fetch_all(select(cursors.c.name).where(cursors.c.name.in_(ids_by_name)))
    own_ids = frozenset(ids_by_name[row.name] for row in rows)
    # A network names no account of the bot's: its messages have the name that the bot is configured under.
    if platform == NETWORK_PLATFORM or own_ids == author_ids:
        return own_ids
    # From a time when accounts were not kept.
    former = select(messages.c.bot).filter_by(platform=platform).where(messages.c.bot.in_(author_ids - own_ids))
    return own_ids | {row.bot for row in await database.fetch_all(former.distinct())}


def _to_name(platform: str, author_id: str) -> str:
    return f"own {platform}:{author_id}"
