"""Erases what one person said, was answered, rated and taught: in one chat, or in all chats of a platform."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, Text, and_, case, cast, delete, func, null, or_, select, tuple_, update

from core.catalogue import ENGLISH
from core.runtime.tasks import uncancellable
from core.storage.lesson_erasure import erase_lessons
from core.storage.message_rows import UNKNOWN_COMMAND
from core.storage.moved_chats import list_places, list_timelines
from core.storage.tables import (
    DRAFTED,
    DROPPED_STATE,
    answers,
    feedback,
    identity_values,
    is_reply_in,
    messages,
    replies,
)
from core.storage.told_words import (
    COPY_COLUMNS,
    FORMER_TEXTS,
    MADE_FROM,
    find_quoted_words,
    get_brought_text,
    get_brought_texts,
    get_description,
    get_transcripts,
    get_written_text,
    is_forward,
    is_made_without,
    lists,
    may_bring_answer,
    to_phrases,
    to_words,
)
from core.types import (
    ASK_COMMANDS,
    FORGES,
    HANDOFF_COMMAND,
    RATING_COMMAND,
    RETELLING_COMMANDS,
    ConversationKey,
    Message,
    Reply,
    SkipReason,
)
from core.types.messages import MAX_QUESTION_CHARS, PERSONAL_THREAD

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, ScalarSelect, Select
    from sqlalchemy.ext.asyncio import AsyncConnection

    from core.storage.engine import Database

FINISHED_STATES = ("answered", "failed", "silent")
# The personal columns of a message: words, names, numbers, and the answer with its evidence.
PERSONAL_COLUMNS = ("author_id", "author", "text", "quoted", "reply")
# Why there was no answer stays, but not the values of a reason: a model's opinion of the message, or words of it. Why
# something failed may repeat anything that was typed, or that a service was told.
_CONSTANT_PARTS = sorted({reason.text.partition("{")[0] for reason in SkipReason} - {""}, key=len, reverse=True)
_ERASED_REASON = case(
    (messages.c.state == "failed", ""),
    *((messages.c.reason.startswith(part, autoescape=True), part.rstrip(" :(")) for part in _CONSTANT_PARTS),
    else_=messages.c.reason,
)
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
    "reason": _ERASED_REASON,
    "command": case((HAS_KNOWN_COMMAND, messages.c.command), else_=UNKNOWN_COMMAND),
    # What one person gives on Slack is handled in order: such a thread has their name.
    "thread": case((messages.c.thread.startswith(PERSONAL_THREAD), PERSONAL_THREAD), else_=messages.c.thread),
}
# For how long what somebody said may be part of the conversation of others; `answer.history_hours` is 6 by default.
CONVERSATION_TIME = timedelta(hours=24)
# Answers that are posted part by part or wait for their platform, and drafts: what of them is not posted yet never is.
_IS_TO_BE_DROPPED = or_(
    messages.c.state == DRAFTED, and_(messages.c.state.not_in(FINISHED_STATES), messages.c.delivery.is_not(null()))
)
_DROPPED_VALUES = {**DROPPED_STATE, "delivery": null()}
_NO_QUOTATION = {"quoted": "", **dict.fromkeys(("attachments", "image_description", "quoted_authors"), null())}
# A report or a list of questions that somebody carries on has one of hers where it has so many of her phrases.
TOLD_PHRASES = 2
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
    await connection.execute(asked.where(is_question).values(_DROPPED_VALUES))
    # A command that has begun runs to its end, as nobody's: what else is in its row goes then (`erase_nobodys`).
    is_other = and_(columns.command.not_in((*ASK_COMMANDS, HANDOFF_COMMAND, "forget")), columns.number < command)
    await connection.execute(asked.where(is_other).values(author_id="", author=""))
    question_ids = select(messages.c.id).filter_by(**place).where(columns.number < command).correlate(None)
    erased_count = await _erase_rows(connection, place, author_id)
    # The calls for people that tell of a question, also those that were made after the command. Last: who journals one
    # at this moment has locked its question until here, or finds it erased.
    is_call = and_(columns.command == HANDOFF_COMMAND, columns.root_id.in_(question_ids))
    await connection.execute(asked.where(is_call).values({**ERASED_VALUES, **_DROPPED_VALUES}))
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
    await _erase_copies(connection, place, author_id)
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
        values = {**_NO_QUOTATION, **find_quoted_words(row)}
        await connection.execute(update(messages).filter_by(number=row.number).values(values))
    await connection.execute(update(messages).where(is_notice).values(ERASED_VALUES))
    await connection.execute(update(messages).filter_by(**by_person).where(_IS_TO_BE_DROPPED).values(_DROPPED_VALUES))


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
    brought = [text.filter_by(**place).where(_brings(by_person["author_id"])) for text in asked]
    is_in_place = is_reply_in(by_person["platform"], by_person.get("chat"))
    is_question = or_(*(replies.c.text.in_(text) for text in (*own, *brought)))
    is_in_own_chat = is_reply_in(by_person["platform"], by_person["author_id"])
    await connection.execute(delete(replies).where(is_in_place, or_(is_question, is_in_own_chat)))


def _brings(author_id: str) -> ColumnElement[bool]:
    """Return the condition that a message of somebody else brings words or files of a person."""
    return lists(messages.c.quoted_authors, author_id)


@dataclass(slots=True)
class _Said:
    """What a person said in one chat: the times with the words, the texts, and the ids of messages and answers.

    `numbers` are those of messages that have it: theirs, and others that bring it or were answered with it.
    Of an answer in several parts only the first one's id is known: its words tell who quotes a later one. The
    `shared_phrases` are of the person or of others, with whose words they were brought. The `quoted_phrases` are of the
    `quoted_authors`, whom the person has quoted.
    """

    author_id: str
    times: list[tuple[datetime, Set[str]]] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    phrases: set[tuple[str, ...]] = field(default_factory=set)
    answer_phrases: set[tuple[str, ...]] = field(default_factory=set)
    shared_phrases: set[tuple[str, ...]] = field(default_factory=set)
    quoted_phrases: set[tuple[str, ...]] = field(default_factory=set)
    quoted_authors: set[str] = field(default_factory=set)

    @property
    def since(self) -> datetime:
        """When the first of it came."""
        return min(said_at for said_at, _ in self.times)

    def add(self, row: Row[*tuple[Any, ...]]) -> None:
        """Add a message of the person, not what they pressed: what they wrote, said and attached, under which name.

        And what they quoted: of others, as nothing else may say whose it is, or unnamed, which are their own words.
        """
        own_texts = {row.text, *row.reference.get(FORMER_TEXTS, ())}
        texts = {*own_texts, row.image_description or "", *get_transcripts(row)}
        self.times.append((row.received_at, frozenset().union(*map(to_words, (*texts, row.author, row.quoted)))))
        self.quoted_authors |= set(row.quoted_authors or ()) - {self.author_id}
        if row.quoted_authors:
            self.quoted_phrases |= to_phrases(row.quoted)
        elif not row.quotes_bot:
            self.shared_phrases |= to_phrases(row.quoted)
        self.texts |= {text.strip() for text in own_texts} - {""}
        self.ids |= {row.id, row.reply_id} - {""}
        self.numbers.add(row.number)
        self.phrases |= set().union(*map(to_phrases, texts))
        self.answer_phrases |= to_phrases(row.reply)

    def add_brought(self, row: Row[*tuple[Any, ...]]) -> None:
        """Add what somebody else's message brings of the person, which the bot may have seen nowhere else.

        Where it brings words of several people, those are theirs that nobody else is known to have said.
        """
        texts = get_brought_texts(row)
        self.times.append((row.received_at, frozenset().union(*map(to_words, texts))))
        phrases = self.phrases if len(row.quoted_authors) == 1 else self.shared_phrases
        phrases |= set().union(*map(to_phrases, texts))

    def take_shared(self, others_texts: Sequence[str]) -> None:
        """Take what was brought with the words of others for the person's where nobody else has said it."""
        self.phrases |= self.shared_phrases.difference(*map(to_phrases, others_texts))

    def take_quoted(self, rows: Sequence[Row[*tuple[Any, ...]]]) -> None:
        """Take what the person quoted of others for theirs where no row of those, nor one that names them, has it."""
        known = set[tuple[str, ...]]()
        for row in rows:
            if row.author_id in self.quoted_authors:
                known |= to_phrases(row.text)
            elif not self.quoted_authors.isdisjoint(row.quoted_authors or ()):
                known.update(*map(to_phrases, get_brought_texts(row)))
        self.phrases |= self.quoted_phrases - known

    def brings_answer(self, row: Row[*tuple[Any, ...]]) -> bool:
        """Return whether somebody else's message quotes or forwards what the bot has answered the person, or told of.

        Answers to others may have some of the same words.
        """
        phrases = to_phrases(get_brought_text(row))
        is_told = row.quotes_bot and len(phrases & self.phrases) >= TOLD_PHRASES
        return is_told or 2 * len(phrases & self.answer_phrases) > len(phrases)

    def add_brought_answer(self, row: Row[*tuple[Any, ...]], said: _Said) -> None:
        """Add an answer to what the person `said` elsewhere, which somebody else's message brings here."""
        phrases = to_phrases(get_brought_text(row))
        self.times.append((row.received_at, to_words(get_brought_text(row))))
        self.answer_phrases |= phrases
        self.phrases |= phrases & said.phrases

    def add_attached(self, row: Row[*tuple[Any, ...]]) -> None:
        """Add what the person attached to a message that somebody else has asked about."""
        if row.reply_to in self.ids:
            self.phrases |= to_phrases(get_description(row))

    def quotes(self, row: Row[*tuple[Any, ...]]) -> bool:
        """Return whether a message quotes what the person said, or was answered."""
        return not to_phrases(row.quoted).isdisjoint(self.phrases | self.answer_phrases)

    def find_retold(self, row: Row[*tuple[Any, ...]]) -> dict[str, Any]:
        """Return the new values of the columns of a message in another chat that hold what the person said."""
        values = dict(_NO_QUOTATION) if self.quotes(row) else {}
        answers = (row.delivery or {}).get("text") or row.reply
        if answers and (to_phrases(answers) - to_phrases(row.text)) & self.phrases:
            values |= {"reply": "", "citations": null(), "delivery": null()}
            values |= _DROPPED_VALUES if row.state == DRAFTED else {}
        # What a model made of it is known by its place.
        if values or to_phrases(get_written_text(row.trace or {})) & self.phrases:
            values |= {"trace": null()}
        return values

    def find_copies(self, row: Row[*tuple[Any, ...]]) -> dict[str, Any]:
        """Return the new values of the columns of somebody else's message that hold what the person said."""
        is_brought = self._is_brought_by(row)
        values: dict[str, Any] = dict(_NO_QUOTATION) if is_brought else {}
        # What was forwarded is nothing that its sender typed.
        is_hers = self._is_named_by(row) or row.text.strip() in self.texts or self.brings_answer(row)
        is_foreign = is_forward(row) and is_hers
        asked = "" if is_foreign else row.text
        if is_foreign:
            reference = {name: value for name, value in row.reference.items() if name != FORMER_TEXTS}
            values |= {"text": "", "reference": reference}
        if self._has_added_words(row, asked, row.trace) or to_phrases(row.reason) & self.phrases:
            values |= {"trace": null(), "reason": _ERASED_REASON}
        # A draft, or an answer that its platform has not taken yet: the next try answers anew.
        waiting = row.delivery or {}
        reply = waiting.get("text") or row.reply
        may_have = not (row.state == DRAFTED and is_made_without(row, self.numbers))
        if reply and may_have and (to_phrases(reply) - to_phrases(asked)) & self.phrases:
            values |= {"reply": "", "citations": null(), "trace": null(), "delivery": null()}
        elif changes := self._find_copies_in_waiting(row, asked, is_brought=is_brought):
            values |= {"delivery": {**waiting, **changes}}
        # A team decides about nothing whose question or answer is gone.
        return values | _DROPPED_VALUES if row.state == DRAFTED and _is_told_without(values) else values

    def _find_copies_in_waiting(self, row: Row[*tuple[Any, ...]], asked: str, *, is_brought: bool) -> dict[str, Any]:
        """Return what is to be changed beside an answer that waits, and that has no words of the person itself."""
        waiting = row.delivery or {}
        changes: dict[str, Any] = {"image_description": ""} if is_brought and waiting.get("image_description") else {}
        if waiting and self._has_added_words(row, asked, waiting["trace"]):
            changes |= {"trace": Reply("").trace.to_json()}
        return changes

    def _is_named_by(self, row: Row[*tuple[Any, ...]]) -> bool:
        return self.author_id in (row.quoted_authors or ())

    def _is_brought_by(self, row: Row[*tuple[Any, ...]]) -> bool:
        """Return whether a message quotes the person, or what they were answered, or brings their files."""
        is_of_answer = bool(row.quoted) and may_bring_answer(row) and self.brings_answer(row)
        is_known = row.reply_to in self.ids or self._is_named_by(row)
        return is_known or self._has_said_part_of(row.quoted) or is_of_answer

    def _has_said_part_of(self, text: str) -> bool:
        """Return whether a text has a line of the person's, or several words of theirs: a thread is quoted as one."""
        lines = {part.strip() for part in (text, *text.split("\n\n"), *text.splitlines())}
        return not self.texts.isdisjoint(lines) or not to_phrases(text).isdisjoint(self.phrases)

    def _has_added_words(self, row: Row[*tuple[Any, ...]], asked: str, trace: Mapping[str, Any] | None) -> bool:
        """Return whether models wrote words of the person into the trace of an answer: single ones, soon after them."""
        written_text = get_written_text(trace or {})
        added_words = to_words(written_text) - to_words(asked)
        return bool((to_phrases(written_text) - to_phrases(asked)) & self.phrases) or any(
            _is_told_in(row, said_at) and not added_words.isdisjoint(words) for said_at, words in self.times
        )


