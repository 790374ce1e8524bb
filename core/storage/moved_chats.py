"""Places that are forgotten with a chat: those of its former ids, and timelines, where nobody gives a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, delete, insert, select, update

from core.runtime.tasks import uncancellable
from core.settings.chats import is_timeline
from core.storage.tables import messages, moved_chats, overrides
from core.types import ConversationKey, PlatformName

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from core.storage.engine import Database

_SELECT_MOVES = select(moved_chats)


@uncancellable
async def record_move(database: Database, platform: str, former: str, chat: str) -> None:
    """Record that a chat has another id by now, under which the settings made there by commands hold from now on.

    Those that were made there meanwhile stay. Raises `StoreError`.
    """
    former_scope, scope = (str(PlatformName(platform, each)) for each in (former, chat))
    identity = {"platform": platform, "former": former}
    async with database.transaction() as connection:
        # What had moved to the former id has moved on.
        earlier = update(moved_chats).filter_by(platform=platform, chat=former)
        await connection.execute(earlier.values(chat=chat))
        await connection.execute(delete(moved_chats).filter_by(platform=platform).where(_is_known(former, chat)))
        await connection.execute(insert(moved_chats).values(**identity, chat=chat))
        names = select(overrides.c.name).filter_by(scope=scope)
        movable = update(overrides).filter_by(scope=former_scope).where(overrides.c.name.not_in(names))
        await connection.execute(movable.values(scope=scope))
        await connection.execute(delete(overrides).filter_by(scope=former_scope))


def _is_known(former: str, chat: str) -> ColumnElement[bool]:
    """Return that a row is of this move, told for the second time, or of one back to the present id."""
    return moved_chats.c.former.in_((former, chat))


async def find_moves(database: Database) -> Mapping[str, str]:
    """Return the chats (`platform:chat`) that have another id by now, each with that. Raises `StoreError`."""
    rows = await database.fetch_all(_SELECT_MOVES)
    return {str(PlatformName(row.platform, row.former)): str(PlatformName(row.platform, row.chat)) for row in rows}


async def list_places(connection: AsyncConnection, chat: ConversationKey) -> Sequence[Mapping[str, str]]:
    """Return the columns that name a chat, with their values, and those that named it before."""
    query = select(moved_chats.c.former).filter_by(platform=chat.platform, chat=chat.chat)
    chats = [chat.chat, *await connection.scalars(query)]
    return [{"platform": chat.platform, "chat": each} for each in chats]


async def list_timelines(
    connection: AsyncConnection, chat: ConversationKey, author_id: str
) -> Sequence[Mapping[str, str]]:
    """Return the columns that name the timelines with posts of a person, where a chat is that of public mentions."""
    if chat.chat.partition("@")[0] != "mentions":
        return []
    values = {"platform": chat.platform, "author_id": author_id}
    own_chats = (await connection.scalars(select(messages.c.chat).filter_by(**values).distinct())).all()
    return [{"platform": chat.platform, "chat": each} for each in own_chats if is_timeline(chat.platform, each)]
