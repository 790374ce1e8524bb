"""Recent messages of a chat, from the journal: only messages that the bot could read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.storage import statements
from core.storage.engine import Repository
from core.storage.tables import (
    bot_values,
    chat_values,
    get_last,
    identity_values,
    may_be_shown,
    messages,
    within_last,
)
from core.types import ASK_COMMANDS, HANDOFF_COMMAND, NETWORK_PLATFORM, RATING_COMMAND, ConversationKey, Message

_COLUMN_NAMES = (
    "number",
    "id",
    "thread",
    "author_id",
    "author",
    "text",
    "reply_to",
    "state",
    "addressed",
    "received_at",
    "is_by_bot",
    "in_main_chat",
)

# What is somebody's in a message: what it brings may be somebody else's.
_WORDS = ("author_id", "text", "quoted", "attachments")
_SELECT_WORDS = select(*(messages.c[name] for name in _WORDS)).with_for_update()


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """One message of the chat.

    `thread` is "" for the chat itself. `has_unprompted_answer` is true if the bot answers or answered it unprompted;
    `is_later` if it came after the message in question. `age_s` is its age in seconds, `number` its number in the
    journal.
    """

    id: str
    thread: str
    author_id: str
    author: str
    text: str
    reply_to: str
    has_unprompted_answer: bool
    is_later: bool
    age_s: float
    number: int = 0


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """An earlier question of the chat and its answer, `age_s` seconds ago; `number` is that in the journal."""

    question: str
    reply: str
    age_s: float
    number: int = 0


@dataclass(frozen=True, slots=True)
class BotAnswer:
    """An answer that one of our bots gave in a thread.

    `is_unprompted`: nobody addressed the bot. `is_offer`: it only offered an answer. `is_for_post`: it answered a post.
    `opens_thread`: the answered message opened the thread.
    """

    bot: str
    author_id: str
    is_unprompted: bool
    is_offer: bool
    is_for_post: bool
    opens_thread: bool


@dataclass(frozen=True, slots=True)
class DuplicateDelivery:
    """The copy of a message that another bot of ours received; `is_first` if it was journalled before ours."""

    text: str
    is_first: bool
    is_addressed: bool


class ChatHistory(Repository):
    """Reads recent messages. Every method raises `StoreError` when the database fails."""

    async def get_recent_messages(self, message: Message, seconds: float) -> Sequence[HistoryMessage]:
        """Return the other messages of people in the chat in the last seconds, oldest first.

        Of a time when the chat was private, only those of the message's author, where it is so. No commands: on some
        platforms nobody else sees what is typed behind them.
        """
        columns = messages.c
        query = statements.select_newest(*_COLUMN_NAMES).where(
            within_last(columns.received_at, seconds),
            columns.bot == message.bot,
            is_user_message(),
            columns.command.in_(ASK_COMMANDS),
            is_told_to(message),
        )
        rows = await self._database.fetch_all(query, statements.identify(message))
        own_index = next((index for index, row in enumerate(rows) if row.id == message.id), len(rows))
        # The journal also has messages of other bots, to count comments; they are not answers by people.
        recent_messages = [
            _to_history_message(row, is_later=index < own_index)
            for index, row in enumerate(rows)
            if index != own_index and not row.is_by_bot
        ]
        return recent_messages[::-1]

    async def is_read_by_others(self, message: Message) -> bool:
        """Return whether somebody else may read the chat of a private message by now.

        It was private no more since, or that of somebody else: over HTTP alone may a chat become one of other people.
        """
        if not message.private or message.key.platform != NETWORK_PLATFORM:
            return False
        parameters = {**statements.identify(message), "own_author_id": message.author_id}
        return await self._database.fetch_first(statements.SELECT_LATER_OF_OTHERS, parameters) is not None

    async def are_remembered(self, numbers: Collection[int]) -> bool:
        """Return whether all of these messages are there with their authors and answers: nobody was forgotten."""
        rows = await self._database.fetch_all(statements.SELECT_REMEMBERED, {"others": list(numbers)})
        return len(rows) == len(numbers)

    async def count_answers_to(self, message: Message, seconds: float) -> int:
        """Return how many answers the message's author got in the chat in the last seconds.

        To a question, those to questions count; to a command, those to commands. Answers in progress, drafts and failed
        ones count too; pages of the bot that somebody opened do not.
        """
        query = statements.select_answers(to_questions=message.command in ASK_COMMANDS)
        since, until = get_last(seconds)
        parameters = {"own_author_id": message.author_id, "since": since, "until": until}
        return len(await self._database.fetch_all(query, {**statements.identify(message), **parameters}))

    async def get_earlier_answers(
        self, message: Message, seconds: float, visible_labels: frozenset[str] | None
    ) -> Sequence[EarlierAnswer]:
        """Return the questions that the bot answered in the chat in the last seconds, newest first.

        Answers that could be made from sources without `visible_labels` are left out.
        """
        columns = messages.c
        names = ("number", "text", "reply", "citations", "settled_at", "visible_sources")
        query = statements.select_newest(*names).where(
            columns.state == "answered",
            columns.reply != "",
            columns.command.in_(ASK_COMMANDS),
            within_last(columns.settled_at, seconds),
            is_readable_from(message),
        )
        rows = await self._database.fetch_all(query, statements.identify(message))
        return [
            EarlierAnswer(row.text, row.reply, _age_s(row.settled_at), row.number)
            for row in rows
            if row.citations and may_be_shown(row.visible_sources, visible_labels)
        ]

    async def get_duplicates(self, message: Message) -> Sequence[DuplicateDelivery]:
        """Return the copies of a message that our other bots received."""
        columns = messages.c
        is_same_event = (columns.author_id == message.author_id, columns.sent_at == message.sent_at)
        own_ids = select(columns.id).filter_by(**bot_values(message)).where(*is_same_event)
        # If message ids are per bot, the text and the time identify a copy, unless this bot received another message
        # with that id at that time.
        is_alike = and_(columns.text == message.text, columns.command == "", columns.id.not_in(own_ids))
        query = statements.select_newest("number", "addressed", "text").where(
            columns.bot != message.bot,
            *is_same_event,
            columns.command == message.command,
            or_(columns.id == message.id, is_alike),
        )
        own_number = select(columns.number).filter_by(**identity_values(message))
        rows = await self._database.fetch_all(query, statements.identify(message))
        number = await self._database.fetch_value(own_number) if rows else None
        return [
            DuplicateDelivery(row.text, is_first=number is None or row.number < number, is_addressed=row.addressed)
            for row in rows
        ]

    async def get_posting_bot(self, message: Message) -> str | None:
        """Return which of our bots posted the message that this one replies to, or None."""
        query = select(messages.c.bot).filter_by(**chat_values(message.key), reply_id=message.reply_to)
        bot_id: str | None = await self._database.fetch_value(query.limit(1))
        return bot_id

    async def has_answered(self, key: ConversationKey, bot: str) -> bool:
        """Return whether one bot has answered in a conversation before."""
        values = {**chat_values(key), "thread": key.thread, "bot": bot, "state": "answered"}
        query = select(messages.c.number).filter_by(**values).where(messages.c.reply != "").limit(1)
        return await self._database.fetch_first(query) is not None

    async def get_bot_answers(self, message: Message, seconds: float) -> Sequence[BotAnswer]:
        """Return the answers of our bots in the message's thread in the last seconds, newest first.

        The answer below which the thread was opened is one of them.
        """
        columns = messages.c
        thread = message.key.thread
        column_names = ("bot", "author_id", "id", "thread", "reply_to", "addressed", "citations", "is_post")
        query = statements.select_newest(*column_names).where(
            or_(columns.thread == thread, columns.reply_id == thread),
            columns.state == "answered",
            columns.command.in_(ASK_COMMANDS),
            within_last(columns.settled_at, seconds),
            columns.id != message.id,
        )
        rows = await self._database.fetch_all(query, statements.identify(message))
        return [_to_bot_answer(row) for row in rows]

    async def mark_addressed(self, message: Message) -> None:
        """Note that a message was for the bot, though its platform could not tell: it is none that nobody asked."""
        await self._database.write(update(messages).filter_by(**identity_values(message)).values(addressed=True))

    async def was_addressed(self, message: Message) -> bool:
        """Return whether a message is known to be for the bot by now."""
        query = select(messages.c.addressed).filter_by(**identity_values(message))
        return bool(await self._database.fetch_value(query))

    async def was_told(self, message: Message, text: str, seconds: float) -> bool:
        """Return whether the author got just this text in the chat in the last seconds."""
        values = {**chat_values(message.key), "author_id": message.author_id, "reply": text}
        query = select(messages.c.number).filter_by(**values).where(within_last(messages.c.settled_at, seconds))
        return await self._database.fetch_first(query.limit(1)) is not None

    async def get_replied_author(self, message: Message) -> str | None:
        """Return the author of the message that this one replies to, or None if the bot never received it."""
        query = select(messages.c.author_id).filter_by(**bot_values(message), id=message.reply_to)
        author_id: str | None = await self._database.fetch_value(query)
        return author_id


def has_question(connection: Connection, message: Message) -> bool:
    """Return whether a message repeats no question that was forgotten: nor is that until the commit.

    Calls for people and second answers do.
    """
    is_repeating = message.command == HANDOFF_COMMAND or message.origin.purpose == "retry"
    if not (is_repeating and message.author_id):
        return True
    question = _SELECT_WORDS.filter_by(**bot_values(message), id=message.question_id)
    return _has_words_of(connection.execute(question).first(), message)


def are_remembered(connection: Connection, numbers: Collection[int]) -> bool:
    """Return whether nobody in these messages was forgotten: nor is anybody until the commit.

    Call it before the message that is made from them is read or written, as who is forgotten does: whoever forgets now
    waits, and finds what is written then.
    """
    parameters = {"others": list(numbers)}
    rows = connection.execute(statements.SELECT_LOCKED_REMEMBERED, parameters).all() if numbers else ()
    return len(rows) == len(numbers)


async def are_all_remembered(connection: AsyncConnection, words_of: Sequence[Message]) -> bool:
    """Return whether nobody who wrote these messages, or is quoted, was forgotten: nor is anybody until the commit."""
    for message in words_of:
        words = _SELECT_WORDS.filter_by(**identity_values(message))
        if not _has_words_of((await connection.execute(words)).first(), message):
            return False
    return True


def _has_words_of(row: Row[Any] | None, message: Message) -> bool:
    """Return whether the row of a message, if there is one, has all that the message has: what it brings as well."""
    return row is None or all(getattr(row, name) or not getattr(message, name) for name in _WORDS)


def is_user_message() -> ColumnElement[bool]:
    """Return that somebody wrote a message: it is no press of a button, no question asked again by one, no call."""
    columns = messages.c
    is_generated = columns.command.in_((RATING_COMMAND, HANDOFF_COMMAND))
    return and_(~is_generated, columns.purpose == "")


def get_thread(message: Message) -> str:
    """Return the thread of a message, "" for the chat itself."""
    return "" if message.thread_state.in_main_chat else message.key.thread


def is_readable_from(message: Message, table: Table = messages) -> ColumnElement[bool]:
    """Return the condition that rows may be mentioned in the place of a message: none of another, closed thread.

    Nor of a time when the chat was private, unless it is so now and the message is by the same person; nor what the
    asker alone was told, where others read an answer in the same conversation by now.
    """
    columns = table.c
    is_open = ~columns.in_restricted_thread
    # The replies to other commands in a conversation of somebody's own are for them.
    if message.thread_state.is_restricted or message.command not in ASK_COMMANDS:
        is_open = or_(columns.thread == message.key.thread, is_open)
    return and_(is_open, is_told_to(message)) if table is messages else is_open


def is_told_to(message: Message) -> ColumnElement[bool]:
    """Return the condition that rows of the journal are not private, or of the private chat of a message's author.

    A chat that is private may be that of another person by now.
    """
    columns = messages.c
    return or_(~columns.private, columns.author_id == message.author_id) if message.private else ~columns.private


def _to_history_message(row: Row[Any], *, is_later: bool) -> HistoryMessage:
    return HistoryMessage(
        row.id,
        "" if row.in_main_chat else row.thread,
        row.author_id,
        row.author,
        row.text,
        row.reply_to,
        has_unprompted_answer=row.state in statements.ANSWERING_STATES and not row.addressed,
        is_later=is_later,
        age_s=_age_s(row.received_at),
        number=row.number,
    )


def _to_bot_answer(row: Row[Any]) -> BotAnswer:
    return BotAnswer(
        row.bot,
        row.author_id,
        is_unprompted=not row.addressed,
        is_offer=not (row.addressed or row.citations),
        is_for_post=row.is_post is True,
        opens_thread=row.thread == row.id and not row.reply_to,
    )


def _age_s(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()