async def _erase_copies(connection: AsyncConnection, place: Mapping[str, str], author_id: str) -> None:
    """Erase what the rows of others have of this author: quotations, pictures, and words that models took over.

    The rest of those rows stays: otherwise whoever forgets would take from a chat how its questions were answered.
    """
    columns = messages.c
    own_names = ("number", "author", "text", "reference", "attachments", "image_description", "id", "reply", "reply_id")
    names = ("chat", "received_at", "quoted", "quoted_authors", "quotes_bot", *own_names)
    query = select(*(columns[name] for name in names)).where(columns.command != RATING_COMMAND)
    said_in = defaultdict[str, _Said](partial(_Said, author_id))
    for row in await connection.execute(query.filter_by(**place, author_id=author_id).order_by(columns.received_at)):
        said_in[row.chat].add(row)
    brought = select(columns.chat, *(columns[name] for name in COPY_COLUMNS)).filter_by(**place)
    for row in await connection.execute(brought.where(columns.author_id != author_id, _brings(author_id))):
        said_in[row.chat].add_brought(row)
    await _find_brought_answers(connection, place["platform"], author_id, said_in)
    for chat, said in said_in.items():
        await _take_brought(connection, _select_others(place["platform"], chat, author_id), said)
    await _drop_retelling(connection, said_in.values())
    for chat, said in said_in.items():
        others = _select_others(place["platform"], chat, author_id)
        rows = (await connection.execute(others.where(_is_made_since(said.since)))).all()
        said.numbers |= await _find_forgotten(connection, rows)
        copies = await asyncio.to_thread(_find_all_copies, said, rows)
        for number, values in copies.items():
            await connection.execute(update(messages).filter_by(number=number).values(values))
        await _drop_notices(connection, {number for number, values in copies.items() if _is_told_without(values)})
    await _erase_retold(connection, place["platform"], said_in)


