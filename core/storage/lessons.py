"""Answers of people: they wait for a review, and approved ones become knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from core.catalogue import ENGLISH, Messages
from core.errors import UsageError
from core.runtime.tasks import uncancellable
from core.storage.chat_history import is_readable_from
from core.storage.engine import Repository
from core.storage.tables import chat_values, taught_answers
from core.types import Message

ReviewState = Literal["pending", "approved", "rejected"]
MAX_ANSWER_CHARS = 8000
# A question is also the title of the source in citations: one line.
MAX_QUESTION_CHARS = 500


@dataclass(frozen=True, slots=True)
class TaughtAnswer:
    """One answer with its question: who gave it, where, and the decision of the review with its time (UTC)."""

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


class TaughtAnswerRepository(Repository):
    """All taught answers. Every method raises `StoreError` when the database fails."""

    @uncancellable
    async def submit(self, message: Message, asked_by: str, question: str, answer: str) -> int | None:
        """Store the answer in a message for review and return its number; None if it is stored already.

        It belongs to the place of the message: what was taught in a closed thread is listed in no other one.
        """
        values = {
            **chat_values(message.key),
            "thread": message.key.thread,
            "in_restricted_thread": message.in_restricted_thread,
            "lesson": message.id,
            "asked_by": asked_by,
            "taught_by": message.author_id,
            "teacher": message.author,
            "question": " ".join(question.replace("```", "'''").split())[:MAX_QUESTION_CHARS],
            "answer": answer.strip()[:MAX_ANSWER_CHARS],
            "reviewer": "",
            "state": "pending",
            "at": datetime.now(UTC),
        }
        async with self._database.transaction() as connection:
            try:
                async with connection.begin_nested():
                    result = await connection.execute(insert(taught_answers).values(values))
            except IntegrityError:
                return None
        return int(result.inserted_primary_key[0]) if result.inserted_primary_key else None

    async def list_answers(
        self, state: ReviewState | None = None, limit: int | None = None, *, reader: Message | None = None
    ) -> Sequence[TaughtAnswer]:
        """Return the answers in a state, or all, oldest first.

        With a `reader`, only those of its chat that may be told of where that message was written.
        """
        query = select(taught_answers).order_by(taught_answers.c.number).limit(limit)
        if state:
            query = query.filter_by(state=state)
        if reader:
            query = query.filter_by(**chat_values(reader.key)).where(is_readable_from(reader, taught_answers))
        return [_to_taught_answer(row) for row in await self._database.fetch_all(query)]

    @uncancellable
    async def decide(self, number: int, state: ReviewState, reviewer: str, texts: Messages = ENGLISH) -> TaughtAnswer:
        """Approve or reject an answer. Raises `UsageError` for an unknown number."""
        values = {"state": state, "reviewer": reviewer, "reviewed_at": datetime.now(UTC)}
        return await self._change(number, values, texts)

    @uncancellable
    async def edit(self, number: int, answer: str, texts: Messages = ENGLISH) -> TaughtAnswer:
        """Replace the text of an answer, which then waits for a review again.

        Raises `UsageError` for an unknown number and for an empty text.
        """
        if not answer.strip():
            raise UsageError(texts.new_answer_missing)
        review_reset = {"state": "pending", "reviewer": "", "reviewed_at": None}
        return await self._change(number, {"answer": answer.strip()[:MAX_ANSWER_CHARS], **review_reset}, texts)

    async def erase_before(self, before: datetime) -> int:
        """Remove answers from before a time that were never approved; return how many."""
        return await self._database.write(
            delete(taught_answers).where(taught_answers.c.at < before, taught_answers.c.state != "approved")
        )

    async def _change(self, number: int, values: dict[str, object], texts: Messages) -> TaughtAnswer:
        async with self._database.transaction() as connection:
            await connection.execute(update(taught_answers).filter_by(number=number).values(values))
            row = (await connection.execute(select(taught_answers).filter_by(number=number))).first()
        if row is None:
            raise UsageError(texts.no_such_answer.format(number=number))
        return _to_taught_answer(row)


def _to_taught_answer(row: Row[*tuple[Any, ...]]) -> TaughtAnswer:
    return TaughtAnswer(**{name: getattr(row, name) for name in TaughtAnswer.__slots__})
