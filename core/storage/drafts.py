"""Drafts: answers in the journal that wait until a team has decided about them.

A draft is the unfinished row of its question. Posted, it is delivered like any answer that a restart interrupted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Text, cast, select, update

from core.runtime.tasks import uncancellable
from core.storage.engine import Repository
from core.storage.messages import get_skip_values, read_delivery, to_delivery, to_message
from core.storage.overrides import AuditEntry, write_entry
from core.storage.tables import DRAFTED, identity_values, messages
from core.types import Message, Reply, Skip


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply that waits, with its question; `number` names it. `visible_sources` as in `JournaledAnswer`."""

    number: int
    question: Message
    reply: Reply
    visible_sources: Sequence[str] | None
    drafted_at: datetime


class DraftRepository(Repository):
    """All drafts that wait. Every method raises `StoreError` when the database fails."""

    async def get_waiting(self) -> Sequence[Draft]:
        """Return the drafts, oldest first."""
        return await self._find()

    async def find(self, number: int) -> Draft | None:
        """Return the draft with a number, or None where none waits."""
        return next(iter(await self._find(messages.c.number == number)), None)

    async def find_of(self, question: Message) -> Draft | None:
        """Return the draft of a question, or None where none waits."""
        conditions = (messages.c[name] == value for name, value in identity_values(question).items())
        return next(iter(await self._find(*conditions)), None)

    async def get_notices(self) -> Mapping[int, set[str]]:
        """Return the ids of what the team was told, by the numbers of the drafts that wait."""
        waiting = select(cast(messages.c.number, Text)).filter_by(state=DRAFTED)
        query = select(messages.c.id, messages.c.root_id).filter_by(purpose="draft")
        notices = defaultdict[int, set[str]](set)
        for row in await self._database.fetch_all(query.where(messages.c.root_id.in_(waiting))):
            notices[int(row.root_id)].add(row.id)
        return notices

    async def approve(self, draft: Draft, reply: Reply, entry: AuditEntry) -> bool:
        """Leave a reply to be delivered in place of a draft; return False if something was decided before."""
        return await self._settle(draft, {"state": "answering", "delivery": to_delivery(reply, {})}, entry)

    async def drop(self, draft: Draft, skip: Skip, entry: AuditEntry | None = None) -> bool:
        """Close the question of a draft without an answer; return False if something was decided before."""
        values = {**get_skip_values(skip), "state": "silent", "settled_at": datetime.now(UTC), "delivery": None}
        return await self._settle(draft, values, entry)

    @uncancellable
    async def _settle(self, draft: Draft, values: Mapping[str, Any], entry: AuditEntry | None) -> bool:
        """Write what was decided and its entry in the audit. Of two decisions at once the first counts."""
        async with self._database.transaction() as connection:
            statement = update(messages).filter_by(number=draft.number, state=DRAFTED)
            if not (await connection.execute(statement.values(values))).rowcount:
                return False
            if entry:
                await write_entry(connection, entry)
        return True

    async def note_command(self, message: Message) -> None:
        """Note that a reply to a draft was a command, and no part of a conversation."""
        statement = update(messages).filter_by(**identity_values(message))
        await self._database.write(statement.values(command=message.command))

    async def _find(self, *conditions: ColumnElement[bool]) -> Sequence[Draft]:
        query = select(messages).filter_by(state=DRAFTED).where(*conditions).order_by(messages.c.number)
        return [_to_draft(row) for row in await self._database.fetch_all(query)]


def _to_draft(row: Row[*tuple[Any, ...]]) -> Draft:
    return Draft(row.number, to_message(row), read_delivery(row.delivery), row.visible_sources, row.settled_at)
