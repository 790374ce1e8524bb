"""Answers that people gave: they wait for a review, and what was approved becomes knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from core.errors import UsageError
from core.runtime.tasks import unbroken
from core.storage.engine import Database
from core.storage.tables import learned
from core.types import Message

State = Literal["pending", "approved", "rejected"]
LONGEST = 8000
# A question is also the title that answers name as their source: one line.
LONGEST_QUESTION = 500


@dataclass(frozen=True, slots=True)
class Lesson:
    """One answer with its question: who gave it, where, and who decided what about it, when (UTC)."""

    number: int
    platform: str
    chat: str
    question: str
    answer: str
    teacher: str
    state: State
    at: datetime
    reviewer: str = ""
    reviewed_at: datetime | None = None


class Lessons:
    """All that was taught. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @unbroken
    async def teach(self, lesson: Message, asked_by: str, question: str, answer: str) -> int | None:
        """Keep the answer that a message gives for review and return its number; None when it is here already."""
        values = {
            "platform": lesson.key.platform,
            "chat": lesson.key.chat,
            "lesson": lesson.id,
            "asked_by": asked_by,
            "taught_by": lesson.author_id,
            "teacher": lesson.author,
            "question": " ".join(question.replace("```", "'''").split())[:LONGEST_QUESTION],
            "answer": answer.strip()[:LONGEST],
            "reviewer": "",
            "state": "pending",
            "at": datetime.now(UTC),
        }
        async with self._database.writing() as connection:
            try:
                async with connection.begin_nested():
                    made = await connection.execute(insert(learned).values(values))
            except IntegrityError:
                return None
        return int(made.inserted_primary_key[0]) if made.inserted_primary_key else None

    async def list(self, state: State | None = None, limit: int | None = None) -> Sequence[Lesson]:
        """Return the answers of a state, or all, oldest first."""
        query = select(learned).order_by(learned.c.number).limit(limit)
        if state:
            query = query.where(learned.c.state == state)
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [Lesson(**{name: getattr(row, name) for name in Lesson.__slots__}) for row in rows]

    @unbroken
    async def decide(self, number: int, state: State, reviewer: str) -> Lesson:
        """Approve or reject an answer. Raises `UsageError` for a number that is none."""
        values = {"state": state, "reviewer": reviewer, "reviewed_at": datetime.now(UTC)}
        return await self._change(number, values)

    @unbroken
    async def edit(self, number: int, answer: str) -> Lesson:
        """Put another text in the place of an answer; it then waits for a review again.

        Raises `UsageError` for a number that is none and for an empty text.
        """
        if not answer.strip():
            raise UsageError("Write the new answer behind the number.")
        again = {"state": "pending", "reviewer": "", "reviewed_at": None}
        return await self._change(number, {"answer": answer.strip()[:LONGEST], **again})

    @unbroken
    async def forget(self, before: datetime) -> int:
        """Remove what was taught before a moment and never approved; return how many answers that were."""
        old = (learned.c.at < before, learned.c.state != "approved")
        async with self._database.writing() as connection:
            return (await connection.execute(delete(learned).where(*old))).rowcount

    async def _change(self, number: int, values: dict[str, object]) -> Lesson:
        async with self._database.writing() as connection:
            await connection.execute(update(learned).where(learned.c.number == number).values(values))
            row = (await connection.execute(select(learned).where(learned.c.number == number))).first()
        if row is None:
            raise UsageError(f"There is no answer {number}. `/faq list` shows those that wait for a review.")
        return Lesson(**{name: getattr(row, name) for name in Lesson.__slots__})
