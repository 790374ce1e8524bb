"""The audit: who changed what by a command, and who was refused. Kept in the journal's database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.runtime.tasks import uncancellable
from core.storage.engine import Database
from core.storage.tables import audit
from core.types import Message

AuditOutcome = Literal["changed", "refused", "failed"]
MAX_TEXT_CHARS = 300
# A century: who writes a larger number means for good, and no calendar goes back that far.
MAX_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One command that changes something: where and by whom it was given, what came of it, and when (UTC).

    `what` names what was to be changed, or says why it was not; `before` and `after` are its values.
    """

    at: datetime
    platform: str
    chat: str
    author_id: str
    outcome: AuditOutcome
    command: str
    what: str = ""
    before: str = ""
    after: str = ""


def new_entry(message: Message, outcome: AuditOutcome, what: str = "", before: str = "", after: str = "") -> AuditEntry:
    """Return the entry of a message's command, dated now. What people typed is cut to a length."""
    command = f"{message.command} {message.text}".strip()[:MAX_TEXT_CHARS]
    key = message.key
    texts = (text[:MAX_TEXT_CHARS] for text in (what, before, after))
    return AuditEntry(datetime.now(UTC), key.platform, key.chat, message.author_id, outcome, command, *texts)


class Audit:
    """Every method raises `StoreError` when the database refuses.

    `get_keep_days` returns for how many days entries are kept, None for ever.
    """

    def __init__(self, database: Database, get_keep_days: Callable[[], float | None] = lambda: None) -> None:
        self._database = database
        self._get_keep_days = get_keep_days

    @uncancellable
    async def record(self, entry: AuditEntry) -> None:
        """Write an entry, and forget those that are too old."""
        async with self._database.transaction() as connection:
            await write_entry(connection, entry)
            keep_days = self._get_keep_days()
            if keep_days is not None:
                oldest = datetime.now(UTC) - timedelta(days=min(keep_days, MAX_DAYS))
                await connection.execute(delete(audit).where(audit.c.at < oldest))

    async def get_newest(self, limit: int, *, chat: tuple[str, str] | None = None) -> Sequence[AuditEntry]:
        """Return the newest entries, newest first: all, or those given in one chat (its platform and its id)."""
        columns = audit.c
        query = select(*(columns[name] for name in AuditEntry.__slots__)).order_by(columns.number.desc()).limit(limit)
        if chat is not None:
            query = query.where(columns.platform == chat[0], columns.chat == chat[1])
        async with self._database.connect() as connection:
            rows = (await connection.execute(query)).all()
        return [AuditEntry(*row) for row in rows]


async def write_entry(connection: AsyncConnection, entry: AuditEntry) -> None:
    """Write an entry within a transaction."""
    await connection.execute(insert(audit).values({name: getattr(entry, name) for name in AuditEntry.__slots__}))
