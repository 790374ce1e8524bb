"""The journal: messages received, answers given, and where each platform's stream of updates stands.

A message that is in here is never lost: it is answered, or its silence has a reason, or it is still pending and is
taken up at the next start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Row as ResultRow
from sqlalchemy import Select, and_, delete, insert, null, or_, select, update
from sqlalchemy.exc import IntegrityError

from core.observability.recorder import Meter, Settled, Unmetered
from core.runtime.tasks import unbroken
from core.storage.answer_cache import of_chat
from core.storage.engine import Database
from core.storage.erasure import forget_person
from core.storage.tables import cursors, messages, replies
from core.text.formatting import with_seen
from core.types import Attachment, ConversationKey, Message, Reply, Trace, Turn


class Journal:
    """The durable record. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database, meter: Meter | None = None) -> None:
        self.database = database
        self._meter = meter or Unmetered()
        self._writing = database.writing
        self._reading = database.reading

    @classmethod
    async def open(cls, path: Path) -> Journal:
        """Open the journal file, making it when it is not there. Raises `StoreError` for one of another version."""
        return cls(await Database.open(path))

    @unbroken
    async def received(self, message: Message) -> bool:
        """Record a message durably. False when it is known already (the platform delivered it again)."""
        values = {
            "platform": message.key.platform,
            "chat": message.key.chat,
            "thread": message.key.thread,
            **{name: getattr(message, name) for name in _COPIED},
            "reference": dict(message.reference),
            "attachments": [asdict(one) for one in message.attachments] or None,
            "received_at": datetime.now(UTC),
            "state": "received",
        }
        async with self._writing() as connection:
            try:
                async with connection.begin_nested():
                    await connection.execute(insert(messages).values(values))
            except IntegrityError:
                return False
        return True

    @unbroken
    async def edited(self, message: Message) -> bool:
        """Take over the new text of a message whose answer has not begun. False when it is too late."""
        async with self._writing() as connection:
            done = await connection.execute(
                update(messages)
                .where(*_identity(message), messages.c.state == "received", messages.c.command.in_(("", "ask")))
                .values(text=message.text)
            )
        return done.rowcount > 0

    @unbroken
    async def begin(self, message: Message) -> str:
        """Note that the answer begins and return the text to answer, with all edits so far; later ones are refused."""
        async with self._writing() as connection:
            await connection.execute(
                update(messages).where(*_identity(message), messages.c.state == "received").values(state="answering")
            )
            text = await connection.scalar(select(messages.c.text).where(*_identity(message)))
        return message.text if text is None else str(text)

    async def posting(self, message: Message) -> None:
        """Note that the reply is about to be posted; a crash from here on leaves in doubt whether it was."""
        await self._change(message, state="sending")

    async def refused(self, message: Message) -> None:
        """Note that nothing was posted after all: a crash from here on leaves no doubt."""
        await self._change(message, state="answering")

    async def posted(self, message: Message, reply_id: str) -> None:
        """Note the platform's id of the reply: after a crash it is edited, and no second one is posted."""
        await self._change(message, state="answering", reply_id=reply_id)

    async def answered(self, message: Message, reply: Reply) -> None:
        """Close a message with its reply."""
        citations = [{"n": one.n, "passage_id": one.passage_id, "source": one.source} for one in reply.citations]
        told = {"reply": reply.text, "citations": citations, "trace": _plain(reply.trace), "seen": reply.seen}
        # Who asked to be forgotten is not to be named by that very message, once it is answered.
        await self._settle(message, "answered", **{**(_EMPTIED if message.command == "forget" else {}), **told})

    async def silent(self, message: Message, reason: str) -> None:
        """Close a message that gets no answer, with the reason."""
        await self._settle(message, "silent", reason=reason)

    async def failed(self, message: Message, reason: str) -> None:
        """Close a message whose answer failed; the asker was told, or could not be."""
        await self._settle(message, "failed", reason=reason)

    async def pending(self, platform: str) -> Sequence[tuple[Message, str]]:
        """Return the messages that were received but not settled, oldest first, each with its reply's id or ""."""
        query = (
            select(messages)
            .where(messages.c.platform == platform, messages.c.state.in_(("received", "answering")))
            .order_by(messages.c.number)
        )
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
        return [(message_of(row), row.reply_id) for row in rows]

    @unbroken
    async def uncertain(self, platform: str) -> int:
        """Settle what a crash left in the state "sending" and return how many.

        The platform may or may not have posted those replies and cannot be asked. Posting again could answer twice, so
        they are closed, with that reason. Answers that had only begun begin anew, so edits count again.
        """
        columns = messages.c
        begun = (columns.platform == platform, columns.state == "answering", columns.reply_id == "")
        async with self._writing() as connection:
            await connection.execute(update(messages).where(*begun).values(state="received"))
            done = await connection.execute(
                update(messages)
                .where(messages.c.platform == platform, messages.c.state == "sending")
                .values(state="failed", reason="killed while the reply was being posted", settled_at=datetime.now(UTC))
            )
        return done.rowcount

    async def conversation(self, key: ConversationKey, limit: int) -> Sequence[Turn]:
        """Return the last `limit` turns of answered questions, oldest first."""
        query = (
            select(*(messages.c[name] for name in _TURN))
            .where(
                messages.c.platform == key.platform,
                messages.c.chat == key.chat,
                messages.c.thread == key.thread,
                messages.c.state == "answered",
                messages.c.command.in_(("", "ask")),
                messages.c.reply != "",
            )
            .order_by(messages.c.number.desc())
            .limit((limit + 1) // 2)
        )
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
        turns = [turn for row in reversed(rows) for turn in _turns(row)]
        return turns[-limit:] if limit else []

    async def answer_shown_as(self, message: Message) -> tuple[Turn, Turn] | None:
        """Return the question and answer whose reply this message replies to, or None when it is no answer of ours."""
        columns = messages.c
        query = select(*(columns[name] for name in _TURN)).where(
            columns.platform == message.key.platform,
            columns.bot == message.bot,
            columns.chat == message.key.chat,
            columns.reply_id == message.reply_to,
            columns.reply_id != "",
            columns.reply != "",
            columns.state == "answered",
        )
        async with self._reading() as connection:
            row = (await connection.execute(query)).first()
        return None if row is None else _turns(row)

    async def position(self, cursor: str) -> int | None:
        """Return where a platform's stream of updates stands, or None for a new one."""
        async with self._reading() as connection:
            found = await connection.scalar(select(cursors.c.position).where(cursors.c.name == cursor))
        return None if found is None else int(found)

    @unbroken
    async def advance(self, cursor: str, position: int) -> None:
        """Record where a platform's stream of updates stands."""
        async with self._writing() as connection:
            done = await connection.execute(update(cursors).where(cursors.c.name == cursor).values(position=position))
            if not done.rowcount:
                await connection.execute(insert(cursors).values(name=cursor, position=position))

    async def forget(self, settled: datetime | None, unanswered: datetime | None) -> int:
        """Remove what people said and were told before `settled`, and before `unanswered` where nothing was answered.

        None keeps all of it. What is left of a message says that there was one, so that it is not taken for new when a
        platform delivers it again. Messages that still wait for an answer stay. Returns how many were emptied.
        """
        columns, emptied = messages.c, 0
        old = [
            and_(columns.state.in_(states), columns.settled_at < before)
            for states, before in ((("answered", "failed", "silent"), settled), (("silent",), unanswered))
            if before
        ]
        holds = or_(*(columns[name] != "" for name in _SAID))
        query = select(columns.number).where(or_(*old), holds).limit(FORGOTTEN_AT_ONCE) if old else None
        while query is not None:
            # In small steps: whoever journals a message waits for the one that writes.
            step = await self._empty(query)
            emptied += step
            if step < FORGOTTEN_AT_ONCE:
                break
        return emptied

    @unbroken
    async def _empty(self, query: Select[tuple[int]]) -> int:
        async with self._writing() as connection:
            numbers = (await connection.scalars(query)).all()
            await connection.execute(update(messages).where(messages.c.number.in_(numbers)).values(_EMPTIED))
        return len(numbers)

    @unbroken
    async def forget_author(self, message: Message) -> int:
        """Remove what the author of this message said in its chat and was told; returns how many messages held any.

        The message itself loses its author as well. What still waits for an answer stays.
        """
        if not message.author_id:
            return 0
        columns, key = messages.c, message.key
        theirs = (columns.platform == key.platform, columns.chat == key.chat, columns.author_id == message.author_id)
        settled = columns.state.in_(("answered", "failed", "silent"))
        async with self._writing() as connection:
            # Earlier answers hold the question too; they must go first, while its text is still there to be compared.
            asked = replies.c.asked.in_(select(columns.text).where(*theirs))
            await connection.execute(delete(replies).where(of_chat(key), asked))
            done = await connection.execute(update(messages).where(*theirs, settled).values(_EMPTIED))
            await forget_person(connection, message)
            await connection.execute(update(messages).where(*_identity(message)).values(author_id="", author=""))
        return done.rowcount

    async def close(self) -> None:
        """Close the database. Idempotent."""
        await self.database.close()

    async def _settle(self, message: Message, state: Settled, **values: Any) -> None:
        await self._change(message, state=state, settled_at=datetime.now(UTC), **values)
        self._meter.settled(message.key.platform, state, values.get("reason", ""))

    @unbroken
    async def _change(self, message: Message, **values: Any) -> None:
        async with self._writing() as connection:
            await connection.execute(update(messages).where(*_identity(message)).values(values))


FORGOTTEN_AT_ONCE = 200
# What a message's row holds of people: their words, names and numbers, and what was found and told.
_SAID = ("author_id", "author", "text", "quoted", "reply")
_EMPTIED: Mapping[str, Any] = {
    **dict.fromkeys(_SAID, ""),
    "reference": {},
    "citations": null(),
    "trace": null(),
    "attachments": null(),
    "seen": null(),
}
_TURN = ("text", "author", "author_id", "reply", "seen")
_COPIED = (
    *("id", "bot", "author_id", "author", "text", "command", "reply_to", "quoted", "private", "addressed", "sent_at"),
)


def _plain(trace: Trace) -> dict[str, Any]:
    """Return a trace as JSON holds it."""
    plain = {name: getattr(trace, name) for name in ("query", "strategy", "dropped_citations", "cached")}
    lists = {name: list(getattr(trace, name)) for name in ("agents", "cut")}
    mappings = {name: dict(getattr(trace, name)) for name in ("timings_ms", "tokens", "cost", "why_cut")}
    return {**plain, **lists, **mappings, "rounds": [asdict(one) for one in trace.rounds]}


def _identity(message: Message) -> tuple[Any, ...]:
    key, columns = message.key, messages.c
    place = columns.platform == key.platform, columns.bot == message.bot, columns.chat == key.chat
    return *place, columns.id == message.id


def message_of(row: ResultRow[Any]) -> Message:
    """Return the message that a whole row of its table holds."""
    values = {name: getattr(row, name) for name in _COPIED}
    values["sent_at"] = row.sent_at if row.sent_at.tzinfo else row.sent_at.replace(tzinfo=UTC)
    values["attachments"] = tuple(Attachment(**one) for one in row.attachments or ())
    return Message(key=ConversationKey(row.platform, row.chat, row.thread), reference=row.reference, **values)


def _turns(row: ResultRow[Any]) -> tuple[Turn, Turn]:
    said = with_seen(row.text, row.seen or "")
    return Turn("user", said, row.author, row.author_id), Turn("assistant", row.reply)
