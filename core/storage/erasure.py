"""Erases what one person said, was answered, rated and taught: in one chat, or in all chats of a platform."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, delete, func, null, or_, select, update

from core.language.tokens import lexical_tokens
from core.runtime.tasks import uncancellable
from core.storage.tables import answers, feedback, is_reply_in, messages, replies, taught_answers
from core.types import ConversationKey, SkipReason

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from core.storage.engine import Database

FINISHED_STATES = ("answered", "failed", "silent")
# The personal columns of a message: words, names, numbers, and the answer with its evidence.
PERSONAL_COLUMNS = ("author_id", "author", "text", "quoted", "reply")
_OPINION = SkipReason.MODEL_DECLINED.text.partition("{")[0]
ERASED_VALUES: Mapping[str, Any] = {
    **dict.fromkeys(PERSONAL_COLUMNS, ""),
    **dict.fromkeys(("retry_reason", "language"), ""),
    **dict.fromkeys(("citations", "trace", "attachments", "image_description"), null()),
    **dict.fromkeys(("feed_entry", "mentioned_users"), null()),
    "reference": {},
    # Why there was no answer stays, but not what a model said of the message.
    "reason": case((messages.c.reason.startswith(_OPINION), _OPINION.rstrip(": ")), else_=messages.c.reason),
}
# For how long what somebody said may be part of the conversation of others; `answer.history_hours` is 6 by default.
CONVERSATION_TIME = timedelta(hours=24)
_WITHOUT_TEACHER = {"taught_by": "", "teacher": ""}
_WITHOUT_PERSON = dict.fromkeys(("chat", "author_id", "question_id"), "")


@dataclass(frozen=True, slots=True)
class PersonalRecords:
    """What the journal has of a person: finished messages, and those that still wait for an answer."""

    finished_count: int
    pending_count: int


async def erase_in_chat(connection: AsyncConnection, chat: ConversationKey, author_id: str) -> int:
    """Erase, in a transaction, an author's messages in a chat and the answers to them; return how many had any text.

    What still waits for an answer stays.
    """
    chat_values = {"platform": chat.platform, "chat": chat.chat}
    questions = select(messages.c.text).filter_by(**chat_values, author_id=author_id)
    # Cached answers contain the question too; they go first, while its text is there to compare.
    await connection.execute(
        delete(replies).where(is_reply_in(chat.platform, chat.chat), replies.c.text.in_(questions))
    )
    return await _erase_rows(connection, chat_values, author_id)


@uncancellable
async def erase_on_platform(database: Database, platform: str, author_id: str, today: date) -> PersonalRecords:
    """Erase what an author said in all chats of a platform, and what belongs to it; return what was there.

    Messages that still wait for an answer stay. The records of usage lose the person, except those of today, which the
    daily limits count. Raises `StoreError`.
    """
    records = await count_on_platform(database, platform, author_id)
    async with database.transaction() as connection:
        questions = select(messages.c.text).filter_by(platform=platform, author_id=author_id)
        await connection.execute(delete(replies).where(is_reply_in(platform), replies.c.text.in_(questions)))
        await _erase_rows(connection, {"platform": platform}, author_id)
        past_usage = update(answers).filter_by(platform=platform, author_id=author_id)
        past_usage = past_usage.where(answers.c.day < today.isoformat())
        await connection.execute(past_usage.values(_WITHOUT_PERSON))
    return records


async def count_on_platform(database: Database, platform: str, author_id: str) -> PersonalRecords:
    """Count an author's messages in all chats of a platform. Raises `StoreError`."""
    by_author = select(func.count()).select_from(messages).filter_by(platform=platform, author_id=author_id)
    is_finished = messages.c.state.in_(FINISHED_STATES)
    async with database.connect() as connection:
        finished_count = await connection.scalar(by_author.where(is_finished))
        pending_count = await connection.scalar(by_author.where(~is_finished))
    return PersonalRecords(finished_count or 0, pending_count or 0)