def _select_others(platform: str, chat: str, author_id: str) -> Select[*tuple[Any, ...]]:
    others = select(*(messages.c[name] for name in COPY_COLUMNS)).filter_by(platform=platform, chat=chat)
    return others.where(messages.c.author_id != author_id)


async def _take_brought(connection: AsyncConnection, others: Select[*tuple[Any, ...]], said: _Said) -> None:
    """Take what was brought of several people, or the person quoted of others, for theirs where it is nobody else's."""
    columns = messages.c
    if said.shared_phrases:
        texts = others.with_only_columns(columns.text).where(~columns.is_forwarded)
        await asyncio.to_thread(said.take_shared, (await connection.scalars(texts)).all())
    if said.quoted_phrases:
        is_known = or_(columns.author_id.in_(said.quoted_authors), columns.quoted_authors.is_not(null()))
        known = others.add_columns(columns.author_id).where(is_known)
        await asyncio.to_thread(said.take_quoted, (await connection.execute(known)).all())


async def _find_forgotten(connection: AsyncConnection, rows: Sequence[Row[*tuple[Any, ...]]]) -> set[int]:
    """Return the numbers of erased messages since the first one that one of the drafts in these rows was made from.

    Nobody knows any more whose words those had.
    """
    made_from = [number for row in rows if row.state == DRAFTED for number in (row.delivery or {}).get(MADE_FROM, ())]
    if not made_from:
        return set()
    forgotten = select(messages.c.number).where(messages.c.author_id == "", messages.c.number >= min(made_from))
    return set((await connection.scalars(forgotten)).all())


