"""Answers that people gave: they wait for a review, and what was approved becomes knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from core.errors import UsageError
from core.runtime.tasks import uncancellable
from core.storage.engine import Database
from core.storage.tables import learned
from core.types import Message

ReviewState = Literal["pending", "approved", "rejected"]
MAX_ANSWER_CHARS = 8000
# A question is also the title that answers name as their source: one line.
MAX_QUESTION_CHARS = 500


@dataclass(frozen=True, slots=True)
class TaughtAnswer:
    """One answer with its question: who gave it, where, and who decided what about it, when (UTC)."""

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


class TaughtAnswerRepository:
    """All that was taught. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @uncancellable
    async def submit(self, message: Message, asked_by: str, question: str, answer: str) -> int | None:
        """Keep the answer that a message gives for review and return its number; None when it is here already."""
        values = {
            "platform": message.key.platform,
            "chat": message.key.chat,
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
                    result = await connection.execute(insert(learned).values(values))
            except IntegrityError:
                return None
        return int(result.inserted_primary_key[0]) if result.inserted_primary_key else None

    async def list_answers(self, state: ReviewState | None = None, limit: int | None = None) -> Sequence[TaughtAnswer]:
        """Return the answers of a state, or all, oldest first."""
        query = select(learned).order_by(learned.c.number).limit(limit)
        if state:
            query = query.where(learned.c.state == state)
        async with self._database.connect() as connection:
            rows = (await connection.execute(query)).all()
        return [TaughtAnswer(**{name: getattr(row, name) for name in TaughtAnswer.__slots__}) for row in rows]

    @uncancellable
    async def decide(self, number: int, state: ReviewState, reviewer: str) -> TaughtAnswer:
        """Approve or reject an answer. Raises `UsageError` for a number that is none."""
        values = {"state": state, "reviewer": reviewer, "reviewed_at": datetime.now(UTC)}
        return await self._change(number, values)

    @uncancellable
    async def edit(self, number: int, answer: str) -> TaughtAnswer:
        """Put another text in the place of an answer; it then waits for a review again.

        Raises `UsageError` for a number that is none and for an empty text.
        """
        if not answer.strip():
            raise UsageError("Write the new answer behind the number.")
        review_reset = {"state": "pending", "reviewer": "", "reviewed_at": None}
        return await self._change(number, {"answer": answer.strip()[:MAX_ANSWER_CHARS], **review_reset})

    @uncancellable
    async def erase_before(self, before: datetime) -> int:
        """Remove what was taught before a moment and never approved; return how many answers that were."""
        conditions = (learned.c.at < before, learned.c.state != "approved")
        async with self._database.transaction() as connection:
            return (await connection.execute(delete(learned).where(*conditions))).rowcount

    async def _change(self, number: int, values: dict[str, object]) -> TaughtAnswer:
        async with self._database.transaction() as connection:
            await connection.execute(update(learned).where(learned.c.number == number).values(values))
            row = (await connection.execute(select(learned).where(learned.c.number == number))).first()
        if row is None:
            raise UsageError(f"There is no answer {number}. `/faq list` shows those that wait for a review.")
        return TaughtAnswer(**{name: getattr(row, name) for name in TaughtAnswer.__slots__})
