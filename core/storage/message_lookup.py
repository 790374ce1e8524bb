"""Finds single messages for commands and people's answers, by their id or the id of their reply."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select

from core.language.languages import detect_language_of_any
from core.storage.chat_history import is_readable_from
from core.storage.engine import Repository
from core.storage.message_rows import to_message
from core.storage.tables import bot_values, chat_values, messages, within_last
from core.types import ASK_COMMANDS, Message

MAX_MATCHES = 20
# How many of our last answers a text is compared with, and how long a part of one is no accident.
MAX_COMPARED_REPLIES = 200
MIN_PART_CHARS = 24
# Marks of citations, and the addresses that a platform writes behind them or behind the text of a link.
_MARKS_AND_ADDRESSES = re.compile(r"\[\d[\d, ]*\]|\(https?://[^\s()]*\)")
# Those that wait for people to answer first are in the state in which they were received.
_UNANSWERED_STATES = ("received", "silent", "failed")
_OUTCOME_COLUMNS = ("state", "reason", "reply", "citations", "trace", "visible_sources")


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as the journal has it; `is_unanswered` says that it has no answer of ours, nor one on its way."""

    message: Message
    is_unanswered: bool


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """The outcome of one message. `visible_sources` are those that its answer could be made from; None: all."""

    state: str
    reason: str
    reply: str
    citations: Sequence[Mapping[str, Any]]
    trace: Mapping[str, Any]
    visible_sources: Sequence[str] | None = None


