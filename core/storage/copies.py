"""Erases what the messages of others have of one person's words: where they were said, and where they were carried."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Collection, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, and_, case, null, or_, select, update

from core.storage.tables import DRAFTED, DROPPED_STATE, FINISHED_STATES, messages
from core.storage.told_words import (
    COPY_COLUMNS,
    FORMER_TEXTS,
    MADE_FROM,
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
from core.types import ASK_COMMANDS, RATING_COMMAND, RETELLING_COMMANDS, Reply, SkipReason

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.ext.asyncio import AsyncConnection

# A chat: its platform, and its id there.
Place = tuple[str, str]
# Why there was no answer stays, but not the values of a reason: a model's opinion of the message, or words of it. Why
# something failed may repeat anything that was typed, or that a service was told.
_CONSTANT_PARTS = sorted({reason.text.partition("{")[0] for reason in SkipReason} - {""}, key=len, reverse=True)
ERASED_REASON = case(
    (messages.c.state == "failed", ""),
    *((messages.c.reason.startswith(part, autoescape=True), part.rstrip(" :(")) for part in _CONSTANT_PARTS),
    else_=messages.c.reason,
)
# For how long what somebody said may be part of the conversation of others; `answer.history_hours` is 6 by default.
CONVERSATION_TIME = timedelta(hours=24)
DROPPED_VALUES = {**DROPPED_STATE, "delivery": null()}
NO_QUOTATION = {"quoted": "", **dict.fromkeys(("attachments", "image_description", "quoted_authors"), null())}
# A report or a list of questions that somebody carries on has one of hers where it has so many of her phrases.
TOLD_PHRASES = 2
_SELECT_BRINGING = select(messages.c.platform, messages.c.chat, *(messages.c[name] for name in COPY_COLUMNS))


@dataclass(slots=True)
class Said:
    """What a person said in one chat: the times with the words, the texts, and the ids of messages and answers.

    `numbers` are those of messages that have it: theirs, and others that bring it or were answered with it.
    Of an answer in several parts only the first one's id is known: its words tell who quotes a later one. The
    `shared_phrases` are of the person or of others, with whose words they were brought. The `quoted_phrases` are of the
    `quoted_authors`, whom the person has quoted. The `answered_ids` are those of what stands beside words of theirs in
    their quotations: it may be an answer.
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
    answered_ids: set[str] = field(default_factory=set)

    @property
    def since(self) -> datetime:
        """When the first of it came."""
        return min(said_at for said_at, _ in self.times)

    def add(self, row: Row[*tuple[Any, ...]]) -> None:
        """Add a message of the person, not what they pressed: what they wrote, said and attached, under which name.

        And what they quoted: of others, as nothing else may say whose it is, or unnamed or of themselves, which are
        their own words.
        """
        own_texts = {row.text, *row.reference.get(FORMER_TEXTS, ())}
        texts = {*own_texts, row.image_description or "", *get_transcripts(row)}
        self.times.append((row.received_at, frozenset().union(*map(to_words, (*texts, row.author, row.quoted)))))
        others = set(row.quoted_authors or ()) - {self.author_id}
        self.quoted_authors |= others
        if self.author_id in (row.quoted_authors or ()) or not (others or row.quotes_bot):
            self.shared_phrases |= to_phrases(row.quoted)
            self.answered_ids |= {row.reply_to} - {""}
        elif others:
            self.quoted_phrases |= to_phrases(row.quoted)
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

        Answers to others may have some of the same words. A thread, or a list of sources, may be quoted with it.
        """
        return self.has_answer(_get_brought_phrases(row), quotes_bot=row.quotes_bot)

    def has_answer(self, brought: Sequence[Set[tuple[str, ...]]], *, quotes_bot: bool) -> bool:
        """Return the same of the phrases of all that a message brings, and of each paragraph of it."""
        phrases, *paragraphs = brought
        if quotes_bot and len(phrases & self.phrases) >= TOLD_PHRASES:
            return True
        return self._is_answer(phrases) or (
            quotes_bot and any(len(each) >= TOLD_PHRASES and self._is_answer(each) for each in paragraphs)
        )

    def _is_answer(self, phrases: Set[tuple[str, ...]]) -> bool:
        return 2 * len(phrases & self.answer_phrases) > len(phrases)

    def add_brought_answer(self, row: Row[*tuple[Any, ...]], said: Said) -> None:
        """Add an answer to what the person `said` elsewhere, which somebody else's message brings here."""
        phrases = to_phrases(get_brought_text(row))
        self.times.append((row.received_at, to_words(get_brought_text(row))))
        self.answer_phrases |= phrases & said.answer_phrases
        self.phrases |= phrases & said.phrases

    def add_told(self, row: Row[*tuple[Any, ...]], text: str) -> None:
        """Add an answer that told others a text: nobody knows any more who said it, and when."""
        self.times.append((row.received_at, frozenset()))
        self.ids |= {row.reply_id} - {""}
        self.numbers.add(row.number)
        self.phrases |= to_phrases(text)
        self.answer_phrases |= to_phrases(row.reply)

    def add_attached(self, row: Row[*tuple[Any, ...]]) -> None:
        """Add what the person attached to a message that somebody else has asked about."""
        if row.reply_to in self.ids:
            self.phrases |= to_phrases(get_description(row))

    def quotes(self, row: Row[*tuple[Any, ...]]) -> bool:
        """Return whether a message quotes what the person said, or was answered."""
        return not to_phrases(row.quoted).isdisjoint(self.phrases | self.answer_phrases)

    def find_retold(self, row: Row[*tuple[Any, ...]]) -> dict[str, Any]:
        """Return the new values of the columns of a message in another chat that hold what the person said."""
        values = dict(NO_QUOTATION) if self.quotes(row) else {}
        answers = (row.delivery or {}).get("text") or row.reply
        if answers and (to_phrases(answers) - to_phrases(row.text)) & self.phrases:
            values |= {"reply": "", "citations": null(), "delivery": null()}
            values |= DROPPED_VALUES if row.state == DRAFTED else {}
        # What a model made of it is known by its place.
        if values or to_phrases(get_written_text(row.trace or {})) & self.phrases:
            values |= {"trace": null()}
        return values

    def find_copies(self, row: Row[*tuple[Any, ...]]) -> dict[str, Any]:
        """Return the new values of the columns of somebody else's message that hold what the person said."""
        is_brought = self._is_brought_by(row)
        values: dict[str, Any] = dict(NO_QUOTATION) if is_brought else {}
        # What was forwarded is nothing that its sender typed.
        is_hers = self._is_named_by(row) or row.text.strip() in self.texts or self.brings_answer(row)
        is_foreign = is_forward(row) and is_hers
        asked = "" if is_foreign else row.text
        if is_foreign:
            reference = {name: value for name, value in row.reference.items() if name != FORMER_TEXTS}
            values |= {"text": "", "reference": reference}
        if self._has_added_words(row, asked, row.trace) or to_phrases(row.reason) & self.phrases:
            values |= {"trace": null(), "reason": ERASED_REASON}
        # A draft, or an answer that its platform has not taken yet: the next try answers anew.
        waiting = row.delivery or {}
        reply = waiting.get("text") or row.reply
        may_have = not (row.state == DRAFTED and is_made_without(row, self.numbers))
        if reply and may_have and (to_phrases(reply) - to_phrases(asked)) & self.phrases:
            values |= {"reply": "", "citations": null(), "trace": null(), "delivery": null()}
        elif changes := self._find_copies_in_waiting(row, asked, is_brought=is_brought):
            values |= {"delivery": {**waiting, **changes}}
        # A team decides about nothing whose question or answer is gone.
        return values | DROPPED_VALUES if row.state == DRAFTED and _is_told_without(values) else values

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