async def list_platforms(database: Database) -> list[str]:
    """Return the platforms of which the journal has messages. Raises `StoreError`."""
    async with database.connect() as connection:
        return sorted(await connection.scalars(select(messages.c.platform).distinct()))


async def _erase_rows(connection: AsyncConnection, place: Mapping[str, str], author_id: str) -> int:
    """Erase an author's messages, ratings and taught answers where the columns of `place` have its values.

    An approved answer is knowledge and stays, without names. What other people were answered stays, but not how: their
    completed questions may hold the author's words.
    """
    await _erase_shared_traces(connection, place, author_id)
    # Earlier versions kept the reviewer's name: it is that of the messages, as long as these are there.
    names = select(messages.c.author).filter_by(platform=place["platform"], author_id=author_id)
    is_reviewer = or_(
        taught_answers.c.reviewer == f"{place['platform']}:{author_id}",
        # A name is no id: only where the person is.
        and_(*(taught_answers.c[name] == value for name, value in place.items()), taught_answers.c.reviewer.in_(names)),
    )
    await connection.execute(
        update(taught_answers).where(taught_answers.c.reviewer != "", is_reviewer).values(reviewer="")
    )
    by_author = update(messages).filter_by(**place, author_id=author_id).where(messages.c.state.in_(FINISHED_STATES))
    result = await connection.execute(by_author.values(ERASED_VALUES))
    columns = taught_answers.c
    await connection.execute(delete(feedback).filter_by(**place, author_id=author_id))
    is_involved = or_(columns.asked_by == author_id, columns.taught_by == author_id)
    await connection.execute(delete(taught_answers).filter_by(**place).where(is_involved, columns.state != "approved"))
    await connection.execute(update(taught_answers).filter_by(**place, asked_by=author_id).values(asked_by=""))
    await connection.execute(update(taught_answers).filter_by(**place, taught_by=author_id).values(_WITHOUT_TEACHER))
    return result.rowcount


async def _erase_shared_traces(connection: AsyncConnection, place: Mapping[str, str], author_id: str) -> None:
    """Erase the traces of what others were answered soon after this author wrote in the same chat, with their words.

    Other traces stay: otherwise whoever forgets would take from a chat how all of its questions were answered.
    """
    columns = messages.c
    rows = await connection.execute(
        select(columns.chat, columns.received_at, columns.text)
        .filter_by(**place, author_id=author_id)
        .order_by(columns.chat, columns.received_at)
    )
    words_by_chat: defaultdict[str, list[tuple[datetime, Set[str]]]] = defaultdict(list)
    for chat, received_at, text in rows:
        words_by_chat[chat].append((received_at, _to_words(text)))
    for chat, said in words_by_chat.items():
        answers_to_others = await connection.execute(
            select(columns.number, columns.received_at, columns.text, columns.trace)
            .filter_by(platform=place["platform"], chat=chat)
            .where(columns.author_id != author_id, columns.state.in_(FINISHED_STATES), columns.trace.is_not(None))
            .where(columns.received_at.between(said[0][0], said[-1][0] + CONVERSATION_TIME))
        )
        numbers = []
        for number, received_at, text, trace in answers_to_others:
            added_words = _to_words(_get_written_text(trace)) - _to_words(text)
            if added_words and any(
                said_at <= received_at <= said_at + CONVERSATION_TIME and not added_words.isdisjoint(words)
                for said_at, words in said
            ):
                numbers.append(number)
        await connection.execute(update(messages).where(columns.number.in_(numbers)).values(trace=null()))


def _get_written_text(trace: Mapping[str, Any]) -> str:
    """Return what models wrote of a conversation in a trace: completed questions, queries, and reasons."""
    rounds = trace.get("rounds") or ()
    queries = (query for search_round in rounds for query in (*search_round["queries"], search_round["reason"]))
    return "\n".join((str(trace.get("query") or ""), *queries))


def _to_words(text: str) -> Set[str]:
    return frozenset(lexical_tokens(text).split())