async def _find_brought_answers(
    connection: AsyncConnection, platform: str, author_id: str, said_in: defaultdict[str, _Said]
) -> None:
    """Find the other chats where somebody has forwarded or quoted what the bot answered the author."""
    columns = messages.c
    brought = select(columns.chat, *(columns[name] for name in COPY_COLUMNS)).filter_by(platform=platform)
    brought = brought.where(columns.author_id != author_id, or_(columns.quotes_bot, columns.is_forwarded))
    rows = (await connection.execute(brought)).all()
    for row, said in await asyncio.to_thread(_find_all_brought, dict(said_in), rows):
        said_in[row.chat].add_brought_answer(row, said)


async def _erase_retold(connection: AsyncConnection, platform: str, said_in: Mapping[str, _Said]) -> None:
    """Erase what was said about drafts, reports and replies to commands that told of this author in other chats."""
    columns = messages.c
    # In a group such a command tells of that group alone.
    is_private_command = and_(columns.command.in_(RETELLING_COMMANDS), columns.private)
    is_retelling = or_(columns.purpose.in_(("draft", "report")), is_private_command)
    query = select(columns.platform, columns.chat).where(is_retelling).distinct()
    for place in (await connection.execute(query)).all():
        for said in (said for chat, said in said_in.items() if (platform, chat) != (place.platform, place.chat)):
            told = select(*(columns[name] for name in COPY_COLUMNS)).filter_by(**place._asdict())
            told = told.where(_is_made_since(said.since)).order_by(columns.received_at)
            rows = (await connection.execute(told)).all()
            for number, values in (await asyncio.to_thread(_find_all_retold, said, rows)).items():
                await connection.execute(update(messages).filter_by(number=number).values(values))


