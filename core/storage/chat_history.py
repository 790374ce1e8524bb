"""What was said in a chat lately, as the journal has it: only what the bot could read is in there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select, update

from core.runtime.tasks import unbroken
from core.storage.engine import Database
from core.storage.tables import messages
from core.types import BY_BOT, ESCALATION_COMMAND, KIND, POST, RATING_COMMAND, SECOND, ConversationKey, Message

# How many of the newest messages of all chats are looked through at most: a chat's own are found among them sooner
# than by an index, for nobody asks for old ones.
LOOKED_THROUGH, MOST_SAID = 20_000, 200
_READ = ("id", "thread", "author_id", "author", "text", "reply_to", "state", "addressed", "received_at", "reference")
_ANSWERING = ("answering", "sending", "answered")
# In a message's reference: only a part of the chat reads its thread.
CLOSED = "closed"
# In a message's reference: it stands in the chat itself, though what is written below it has a thread of that name.
IN_CHAT = "in_chat"
# In a message's reference: true where its thread is one conversation, so that everybody's questions there go on with
# the bot that answered; false where it goes on with nobody. Without it only who was answered goes on.
FOLLOWED = "followed"


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the chat.

    `place` is its thread, "" for the chat itself. `volunteered` says that the bot answers it, or has, though nobody
    addressed it; `later` that it came after the message in question; `age_s` is how long ago it came.
    """

    id: str
    place: str
    author_id: str
    author: str
    text: str
    reply_to: str
    volunteered: bool
    later: bool
    age_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    """An earlier question of the chat and the answer, `age_s` seconds ago."""

    question: str
    reply: str
    age_s: float


@dataclass(frozen=True, slots=True)
class Given:
    """An answer that one of our bots gave in a thread.

    `unasked` says that nobody addressed the bot, `offer` that nothing but an offer was made then, `post` that a post
    was answered, and `opens` that what was answered opened the thread.
    """

    bot: str
    author_id: str
    unasked: bool
    offer: bool
    post: bool
    opens: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """A message as another bot of ours received it: `first` says that it was journalled before ours."""

    text: str
    first: bool
    addressed: bool


class Room:
    """Reads from the journal's database. Every method raises `StoreError` when it refuses."""

    def __init__(self, database: Database) -> None:
        self._reading = database.reading
        self._writing = database.writing

    async def lately(self, message: Message, seconds: float) -> Sequence[Said]:
        """Return what else people wrote that reached this bot in the chat in the last seconds, oldest first."""
        columns = messages.c
        query = _newest(message, *_READ).where(
            columns.received_at > _ago(seconds), columns.bot == message.bot, written()
        )
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
        here = next((at for at, row in enumerate(rows) if row.id == message.id), len(rows))
        # What other bots write is in the journal as well, where comments are counted; nobody has answered by that.
        said = [
            _said(row, later=at < here)
            for at, row in enumerate(rows)
            if at != here and not (row.reference or {}).get(BY_BOT)
        ]
        return said[::-1]

    async def answers_to(self, message: Message, seconds: float) -> int:
        """Return how many answers its author got in the chat in the last seconds.

        Those in the making are included, and those that failed: what was refused was told as well.
        """
        columns = messages.c
        newest = _newest(message, "id").where(
            columns.author_id == message.author_id,
            columns.state.in_((*_ANSWERING, "failed")),
            columns.received_at > _ago(seconds),
            columns.id != message.id,
        )
        async with self._reading() as connection:
            return len((await connection.execute(newest)).all())

    async def answered(self, message: Message, seconds: float) -> Sequence[Answered]:
        """Return what was asked in the chat and answered from the knowledge in the last seconds, newest first."""
        columns = messages.c
        query = _newest(message, "text", "reply", "citations", "settled_at").where(
            columns.state == "answered",
            columns.reply != "",
            columns.command.in_(("", "ask")),
            columns.settled_at > _ago(seconds),
            readable(message),
        )
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
        return [Answered(row.text, row.reply, _age(row.settled_at)) for row in rows if row.citations]

    async def copies(self, message: Message) -> Sequence[Copy]:
        """Return the same message as other bots of ours received it in the chat."""
        columns = messages.c
        theirs = (columns.author_id == message.author_id, columns.sent_at == message.sent_at)
        mine = select(columns.id).where(*_at(message.key), columns.bot == message.bot, *theirs)
        # Where every bot counts messages for itself, the words and the moment tell; what has the id of another message
        # that reached this bot at that moment is a copy of that one.
        alike = and_(columns.text == message.text, columns.command == "", columns.id.not_in(mine))
        query = _newest(message, "number", "addressed", "text").where(
            *(columns.bot != message.bot, *theirs, columns.command == message.command),
            or_(columns.id == message.id, alike),
        )
        own = select(columns.number).where(*_at(message.key), columns.bot == message.bot, columns.id == message.id)
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
            number = await connection.scalar(own) if rows else None
        return [Copy(row.text, first=number is None or row.number < number, addressed=row.addressed) for row in rows]

    async def shown_by(self, message: Message) -> str | None:
        """Return which bot posted what this message replies to, or None where none of ours did."""
        columns = messages.c
        query = select(columns.bot).where(*_at(message.key), columns.reply_id == message.reply_to)
        async with self._reading() as connection:
            found = await connection.scalar(query.limit(1))
        return None if found is None else str(found)

    async def answered_by(self, key: ConversationKey, bot: str) -> bool:
        """Say whether one bot has answered in a conversation before."""
        columns = messages.c
        answered = (columns.bot == bot, columns.state == "answered", columns.reply != "")
        query = select(columns.number).where(*_at(key), columns.thread == key.thread, *answered).limit(1)
        async with self._reading() as connection:
            return (await connection.execute(query)).first() is not None

    async def given(self, message: Message, seconds: float) -> Sequence[Given]:
        """Return what our bots answered in the message's thread in the last seconds, newest first.

        The answer on which the thread was opened is one of them.
        """
        columns, thread = messages.c, message.key.thread
        read = ("bot", "author_id", "id", "thread", "reply_to", "addressed", "citations", "reference")
        query = _newest(message, *read).where(
            or_(columns.thread == thread, columns.reply_id == thread),
            columns.state == "answered",
            columns.command.in_(("", "ask")),
            columns.settled_at > _ago(seconds),
            columns.id != message.id,
        )
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
        return [_given(row) for row in rows]

    @unbroken
    async def meant(self, message: Message) -> None:
        """Note that a message was for the bot, though its platform could not tell: it is none that nobody asked."""
        columns = messages.c
        mine = (*_at(message.key), columns.bot == message.bot, columns.id == message.id)
        async with self._writing() as connection:
            await connection.execute(update(messages).where(*mine).values(addressed=True))

    async def told(self, message: Message, text: str, seconds: float) -> bool:
        """Say whether its author was told just this in the chat in the last seconds."""
        columns = messages.c
        query = select(columns.number).where(
            *_at(message.key),
            columns.author_id == message.author_id,
            columns.reply == text,
            columns.settled_at > _ago(seconds),
        )
        async with self._reading() as connection:
            return (await connection.execute(query.limit(1))).first() is not None

    async def author_of(self, message: Message) -> str | None:
        """Return who wrote what this message replies to, or None where that never reached the bot."""
        columns = messages.c
        query = select(columns.author_id).where(
            *_at(message.key), columns.bot == message.bot, columns.id == message.reply_to
        )
        async with self._reading() as connection:
            found = await connection.scalar(query)
        return None if found is None else str(found)


