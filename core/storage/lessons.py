"""Answers of people: they wait for a review, and approved ones become knowledge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, and_, delete, insert, null, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.catalogue import ENGLISH, Messages
from core.errors import MessageDeleted, UsageError
from core.runtime.tasks import uncancellable
from core.storage.chat_history import are_all_remembered, is_readable_from, is_told_to
from core.storage.engine import Repository
from core.storage.lesson_erasure import erase_told
from core.storage.tables import chat_values, identity_values, messages, taught_answers, to_document_name
from core.types import Message, SkipReason

ReviewState = Literal["pending", "approved", "rejected"]
MAX_ANSWER_CHARS = 8000
# A question is also the title of the source in citations: one line.
MAX_QUESTION_CHARS = 500


@dataclass(frozen=True, slots=True)
class TaughtAnswer:
    """One answer with its question: who gave it, where, and the decision of the review with its time (UTC).

    `closed_sources` are the labels of the sources that were not for everyone and that its place could see when it was
    taught; None where nobody knows.
    """

    number: int
    platform: str
    chat: str
    question: str
    answer: str
    teacher: str
    state: ReviewState
    at: datetime
    reviewer: str = ""
    reviewed_at: datetime | None = None
    closed_sources: frozenset[str] | None = None


class TaughtAnswerRepository(Repository):
    """All taught answers. Every method raises `StoreError` when the database fails."""

    @uncancellable
    async def submit(
        self,
        message: Message,
        asked_by: str,
        question: str,
        answer: str,
        closed_sources: Collection[str],
        *,
        words_of: Sequence[Message],
    ) -> int | None:
        """Store the answer in a message for review and return its number; None if it is stored already.

        Its words are those of the messages `words_of`. Raises `MessageDeleted` where somebody who wrote one, or whom
        it quotes, was forgotten meanwhile.

        It belongs to the place of the message: what was taught in a closed thread, also one that was closed meanwhile,
        is listed in no other one, and what was taught where `closed_sources` can be seen is told only to who sees them.
        """
        values = {
            **chat_values(message.key),
            "thread": message.key.thread,
            "in_restricted_thread": message.thread_state.is_restricted,
            "lesson": message.id,
            "asked_by": asked_by,
            "taught_by": message.author_id,
            "teacher": message.author,
            "question": " ".join(question.replace("```", "'''").split())[:MAX_QUESTION_CHARS],
            "answer": answer.strip()[:MAX_ANSWER_CHARS],
            "reviewer": "",
            "state": "pending",
            "at": datetime.now(UTC),
            "closed_sources": sorted(closed_sources),
        }
        async with self._database.transaction() as connection:
            if not await are_all_remembered(connection, words_of):
                raise MessageDeleted(SkipReason.DRAFT_FORGOTTEN.text)
            if await _is_any_closed(connection, words_of):
                values["in_restricted_thread"] = True
            try:
                async with connection.begin_nested():
                    result = await connection.execute(insert(taught_answers).values(values))
            except IntegrityError:
                return None
        return int(result.inserted_primary_key[0]) if result.inserted_primary_key else None

    async def list_answers(
        self, state: ReviewState | None = None, limit: int | None = None, *, reader: Message | None
    ) -> Sequence[TaughtAnswer]:
        """Return the answers in a state, or all, oldest first.

        With a `reader` other than None, only those of its chat that may be told of where that message was written.
        """
        query = select(taught_answers).order_by(taught_answers.c.number).limit(limit)
        if state:
            query = query.filter_by(state=state)
        if reader:
            query = query.filter_by(**chat_values(reader.key)).where(
                is_readable_from(reader, taught_answers), _is_taught_to(reader)
            )
        return [_to_taught_answer(row) for row in await self._database.fetch_all(query)]

    async def list_document_names(self) -> Sequence[str]:
        """Return how the paths begin of the documents that the approved answers are."""
        query = select(taught_answers.c.number).filter_by(state="approved")
        return [to_document_name(row.number) for row in await self._database.fetch_all(query)]

    @uncancellable
    async def decide(self, number: int, state: ReviewState, reviewer: str, texts: Messages = ENGLISH) -> TaughtAnswer:
        """Approve or reject an answer. Raises `UsageError` for an unknown number.

        One that has words of somebody who was forgotten while it was approved is erased when it is rejected, with what
        was told from it.
        """
        values = {"state": state, "reviewer": reviewer, "reviewed_at": datetime.now(UTC)}
        return await self._change(number, values, texts)

    @uncancellable
    async def edit(
        self, message: Message, number: int, answer: str, closed_sources: Collection[str], texts: Messages = ENGLISH
    ) -> TaughtAnswer:
        """Replace the text of an answer by one of a message's author; it then waits for a review again.

        `closed_sources` can be seen where the new text was written: it may tell of them. Raises `UsageError` for an
        unknown number and for an empty text, and `MessageDeleted` where its author was forgotten meanwhile.
        """
        if not answer.strip():
            raise UsageError(texts.new_answer_missing)
        values = {
            "answer": answer.strip()[:MAX_ANSWER_CHARS],
            "state": "pending",
            "reviewer": "",
            "reviewed_at": None,
        }
        return await self._change(number, values, texts, closed_sources, editing=message)

    @uncancellable
    async def set_closed_sources(self, numbers: Collection[int] | None, closed_sources: Collection[str]) -> int:
        """Record which closed sources these answers may tell of; None: all of which nobody knows it. Return how many.

        This is for the operator, who knows what was taught.
        """
        is_unknown = taught_answers.c.closed_sources.is_(null())
        chosen = is_unknown if numbers is None else taught_answers.c.number.in_(numbers)
        return await self._database.write(
            update(taught_answers).where(chosen).values(closed_sources=sorted(closed_sources))
        )

    async def count_of_unknown_audience(self, knows: Callable[[str], bool]) -> int:
        """Return how many approved answers are not used because nobody knows who may see them.

        Nobody `knows` it either where they may tell of a source whose label is of none today: it was renamed, moved,
        removed, or is open again and reads less.
        """
        query = select(taught_answers.c.closed_sources).filter_by(state="approved")
        rows = await self._database.fetch_all(query)
        return sum(row.closed_sources is None or not all(map(knows, row.closed_sources)) for row in rows)

    async def erase_before(self, before: datetime) -> int:
        """Remove answers from before a time that were never approved; return how many."""
        return await self._database.write(
            delete(taught_answers).where(taught_answers.c.at < before, taught_answers.c.state != "approved")
        )

    async def _change(
        self,
        number: int,
        values: Mapping[str, object],
        texts: Messages,
        closed_sources: Collection[str] = (),
        *,
        editing: Message | None = None,
    ) -> TaughtAnswer:
        """Change an answer, which tells of `closed_sources` from now on, too, and has words of who is `editing` it."""
        chosen = select(taught_answers).filter_by(number=number)
        is_left = values["state"] != "approved"
        async with self._database.transaction() as connection:
            # First the messages and then the answer, as who is forgotten does.
            if editing and not await are_all_remembered(connection, [editing]):
                raise MessageDeleted(SkipReason.DRAFT_FORGOTTEN.text)
            if is_left and await connection.scalar(chosen.with_only_columns(taught_answers.c.has_forgotten)):
                await erase_told(connection, [number])
            row = (await connection.execute(chosen.with_for_update())).first()
            if row is None:
                raise UsageError(texts.no_such_answer.format(number=number))
            if row.closed_sources is not None:
                values = {**values, "closed_sources": sorted({*row.closed_sources, *closed_sources})}
            if editing:
                editor = {**chat_values(editing.key), "author_id": editing.author_id}
                others = [other for other in row.editors or () if other != editor]
                values = {**values, "editors": [*others, editor]}
            await connection.execute(update(taught_answers).filter_by(number=number).values(values))
            row = (await connection.execute(chosen)).one()
            if row.has_forgotten and is_left:
                # Somebody may have been forgotten since it was looked at.
                await erase_told(connection, [number])
                # What was edited is its editor's, and waits for a review.
                is_rejected = and_(taught_answers.c.number == number, taught_answers.c.state == "rejected")
                await connection.execute(delete(taught_answers).where(is_rejected))
        if row.has_forgotten and is_left:
            await self._database.wipe()
        return _to_taught_answer(row)


async def _is_any_closed(connection: AsyncConnection, words_of: Sequence[Message]) -> bool:
    """Return whether one of these messages is in a closed thread by now, whatever it was when it was read."""
    for each in words_of:
        if await connection.scalar(select(messages.c.in_restricted_thread).filter_by(**identity_values(each))):
            return True
    return False


def _is_taught_to(reader: Message) -> ColumnElement[bool]:
    """Return the condition that answers were not taught at a time when the chat of a message was private.

    Where it is so now, and was another person's then, that is the same. Where it ever was, the message that was learned
    from says so; one that the bot has not received may be of that time.
    """
    in_chat = select(messages.c.id).filter_by(**chat_values(reader.key))
    is_told = is_told_to(reader)
    return or_(~in_chat.where(~is_told).exists(), taught_answers.c.lesson.in_(in_chat.where(is_told)))


def _to_taught_answer(row: Row[*tuple[Any, ...]]) -> TaughtAnswer:
    values = {name: getattr(row, name) for name in TaughtAnswer.__slots__}
    closed_sources = None if row.closed_sources is None else frozenset(row.closed_sources)
    return TaughtAnswer(**{**values, "closed_sources": closed_sources})
