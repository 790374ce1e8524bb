"""Drafts: answers in the journal that wait until a team has decided about them.

A draft is the unfinished row of its question. Posted, it is delivered like any answer that a restart interrupted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, select, update

from core.runtime.tasks import uncancellable
from core.storage.engine import Repository
from core.storage.message_rows import get_skip_values, read_delivery, read_left, to_delivery, to_message
from core.storage.overrides import AuditEntry, write_entry
from core.storage.tables import DRAFTED, identity_values, messages
from core.types import Message, Reply, Skip, SkipReason

NOT_TO_BE_POSTED = (SkipReason.DRAFT_DROPPED.name, SkipReason.DRAFT_EXPIRED.name, SkipReason.DRAFT_FORGOTTEN.name)


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

    async def find_waiting(self, number: int) -> Draft | None:
        """Return the draft with a number, or None where none waits."""
        return next(iter(await self._find(messages.c.number == number)), None)

    async def find_of(self, question: Message) -> Draft | None:
        """Return the draft of a question, or None where none waits."""
        conditions = (messages.c[name] == value for name, value in identity_values(question).items())
        return next(iter(await self._find(*conditions)), None)

    async def get_notices(self, max_age: timedelta) -> Mapping[int, set[str]]:
        """Return the ids of what the team was told in the last time, by the numbers of the drafts."""
        query = select(messages.c.id, messages.c.root_id).filter_by(purpose="draft")
        notices = defaultdict[int, set[str]](set)
        for row in await self._database.fetch_all(query.where(messages.c.received_at > datetime.now(UTC) - max_age)):
            notices[int(row.root_id)].add(row.id)
        return notices

    async def get_lost(self, numbers: Collection[int]) -> Sequence[tuple[Draft, str]]:
        """Return those of some drafts that the team let be posted and that could not be, with the reason."""
        query = select(messages).where(messages.c.number.in_(numbers), messages.c.state.in_(("failed", "silent")))
        rows = await self._database.fetch_all(query.order_by(messages.c.number))
        lost_rows = [row for row in rows if (row.trace or {}).get("skip") not in NOT_TO_BE_POSTED]
        return [(_to_draft(row, Reply("")), row.reason) for row in lost_rows]

    async def approve(self, draft: Draft, reply: Reply, entry: AuditEntry) -> bool:
        """Leave a reply to be delivered in place of a draft; return False if something was decided before.

        Somebody may have been forgotten since the draft was read: what went from it then stays away.
        """

        def make(delivery: Mapping[str, Any]) -> Mapping[str, Any]:
            left_reply = read_left(reply, delivery)
            return {"state": "answering", "delivery": to_delivery(left_reply, {}), "settled_at": datetime.now(UTC)}

        return await self._settle(draft, make, entry)

    async def drop(self, draft: Draft, skip: Skip, entry: AuditEntry | None = None) -> bool:
        """Close the question of a draft without an answer; return False if something was decided before."""
        values = {**get_skip_values(skip), "state": "silent", "settled_at": datetime.now(UTC), "delivery": None}
        return await self._settle(draft, lambda _: values, entry)

    @uncancellable
    async def _settle(
        self, draft: Draft, make_values: Callable[[Mapping[str, Any]], Mapping[str, Any]], entry: AuditEntry | None
    ) -> bool:
        """Write what was decided, made of the reply that waits, and its entry in the audit.

        Of two decisions at once the first counts.
        """
        async with self._database.transaction() as connection:
            waiting = select(messages.c.delivery).filter_by(number=draft.number, state=DRAFTED).with_for_update()
            row = (await connection.execute(waiting)).first()
            if row is None:
                return False
            values = make_values(row.delivery)
            await connection.execute(update(messages).filter_by(number=draft.number).values(values))
            if entry:
                await write_entry(connection, entry)
        return True

    async def note_command(self, message: Message) -> None:
        """Note that a reply to a draft was a command, and no part of a conversation."""
        statement = update(messages).filter_by(**identity_values(message))
        await self._database.write(statement.values(command=message.command))

    async def _find(self, *conditions: ColumnElement[bool]) -> Sequence[Draft]:
        query = select(messages).filter_by(state=DRAFTED).where(*conditions).order_by(messages.c.number)
        return [_to_draft(row, read_delivery(row.delivery)) for row in await self._database.fetch_all(query)]


def _to_draft(row: Row[*tuple[Any, ...]], reply: Reply) -> Draft:
    return Draft(row.number, to_message(row), reply, row.visible_sources, row.settled_at)