class MessageLookup(Repository):
    """Finds messages of a command's chat. Every method raises `StoreError` when the database fails."""

    async def get_message(self, message: Message, message_id: str) -> StoredMessage | None:
        """Return the message with an id that the same bot received in the same chat, or None."""
        return next(iter(await self._find(message, messages.c.id == message_id)), None)

    async def get_readable_message(self, message: Message, message_id: str) -> Message | None:
        """Return the message of an id, or None where there is none that may be told of where `message` was written."""
        conditions = (messages.c.id == message_id, is_readable_from(message))
        match = next(iter(await self._find(message, *conditions) if message_id else ()), None)
        return match.message if match else None

    async def find_labels(self, message: Message, ids: Collection[str]) -> frozenset[str]:
        """Return the labels of the sources that could be seen where and when some messages of the chat were written."""
        query = select(messages.c.visible_sources).filter_by(**bot_values(message)).where(messages.c.id.in_(ids))
        rows = await self._database.fetch_all(query)
        return frozenset(label for row in rows for label in row.visible_sources or ())

    async def find_replied_to(self, message: Message) -> Sequence[StoredMessage]:
        """Return what `message` replies to, newest first: a message, or the question whose answer it replies to.

        Only what may be told of where `message` was written.
        """
        return await self._find(message, _has_id(message.reply_to), is_readable_from(message))

    async def find_question(self, message: Message) -> Message | None:
        """Return the question of a command without text: the one it replies to, or its author's last one.

        Only what may be told of where the command was given.
        """
        columns = messages.c
        is_target = _has_id(message.reply_to) if message.reply_to else columns.author_id == message.author_id
        is_question = (columns.command.in_(ASK_COMMANDS), columns.text != "", is_readable_from(message))
        matches = await self._find(message, is_target, *is_question)
        return matches[0].message if matches else None

    async def get_language(self, message: Message) -> str:
        """Return the language of a command's author, as `detect_language` does.

        The language of its text, else of its author's last message in the chat, else of the chat's last message, of
        those that show it.
        """
        language = detect_language_of_any((f"{message.text}\n{message.quoted}",))
        if language is not None:
            return language
        columns = messages.c
        matches = await self._find(message, columns.command.in_(ASK_COMMANDS), columns.text != "")
        own_texts = [match.message.text for match in matches if match.message.author_id == message.author_id]
        return detect_language_of_any(own_texts or [match.message.text for match in matches]) or ""

    async def is_own_answer(self, message: Message) -> bool:
        """Return whether `message` replies to an answer of ours that may be told of where it was written."""
        conditions = (messages.c.reply_id == message.reply_to, is_readable_from(message))
        return bool(message.reply_to and await self._find(message, *conditions))

    async def is_own_text(self, message: Message, text: str) -> bool:
        """Return whether a text is what we have answered lately in the chat of `message`, or a longer part of it."""
        columns = messages.c
        query = select(columns.reply).filter_by(**chat_values(message.key))
        query = query.where(columns.reply != "", is_readable_from(message))
        rows = await self._database.fetch_all(query.order_by(columns.number.desc()).limit(MAX_COMPARED_REPLIES))
        # Long answers take seconds.
        return await asyncio.to_thread(_is_among, text, [row.reply for row in rows])

    async def has_recent_handoff(self, message: Message, seconds: float) -> bool:
        """Return whether people were called in the chat in the last seconds."""
        columns = messages.c
        is_recent = within_last(columns.received_at, seconds)
        return bool(await self._find(message, columns.purpose == "escalation", is_recent))

    async def has_handoff_of(self, message: Message, question_id: str) -> bool:
        """Return whether people were called to a question in the chat of `message`."""
        columns = messages.c
        return bool(await self._find(message, columns.purpose == "escalation", columns.root_id == question_id))

    async def get_outcome(self, message: Message, message_id: str) -> MessageOutcome | None:
        """Return the outcome of the message with an id, or of the question whose answer has the id."""
        columns = messages.c
        conditions = [or_(columns.id == message_id, columns.reply_id == message_id)]
        if message.bot:
            conditions.append(columns.bot == message.bot)
        return await self._find_outcome(message, *conditions)

    async def get_last_outcome(self, message: Message) -> MessageOutcome | None:
        """Return the last answer in the thread, or else in the chat: a command may be outside of any thread."""
        columns = messages.c
        is_answered = and_(columns.state == "answered", columns.reply != "")
        in_thread = await self._find_outcome(message, is_answered, columns.thread == message.key.thread)
        return in_thread or await self._find_outcome(message, is_answered)

    async def _find(self, message: Message, *conditions: ColumnElement[bool]) -> Sequence[StoredMessage]:
        columns = messages.c
        query = select(messages).filter_by(**bot_values(message)).where(columns.id != message.id, *conditions)
        rows = await self._database.fetch_all(query.order_by(columns.number.desc()).limit(MAX_MATCHES))
        return [StoredMessage(to_message(row), row.state in _UNANSWERED_STATES) for row in rows]

    async def _find_outcome(self, message: Message, *conditions: ColumnElement[bool]) -> MessageOutcome | None:
        columns = messages.c
        query = (
            select(*(columns[name] for name in _OUTCOME_COLUMNS))
            .filter_by(**chat_values(message.key))
            .where(is_readable_from(message), columns.command.in_(ASK_COMMANDS), *conditions)
            .order_by(columns.number.desc())
        )
        row = await self._database.fetch_first(query.limit(1))
        if row is None:
            return None
        values = {**row._asdict(), "citations": row.citations or (), "trace": row.trace or {}}
        return MessageOutcome(**values)


def _is_among(text: str, replies: Sequence[str]) -> bool:
    own_words = _to_words(text)
    # The platform's text has the list of citations below the reply; a quotation may be cut short.
    return bool(own_words) and any(_is_same_or_part(own_words, _to_words(reply)) for reply in replies)


def _to_words(text: str) -> str:
    """Return the letters and digits of a text, without marks of citations and addresses: platforms change the rest.

    >>> _to_words("Run `make` [1] (https://a.example/b).")
    'runmake'
    """
    return re.sub(r"[\W_]+", "", _MARKS_AND_ADDRESSES.sub("", text)).casefold()


def _is_same_or_part(own_words: str, other_words: str) -> bool:
    is_part = own_words in other_words or other_words in own_words
    return own_words == other_words or (is_part and min(len(own_words), len(other_words)) >= MIN_PART_CHARS)


def _has_id(message_id: str) -> ColumnElement[bool]:
    columns = messages.c
    return or_(columns.id == message_id, and_(columns.reply_id == message_id, columns.reply_id != ""))