def written() -> ColumnElement[bool]:
    """Return that somebody wrote a message: it is no press of a button, no question asked again by one, no call."""
    columns = messages.c
    pressed = columns.command.in_((RATING_COMMAND, ESCALATION_COMMAND))
    return and_(~pressed, ~columns.id.endswith(SECOND))


def place_of(message: Message) -> str:
    """Return the thread in which a message stands, "" for the chat itself."""
    return "" if message.reference.get(IN_CHAT) else message.key.thread


def readable(message: Message) -> ColumnElement[bool]:
    """Return that messages may be told of where this one was written: not what stands in another, closed thread."""
    columns = messages.c
    return or_(columns.thread == message.key.thread, columns.reference[CLOSED].as_boolean().is_not(True))


def _newest(message: Message, *names: str) -> Select[Any]:
    columns = messages.c
    newest = select(func.max(columns.number)).scalar_subquery()
    key = message.key
    # The index on conversations is kept out of it: it would read and sort the whole chat.
    place = (columns.platform + "" == key.platform, columns.chat + "" == key.chat)
    return (
        select(*(columns[name] for name in names))
        .where(columns.number > newest - LOOKED_THROUGH, *place)
        .order_by(columns.number.desc())
        .limit(MOST_SAID)
    )


def _said(row: Row[Any], *, later: bool) -> Said:
    return Said(
        row.id,
        "" if (row.reference or {}).get(IN_CHAT) else row.thread,
        row.author_id,
        row.author,
        row.text,
        row.reply_to,
        volunteered=row.state in _ANSWERING and not row.addressed,
        later=later,
        age_s=_age(row.received_at),
    )


def _given(row: Row[Any]) -> Given:
    return Given(
        row.bot,
        row.author_id,
        unasked=not row.addressed,
        offer=not (row.addressed or row.citations),
        post=(row.reference or {}).get(KIND) == POST,
        opens=row.thread == row.id and not row.reply_to,
    )


def _at(key: ConversationKey) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return messages.c.platform == key.platform, messages.c.chat == key.chat


def _ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


def _age(moment: datetime) -> float:
    # SQLite gives times back without their zone.
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (datetime.now(UTC) - zoned).total_seconds()