async def erase_copies(connection: AsyncConnection, place: Mapping[str, str], author_id: str) -> None:
    """Erase what the rows of others have of this author: quotations, pictures, and words that models took over.

    The rest of those rows stays: otherwise whoever forgets would take from a chat how its questions were answered.
    """
    columns = messages.c
    own_names = ("number", "author", "text", "reference", "attachments", "image_description", "id", "reply", "reply_id")
    names = ("platform", "chat", "received_at", "quoted", "quoted_authors", "quotes_bot", "reply_to", *own_names)
    query = select(*(columns[name] for name in names)).where(columns.command != RATING_COMMAND)
    said_in = dict[Place, Said]()
    for row in await connection.execute(query.filter_by(**place, author_id=author_id).order_by(columns.received_at)):
        _get_said(said_in, row, author_id).add(row)
    bringing = _SELECT_BRINGING.filter_by(**place).where(
        columns.author_id != author_id, lists(columns.quoted_authors, author_id)
    )
    for row in await connection.execute(bringing):
        _get_said(said_in, row, author_id).add_brought(row)
    for said_place, said in said_in.items():
        await _take_brought(connection, said_place, said)
    await erase_said(connection, said_in)


async def erase_said(connection: AsyncConnection, said_in: dict[Place, Said]) -> None:
    """Erase what the rows of others have of what was said in some chats, there and wherever it was carried."""
    await _find_brought_answers(connection, said_in)
    await _drop_retelling(connection, said_in.values())
    for place, said in said_in.items():
        others = _select_others(place, said)
        rows = (await connection.execute(others.where(_is_made_since(said.since)))).all()
        said.numbers |= await _find_forgotten(connection, rows)
        copies = await asyncio.to_thread(_find_all_copies, said, rows)
        for number, values in copies.items():
            await connection.execute(update(messages).filter_by(number=number).values(values))
        await _drop_notices(connection, {number for number, values in copies.items() if _is_told_without(values)})
    await _erase_retold(connection, said_in)


def _get_said(said_in: dict[Place, Said], row: Row[*tuple[Any, ...]], author_id: str) -> Said:
    return said_in.setdefault((row.platform, row.chat), Said(author_id))


def _select_others(place: Place, said: Said) -> Select[*tuple[Any, ...]]:
    platform, chat = place
    others = select(*(messages.c[name] for name in COPY_COLUMNS)).filter_by(platform=platform, chat=chat)
    # Where nothing was said, but only carried to, the id is another person's.
    return others.where(messages.c.author_id != said.author_id) if said.author_id else others


