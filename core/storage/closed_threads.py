"""Threads that only a part of their chat reads by now: what was said there before is told there alone as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, or_, update

from core.runtime.tasks import uncancellable
from core.storage.tables import is_reply_in, messages, replies, taught_answers

if TYPE_CHECKING:
    from core.storage.engine import Database


@uncancellable
async def close_thread(database: Database, platform: str, chat: str, thread: str) -> int:
    """Close a thread, with those within it, for the rest of its chat; return how many messages were open before.

    What was cached in the chat goes: it may have been asked there. Raises `StoreError`.
    """
    counts = list[int]()
    async with database.transaction() as connection:
        # The messages first: who keeps a lesson of one at this moment has locked it until it is there.
        for table in (messages, taught_answers):
            columns = table.c
            is_within = or_(columns.thread == thread, columns.thread.startswith(f"{thread}/", autoescape=True))
            opened = update(table).filter_by(platform=platform, chat=chat, in_restricted_thread=False).where(is_within)
            counts.append((await connection.execute(opened.values(in_restricted_thread=True))).rowcount)
        if counts[0]:
            await connection.execute(delete(replies).where(is_reply_in(platform, chat)))
    return counts[0]
