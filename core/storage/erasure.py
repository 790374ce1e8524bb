"""Erases what one person said, was answered, rated and taught: in one chat, or in all chats of a platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, and_, case, cast, delete, func, null, or_, select, tuple_, update

from core.catalogue import ENGLISH
from core.runtime.tasks import uncancellable
from core.storage.copies import DROPPED_VALUES, ERASED_REASON, NO_QUOTATION, erase_copies
from core.storage.lesson_erasure import erase_lessons
from core.storage.message_rows import UNKNOWN_COMMAND
from core.storage.moved_chats import list_places, list_timelines
from core.storage.tables import (
    DRAFTED,
    FINISHED_STATES,
    answers,
    feedback,
    identity_values,
    is_reply_in,
    messages,
    replies,
)
from core.storage.told_words import COPY_COLUMNS, find_quoted_words, lists
from core.types import ASK_COMMANDS, FORGES, HANDOFF_COMMAND, RATING_COMMAND, ConversationKey, Message
from core.types.messages import MAX_QUESTION_CHARS, PERSONAL_THREAD

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, ScalarSelect
    from sqlalchemy.ext.asyncio import AsyncConnection

    from core.storage.engine import Database

# The personal columns of a message: words, names, numbers, and the answer with its evidence.
PERSONAL_COLUMNS = ("author_id", "author", "text", "quoted", "reply")
HAS_KNOWN_COMMAND = messages.c.command.in_(
    ("", HANDOFF_COMMAND, RATING_COMMAND, UNKNOWN_COMMAND, *ENGLISH.command_summaries)
)
ERASED_VALUES: Mapping[str, Any] = {
    **dict.fromkeys(PERSONAL_COLUMNS, ""),
    **dict.fromkeys(("retry_reason", "language"), ""),
    **dict.fromkeys(("citations", "trace", "attachments", "image_description"), null()),
    **dict.fromkeys(("feed_entry", "mentioned_users", "quoted_authors"), null()),
    # An answer that a crash interrupted is still there.
    "delivery": null(),
    "reference": {},
    "reason": ERASED_REASON,
    "command": case((HAS_KNOWN_COMMAND, messages.c.command), else_=UNKNOWN_COMMAND),
    # What one person gives on Slack is handled in order: such a thread has their name.
    "thread": case((messages.c.thread.startswith(PERSONAL_THREAD), PERSONAL_THREAD), else_=messages.c.thread),
}
# Answers that are posted part by part or wait for their platform, and drafts: what of them is not posted yet never is.
_IS_TO_BE_DROPPED = or_(
    messages.c.state == DRAFTED, and_(messages.c.state.not_in(FINISHED_STATES), messages.c.delivery.is_not(null()))
)
_WITHOUT_PERSON = dict.fromkeys(("chat", "author_id", "question_id"), "")


@dataclass(frozen=True, slots=True)
class PersonalRecords:
    """What the journal has of a person: finished messages, and those that still wait for an answer."""

    finished_count: int
    pending_count: int


async def erase_in_chat(
    connection: AsyncConnection, chat: ConversationKey, author_id: str, command: ScalarSelect[int]
) -> int:
    """Erase, in a transaction, an author's messages in a chat and the answers to them; return how many had any text.

    Also those from before the chat got its present id. What they asked before the `command`, by its number, and was not
    answered yet, is not kept either, nor begun any more. Of an answer that is being posted, the rest is not posted any
    more. Where others read it, also what they posted in timelines: no command reaches it there.
    """
    places = [*await list_places(connection, chat), *await list_timelines(connection, chat, author_id)]
    return sum([await _erase_in_place(connection, place, author_id, command) for place in places])


async def _erase_in_place(
    connection: AsyncConnection, place: Mapping[str, str], author_id: str, command: ScalarSelect[int]
) -> int:
    columns = messages.c
    is_question = and_(columns.command.in_(ASK_COMMANDS), columns.number < command)
    is_unfinished = columns.state.not_in((*FINISHED_STATES, DRAFTED))
    asked = update(messages).filter_by(**place, author_id=author_id).where(is_unfinished)
    await connection.execute(asked.where(is_question).values(DROPPED_VALUES))
    # A command that has begun runs to its end, as nobody's: what else is in its row goes then (`erase_nobodys`).
    is_other = and_(columns.command.not_in((*ASK_COMMANDS, HANDOFF_COMMAND, "forget")), columns.number < command)
    await connection.execute(asked.where(is_other).values(author_id="", author=""))
    question_ids = select(messages.c.id).filter_by(**place).where(columns.number < command).correlate(None)
    erased_count = await _erase_rows(connection, place, author_id)
    # The calls for people that tell of a question, also those that were made after the command. Last: who journals one
    # at this moment has locked its question until here, or finds it erased.
    is_call = and_(columns.command == HANDOFF_COMMAND, columns.root_id.in_(question_ids))
    await connection.execute(asked.where(is_call).values({**ERASED_VALUES, **DROPPED_VALUES}))
    return erased_count


async def erase_nobodys(database: Database, message: Message) -> bool:
    """Erase what is left of a command whose author was forgotten while it ran; return whether they were."""
    columns = messages.c
    own = identity_values(message)
    is_nobodys = and_(columns.author_id == "", columns.command.not_in(ASK_COMMANDS))
    erased_count = await database.write(update(messages).filter_by(**own).where(is_nobodys).values(ERASED_VALUES))
    if erased_count and message.author_id:
        named_presses = (
            delete(messages).filter_by(**own, command=RATING_COMMAND).where(_is_named_after(message.author_id))
        )
        await database.write(named_presses)
    return bool(erased_count)


def _is_named_after(author_id: str) -> ColumnElement[bool]:
    """Return the condition that the id of a press has its author in it, and that it is to go.

    No platform delivers an old one again but forges, where it has not.
    """
    return and_(messages.c.id.contains(author_id, autoescape=True), messages.c.platform.not_in(FORGES))


@uncancellable
async def erase_on_platform(database: Database, platform: str, author_id: str, today: date) -> PersonalRecords:
    """Erase what an author said in all chats of a platform, and what belongs to it; return what was there.

    Messages that still wait for an answer stay. The records of usage lose the person, except those of today, which the
    daily limits count. Raises `StoreError`.
    """
    records = await count_on_platform(database, platform, author_id)
    async with database.transaction() as connection:
        await _erase_rows(connection, {"platform": platform}, author_id)
        past_usage = update(answers).filter_by(platform=platform, author_id=author_id)
        past_usage = past_usage.where(answers.c.day < today.isoformat())
        await connection.execute(past_usage.values(_WITHOUT_PERSON))
    await database.wipe()
    return records


async def count_on_platform(database: Database, platform: str, author_id: str) -> PersonalRecords:
    """Count an author's messages in all chats of a platform. Raises `StoreError`."""
    by_author = select(func.count()).select_from(messages).filter_by(platform=platform, author_id=author_id)
    is_finished = or_(messages.c.state.in_(FINISHED_STATES), _IS_TO_BE_DROPPED)
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

    An approved answer is knowledge and stays, without names. What other people were answered stays, unless it has the
    author's words; so do the traces of it.
    """
    by_person = {**place, "author_id": author_id}
    # As long as it is known whose words others have brought.
    await erase_lessons(connection, place, author_id)
    await _erase_cached(connection, by_person)
    # Before the drafts: what was asked about them is known by their words.
    await erase_copies(connection, place, author_id)
    await _erase_drafts(connection, by_person)
    await _erase_calls(connection, place, author_id)
    is_finished = messages.c.state.in_(FINISHED_STATES)
    presses = delete(messages).filter_by(**by_person, command=RATING_COMMAND)
    await connection.execute(presses.where(is_finished, _is_named_after(author_id)))
    result = await connection.execute(update(messages).filter_by(**by_person).where(is_finished).values(ERASED_VALUES))
    await connection.execute(delete(feedback).filter_by(**place, author_id=author_id))
    return result.rowcount


async def _erase_drafts(connection: AsyncConnection, by_person: Mapping[str, str]) -> None:
    """Close what is being delivered or waits for a team, and erase what the team is still to be told of it."""
    own_numbers = select(cast(messages.c.number, Text)).filter_by(**by_person)
    is_notice = and_(messages.c.purpose == "draft", messages.c.root_id.in_(own_numbers))
    # What the team wrote below a notice quotes it, in another chat than the person's.
    notices = select(messages.c.platform, messages.c.chat, messages.c.reply_id).where(
        is_notice, messages.c.reply_id != ""
    )
    is_below = tuple_(messages.c.platform, messages.c.chat, messages.c.reply_to).in_(notices)
    below = select(*(messages.c[name] for name in COPY_COLUMNS)).where(is_below)
    for row in (await connection.execute(below)).all():
        values = {**NO_QUOTATION, **find_quoted_words(row)}
        await connection.execute(update(messages).filter_by(number=row.number).values(values))
    await connection.execute(update(messages).where(is_notice).values(ERASED_VALUES))
    await connection.execute(update(messages).filter_by(**by_person).where(_IS_TO_BE_DROPPED).values(DROPPED_VALUES))


async def _erase_calls(connection: AsyncConnection, place: Mapping[str, str], author_id: str) -> None:
    """Erase a person's id where they were called to questions of others; a call that is not posted yet stays."""
    columns = messages.c
    calls = select(columns.number, columns.mentioned_users).filter_by(**place)
    calls = calls.where(lists(columns.mentioned_users, author_id), columns.state.in_(FINISHED_STATES))
    for row in (await connection.execute(calls)).all():
        others = [person for person in row.mentioned_users if person != author_id]
        values = {"mentioned_users": others or null()}
        await connection.execute(update(messages).filter_by(number=row.number).values(values))


async def _erase_cached(connection: AsyncConnection, by_person: Mapping[str, str]) -> None:
    """Erase cached answers to a person's questions: they hold the question too. It is also what a reply quoted.

    Or what somebody else forwarded of theirs, or quoted without a word. In a chat that is called as they are, all are
    theirs: what programs and visitors ask is in no journal.
    """
    place = {name: value for name, value in by_person.items() if name != "author_id"}
    # Of a long post, or of what a reply quotes, the beginning is asked.
    asked = [select(func.substr(column, 1, MAX_QUESTION_CHARS)) for column in (messages.c.text, messages.c.quoted)]
    own = [text.filter_by(**by_person) for text in asked]
    brought = [
        text.filter_by(**place).where(lists(messages.c.quoted_authors, by_person["author_id"])) for text in asked
    ]
    is_in_place = is_reply_in(by_person["platform"], by_person.get("chat"))
    is_question = or_(*(replies.c.text.in_(text) for text in (*own, *brought)))
    is_in_own_chat = is_reply_in(by_person["platform"], by_person["author_id"])
    await connection.execute(delete(replies).where(is_in_place, or_(is_question, is_in_own_chat)))