async def _drop_notices(connection: AsyncConnection, numbers: Container[int]) -> None:
    """Drop the notices to teams that wait for their platform and tell of some questions and drafts."""
    columns = messages.c
    notices = select(columns.number, columns.root_id).where(columns.purpose == "draft", columns.delivery.is_not(null()))
    for row in (await connection.execute(notices)).all():
        if int(row.root_id) in numbers:
            dropped = update(messages).filter_by(number=row.number).values(text="", **_DROPPED_VALUES)
            await connection.execute(dropped)


def _is_told_without(values: Mapping[str, Any]) -> bool:
    """Return whether the new values of a row take its words, or those of its answer: a notice has them, too."""
    return not values.keys().isdisjoint(("text", "reply"))


async def _drop_retelling(connection: AsyncConnection, said: Collection[_Said]) -> None:
    """Drop reports of open questions and replies to commands that wait for their platform with words of the person."""
    columns = messages.c
    is_reply = and_(columns.delivery.is_not(null()), columns.command.not_in(ASK_COMMANDS))
    is_waiting = columns.state.not_in(FINISHED_STATES)
    query = select(columns.number, columns.text, columns.delivery)
    query = query.where(or_(and_(columns.purpose == "report", columns.text != ""), and_(is_reply, is_waiting)))
    for row in (await connection.execute(query)).all():
        told = (row.delivery or {}).get("text") or row.text
        phrases = to_phrases(told)
        # A short question is in it as a whole; a single word of somebody's is anybody's.
        texts = {text for one in said for text in one.texts if len(to_words(text)) > 1}
        if any(phrases & one.phrases for one in said) or any(text in told for text in texts):
            dropped = update(messages).filter_by(number=row.number).values(text="", **_DROPPED_VALUES)
            await connection.execute(dropped)


