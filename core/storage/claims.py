"""Claims: which of the daemons that share a journal works on which message. PostgreSQL only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Text, all_, and_, case, exists, func, literal, null, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY

from core.runtime.tasks import uncancellable
from core.storage.engine import Repository
from core.storage.leases import select_living
from core.storage.message_rows import to_message
from core.storage.statements import UNFINISHED_STATES
from core.storage.tables import identity_values, leases, messages
from core.types import Message

# Messages of conversations that are ours already, at once.
MAX_FOLLOWERS = 100
# What names a message, in one text: thousands of them are one parameter of a query.
MessageIdentity = str
IDENTITY_NAMES = ("platform", "chat", "bot", "id")
SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Claim:
    """A message that is ours: `reply_id` is what is posted of its reply, or "".

    `is_in_doubt`: its former owner died while it posted the reply.
    """

    message: Message
    reply_id: str
    is_in_doubt: bool
    is_taken_over: bool


class ClaimRepository(Repository):
    """The claims of this process. Every method raises `StoreError` when the database fails."""

    @uncancellable
    async def claim(
        self, platforms: Collection[str], limit: int, begun: Collection[MessageIdentity] = ()
    ) -> Sequence[Claim]:
        """Claim the oldest messages that nobody works on, `limit` at most, and what follows in our conversations.

        A message is claimed only when all unfinished messages before it in its conversation are ours: so the order
        within a conversation holds over all daemons. None of `begun` is claimed, whoever has it now: this process works
        on them. What is ours without being begun is claimed, too: the answer of the server to its claim was lost.

        Nothing is claimed while our own lease has run out: the others would take it from us at once.
        """
        own_id = self._database.owner
        earlier_messages = messages.alias()
        columns = messages.c
        is_ours = columns.owner == own_id
        # That our own lease runs out does not end our work.
        is_free = or_(columns.owner == "", and_(~is_ours, columns.owner.not_in(select_living())))
        is_before = and_(
            *(earlier_messages.c[name] == columns[name] for name in ("platform", "chat", "thread")),
            earlier_messages.c.number < columns.number,
            earlier_messages.c.state.in_(UNFINISHED_STATES),
        )
        is_first = ~exists().where(is_before, earlier_messages.c.owner != own_id)
        is_follower = exists().where(is_before, earlier_messages.c.owner == own_id)
        identity = func.concat_ws(SEPARATOR, *(columns[name] for name in IDENTITY_NAMES))
        conditions = [
            columns.state.in_(UNFINISHED_STATES),
            columns.platform.in_(platforms),
            exists(select_living().where(leases.c.owner == own_id)),
            identity != all_(literal(list(begun), ARRAY(Text))),
        ]
        # In one batch: what is ours comes before what follows it.
        is_due = or_(is_ours, and_(is_free, is_first, is_follower))
        claims = await self._claim_batch([*conditions, is_due], MAX_FOLLOWERS)
        if limit > 0:
            claims += await self._claim_batch([*conditions, is_free, is_first, ~is_follower], limit)
        return claims

    async def _claim_batch(self, conditions: Sequence[ColumnElement[bool]], limit: int) -> list[Claim]:
        columns = messages.c
        query = select(messages).where(*conditions).order_by(columns.number).limit(limit)
        async with self._database.transaction() as connection:
            # Two daemons that look at the same moment take different messages, and none waits.
            rows = (await connection.execute(query.with_for_update(skip_locked=True))).all()
            if rows:
                is_invisible = and_(columns.reply_id == "", columns.delivery.is_(null()))
                # Answers of which nothing was posted begin anew, so edits count again.
                state = case((and_(columns.state == "answering", is_invisible), "received"), else_=columns.state)
                statement = update(messages).where(columns.number.in_([row.number for row in rows]))
                await connection.execute(statement.values(owner=self._database.owner, state=state))
        own_owners = ("", self._database.owner)
        return [
            Claim(to_message(row), row.reply_id, row.state == "sending", row.owner not in own_owners) for row in rows
        ]

    async def release_all(self) -> None:
        """Leave all unfinished messages of ours to the others."""
        is_ours = update(messages).filter_by(owner=self._database.owner)
        await self._database.write(is_ours.where(messages.c.state.in_(UNFINISHED_STATES)).values(owner=""))


def get_identity(message: Message) -> MessageIdentity:
    """Return what names a message among those that the daemons share."""
    values = identity_values(message)
    return SEPARATOR.join(values[name] for name in IDENTITY_NAMES)
