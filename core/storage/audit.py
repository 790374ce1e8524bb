"""The audit: who changed what by a command, and who was refused. Kept in the journal's database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.runtime.tasks import unbroken
from core.storage.engine import Database
from core.storage.tables import audit
from core.types import Message

Outcome = Literal["changed", "refused", "failed"]
LONGEST = 300
# A century: who writes a larger number means for good, and no calendar goes back that far.
LONGEST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Entry:
    """One command that changes something: where and by whom it was given, what came of it, and when (UTC).

    `what` names what was to be changed, or says why it was not; `before` and `after` are its values.
    """

    at: datetime
    platform: str
    chat: str
    author_id: str
    outcome: Outcome
    command: str
    what: str = ""
    before: str = ""
    after: str = ""


def entry(message: Message, outcome: Outcome, what: str = "", before: str = "", after: str = "") -> Entry:
    """Return the entry of a message's command, dated now. What people typed is cut to a length."""
    command = f"{message.command} {message.text}".strip()[:LONGEST]
    key = message.key
    texts = (one[:LONGEST] for one in (what, before, after))
    return Entry(datetime.now(UTC), key.platform, key.chat, message.author_id, outcome, command, *texts)


class Audit:
    """Every method raises `StoreError` when the database refuses. `keep_days` None keeps entries for ever."""

    def __init__(self, database: Database, keep_days: float | None = None) -> None:
        self._database = database
        self._keep_days = keep_days

    def adopt(self, keep_days: float | None) -> None:
        """Keep entries for another time from now on."""
        self._keep_days = keep_days

    @unbroken
    async def record(self, entry: Entry) -> None:
        """Write an entry, and forget those that are too old."""
        async with self._database.writing() as connection:
            await write(connection, entry)
            if self._keep_days is not None:
                oldest = datetime.now(UTC) - timedelta(days=min(self._keep_days, LONGEST_DAYS))
                await connection.execute(delete(audit).where(audit.c.at < oldest))

    async def newest(self, limit: int, *, chat: tuple[str, str] | None = None) -> Sequence[Entry]:
        """Return the newest entries, newest first: all, or those given in one chat (its platform and its id)."""
        columns = audit.c
        query = select(*(columns[name] for name in Entry.__slots__)).order_by(columns.number.desc()).limit(limit)
        if chat is not None:
            query = query.where(columns.platform == chat[0], columns.chat == chat[1])
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        found = [Entry(*row) for row in rows]
        # SQLite gives times back without their zone.
        return [one if one.at.tzinfo else replace(one, at=one.at.replace(tzinfo=UTC)) for one in found]


async def write(connection: AsyncConnection, entry: Entry) -> None:
    """Write an entry within a transaction."""
    await connection.execute(insert(audit).values({name: getattr(entry, name) for name in Entry.__slots__}))