async def _take_brought(connection: AsyncConnection, place: Place, said: Said) -> None:
    """Take what was brought of several people, or the person quoted of others, for theirs where it is nobody else's."""
    columns = messages.c
    others = _select_others(place, said)
    if said.shared_phrases:
        texts = (await connection.scalars(others.with_only_columns(columns.text).where(~columns.is_forwarded))).all()
        platform, chat = place
        answers = select(columns.reply).filter_by(platform=platform, chat=chat)
        replies = (await connection.scalars(answers.where(columns.reply_id.in_(said.answered_ids)))).all()
        await asyncio.to_thread(said.take_shared, (*texts, *replies))
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


async def _find_brought_answers(connection: AsyncConnection, said_in: dict[Place, Said]) -> None:
    """Find the other chats, on whichever platform, where somebody has forwarded or quoted what the bot told of it."""
    columns = messages.c
    rows = (await connection.execute(_SELECT_BRINGING.where(or_(columns.quotes_bot, columns.is_forwarded)))).all()
    for row, place in await asyncio.to_thread(_find_all_brought, dict(said_in), rows):
        author_id = said_in[place].author_id if row.platform == place[0] else ""
        _get_said(said_in, row, author_id).add_brought_answer(row, said_in[place])


async def _erase_retold(connection: AsyncConnection, said_in: Mapping[Place, Said]) -> None:
    """Erase what was said about drafts, reports and replies to commands that told of it in other chats."""
    columns = messages.c
    # In a group such a command tells of that group alone.
    is_private_command = and_(columns.command.in_(RETELLING_COMMANDS), columns.private)
    is_retelling = or_(columns.purpose.in_(("draft", "report")), is_private_command)
    query = select(columns.platform, columns.chat).where(is_retelling).distinct()
    for told_in in (await connection.execute(query)).all():
        for said in (said for place, said in said_in.items() if place != tuple(told_in)):
            told = select(*(columns[name] for name in COPY_COLUMNS)).filter_by(**told_in._asdict())
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
            dropped = update(messages).filter_by(number=row.number).values(text="", **DROPPED_VALUES)
            await connection.execute(dropped)


async def _drop_retelling(connection: AsyncConnection, said: Collection[Said]) -> None:
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
            dropped = update(messages).filter_by(number=row.number).values(text="", **DROPPED_VALUES)
            await connection.execute(dropped)


def _is_made_since(since: datetime) -> ColumnElement[bool]:
    """Return the condition that a message was answered after a time, or is not yet: it may have come long before."""
    return or_(messages.c.settled_at >= since, messages.c.settled_at.is_(None))


def _find_all_brought(
    said_in: Mapping[Place, Said], rows: Sequence[Row[*tuple[Any, ...]]]
) -> Sequence[tuple[Row[*tuple[Any, ...]], Place]]:
    """Return the rows that bring to a chat what was told of what was said in another one, each with that."""
    found = list[tuple[Row[*tuple[Any, ...]], Place]]()
    known = set[tuple[str, ...]]().union(*(said.phrases | said.answer_phrases for said in said_in.values()))
    for row in rows:
        if known.isdisjoint(to_phrases(get_brought_text(row))):
            continue
        brought = _get_brought_phrases(row)
        for place, said in said_in.items():
            if place != (row.platform, row.chat) and said.has_answer(brought, quotes_bot=row.quotes_bot):
                found.append((row, place))
    return found


def _get_brought_phrases(row: Row[*tuple[Any, ...]]) -> Sequence[Set[tuple[str, ...]]]:
    """Return the phrases of all that a message brings, and of each paragraph of it."""
    text = get_brought_text(row)
    return [to_phrases(text), *map(to_phrases, text.split("\n\n"))]


def _find_all_copies(said: Said, rows: Sequence[Row[*tuple[Any, ...]]]) -> Mapping[int, dict[str, Any]]:
    """Return the new values by number, of the messages of others in a chat that have what was said there."""
    for row in rows:
        said.add_attached(row)
    found = dict[int, dict[str, Any]]()
    # A draft may have waited for messages that came after its question: once more, when all of those are known.
    for row in (*rows, *(row for row in rows if row.state == DRAFTED)):
        if values := said.find_copies(row):
            found[row.number] = values
            said.numbers.add(row.number)
    return found


def _find_all_retold(said: Said, rows: Sequence[Row[*tuple[Any, ...]]]) -> Mapping[int, dict[str, Any]]:
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


def _is_told_without(values: Mapping[str, Any]) -> bool:
    """Return whether the new values of a row take its words, or those of its answer: a notice has them, too."""
    return not values.keys().isdisjoint(("text", "reply"))


def _is_told_in(row: Row[*tuple[Any, ...]], said_at: datetime) -> bool:
    """Return whether a message's answer may have what was said at a time: one that waits may know what came later."""
    received_at: datetime = row.received_at
    settled_at: datetime | None = row.settled_at
    return received_at <= said_at + CONVERSATION_TIME and (settled_at is None or said_at <= settled_at)