def _find_all_brought(
    said_in: Mapping[str, _Said], rows: Sequence[Row[*tuple[Any, ...]]]
) -> Sequence[tuple[Row[*tuple[Any, ...]], _Said]]:
    return [
        (row, said) for row in rows for chat, said in said_in.items() if chat != row.chat and said.brings_answer(row)
    ]


def _find_all_copies(said: _Said, rows: Sequence[Row[*tuple[Any, ...]]]) -> Mapping[int, dict[str, Any]]:
    for row in rows:
        said.add_attached(row)
    found = dict[int, dict[str, Any]]()
    # A draft may have waited for messages that came after its question: once more, when all of those are known.
    for row in (*rows, *(row for row in rows if row.state == DRAFTED)):
        if values := said.find_copies(row):
            found[row.number] = values
            said.numbers.add(row.number)
    return found


def _find_all_retold(said: _Said, rows: Sequence[Row[*tuple[Any, ...]]]) -> Mapping[int, dict[str, Any]]:
    """Return the new values by number, of messages from oldest to newest.

    What nobody asked about there has the same words by chance: so has what came long after.
    """
    quoted_at = [row.received_at for row in rows if said.quotes(row)]
    found = dict[int, dict[str, Any]]()
    for row in rows:
        # The first quotation that is not too old for it.
        index = bisect_left(quoted_at, row.received_at - CONVERSATION_TIME)
        is_told = index < len(quoted_at) and _is_told_in(row, quoted_at[index])
        if is_told and (values := said.find_retold(row)):
            found[row.number] = values
    return found


def _is_made_since(since: datetime) -> ColumnElement[bool]:
    """Return the condition that a message was answered after a time, or is not yet: it may have come long before."""
    return or_(messages.c.settled_at >= since, messages.c.settled_at.is_(None))


def _is_told_in(row: Row[*tuple[Any, ...]], said_at: datetime) -> bool:
    """Return whether a message's answer may have what was said at a time: one that waits may know what came later."""
    received_at: datetime = row.received_at
    settled_at: datetime | None = row.settled_at
    return received_at <= said_at + CONVERSATION_TIME and (settled_at is None or said_at <= settled_at)
