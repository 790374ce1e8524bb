"""Ratings of answers, in the journal's database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Row, Text, and_, case, cast, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.runtime.tasks import uncancellable
from core.storage.chat_history import are_all_remembered
from core.storage.engine import Repository
from core.storage.message_rows import to_message
from core.storage.tables import bot_values, feedback, is_reply_in, messages, replies
from core.types import ASK_COMMANDS, DOWN, UP, Message, SkipReason
from core.types.messages import MAX_QUESTION_CHARS

# People can rate a reply as soon as they see it, before the journal has closed its question.
_VISIBLE_STATES = ("answered", "answering", "sending")
# How many of a chat's last stops are looked through.
MAX_STOPS = 20


@dataclass(frozen=True, slots=True)
class JournaledAnswer:
    """A question and its answer from the journal, with the number of the row. Both texts are empty after retention.

    `visible_sources` are those that the answer could be made from; None: all.
    """

    number: int
    question: Message
    reply: str
    reply_id: str
    strategy: str
    passages: tuple[str, ...]
    is_complete: bool
    visible_sources: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Rating:
    """One person's rating of an answer (`verdict` is empty once withdrawn), and the number of each rating."""

    verdict: str
    reason: str
    up: int
    down: int


@dataclass(frozen=True, slots=True)
class DailyRatings:
    """The ratings of one day (a local date), with the reasons by name."""

    day: date
    up: int
    down: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, and whether people thought that it deserved its answer."""

    platform: str
    chat: str
    id: str
    text: str
    is_good: bool


class FeedbackRepository(Repository):
    """Ratings of answers. Every method raises `StoreError` when the database fails."""

    async def find_answer(self, press: Message) -> JournaledAnswer | None:
        """Return the answer that a button press rates, by the id of its question or of the reply.

        None if the chat of the press has no such answer of this bot.
        """
        columns = messages.c
        matches_id = or_(columns.id == press.reply_to, and_(columns.reply_id == press.reply_to, columns.reply_id != ""))
        is_visible_answer = (columns.state.in_(_VISIBLE_STATES), columns.command.in_(ASK_COMMANDS))
        query = select(messages).filter_by(**bot_values(press)).where(matches_id, *is_visible_answer)
        row = await self._database.fetch_first(query)
        if row is None or row.is_post:
            return None
        passage_ids = tuple(dict.fromkeys(str(citation["passage_id"]) for citation in row.citations or ()))
        strategy = str((row.trace or {}).get("strategy", ""))
        return JournaledAnswer(
            row.number,
            to_message(row),
            row.reply,
            row.reply_id,
            strategy,
            passage_ids,
            row.state == "answered",
            row.visible_sources,
        )

    @property
    def is_shared(self) -> bool:
        """Return whether several daemons share the journal."""
        return bool(self._database.owner)

    async def is_stopped(self, question: Message) -> bool:
        """Return whether a press that stops the answer to a question is recorded."""
        columns = messages.c
        reason = SkipReason.STOPPED
        query = select(columns.trace).filter_by(**bot_values(question), detail=reason.label)
        rows = await self._database.fetch_all(query.order_by(columns.number.desc()).limit(MAX_STOPS))
        return any((row.trace or {}).get("values", {}).get("question") == question.id for row in rows)

    @uncancellable
    async def rate(self, press: Message, question_id: str, verdict: str, reason: str = "") -> Rating:
        """Store the rating of a press. The same rating again withdraws it; a press counts once.

        Not that of somebody who was forgotten meanwhile.
        """
        key_values = {**bot_values(press), "question": question_id, "author_id": press.author_id}
        async with self._database.transaction() as connection:
            is_remembered = await are_all_remembered(connection, [press])
            row = (await connection.execute(select(feedback).filter_by(**key_values))).first()
            if is_remembered and (row is None or row.press != press.id):
                verdict, reason = _next_rating(row, verdict, reason)
                values = {"verdict": verdict, "reason": reason, "press": press.id, "at": datetime.now(UTC)}
                if row is None:
                    await connection.execute(insert(feedback).values(**key_values, **values))
                else:
                    await connection.execute(update(feedback).filter_by(**key_values).values(values))
            return await _rating(connection, press, question_id)

    async def get_rating(self, press: Message, question_id: str) -> Rating:
        """Return the rating by the author of a press, and the number of each rating."""
        async with self._database.connect() as connection:
            return await _rating(connection, press, question_id)

    async def evict_cached_reply(self, question: Message) -> None:
        """Remove the cached reply to this question in this chat."""
        # One without words asked what it replies to.
        text = question.text if question.text.strip() else question.quoted[:MAX_QUESTION_CHARS]
        is_in_chat = is_reply_in(question.key.platform, question.key.chat)
        await self._database.write(delete(replies).where(is_in_chat, replies.c.text == text))

    async def get_daily_ratings(self, since: datetime) -> Sequence[DailyRatings]:
        """Return the ratings since a time, by the day of their last change, oldest first."""
        columns = feedback.c
        query = select(columns.at, columns.verdict, columns.reason).where(columns.at >= since, columns.verdict != "")
        by_day: dict[date, list[Any]] = {}
        for row in await self._database.fetch_all(query.order_by(columns.at)):
            by_day.setdefault(row.at.astimezone().date(), []).append(row)
        return [_to_daily_ratings(day, day_rows) for day, day_rows in by_day.items()]

    async def get_labelled_questions(self, chat: tuple[str, str] | None) -> Sequence[LabelledQuestion]:
        """Return the rated questions in the order they were asked, with the majority's rating.

        All, or those of one chat (its platform and its id), without ties and questions whose text was removed. Where
        nobody rated an answer, it counts what a team decided about its draft.
        """
        columns = messages.c
        feedback_columns = feedback.c
        ups, downs = (func.sum(case((feedback_columns.verdict == verdict, 1), else_=0)) for verdict in (UP, DOWN))
        in_chat = () if chat is None else (columns.platform == chat[0], columns.chat == chat[1])
        own_columns = [columns[name] for name in ("number", "platform", "chat", "id", "text")]
        ratings_query = (
            select(*own_columns, ups.label("ups"), downs.label("downs"))
            .join(feedback, and_(*(feedback_columns[name] == columns[name] for name in ("platform", "bot", "chat"))))
            .where(feedback_columns.question == columns.id, columns.text != "", *in_chat)
            .group_by(columns.number)
            .having(ups + downs > 0)
        )
        is_posted = columns.state == "answered"
        was_draft = cast(columns.number, Text).in_(select(columns.root_id).filter_by(purpose="draft"))
        is_decided = or_(and_(is_posted, was_draft), columns.detail == SkipReason.DRAFT_DROPPED.label)
        decisions_query = select(*own_columns, is_posted.label("ups"), (~is_posted).label("downs"))
        decisions_query = decisions_query.where(columns.text != "", is_decided, *in_chat)
        decisions, ratings = [await self._database.fetch_all(query) for query in (decisions_query, ratings_query)]
        # A rating replaces what was decided about the draft, also where it is a tie.
        rows_by_number = {row.number: row for row in (*decisions, *ratings)}
        return [
            LabelledQuestion(row.platform, row.chat, row.id, row.text, row.ups > row.downs)
            for _, row in sorted(rows_by_number.items())
            if row.ups != row.downs
        ]

    async def erase_before(self, before: datetime) -> int:
        """Remove the ratings before a time; return how many."""
        return await self._database.write(delete(feedback).where(feedback.c.at < before))


def _next_rating(row: Row[Any] | None, verdict: str, reason: str) -> tuple[str, str]:
    if row is None:
        return verdict, reason
    if reason:
        return verdict, "" if row.reason == reason else reason
    return ("", "") if row.verdict == verdict else (verdict, "")


async def _rating(connection: AsyncConnection, press: Message, question_id: str) -> Rating:
    columns = feedback.c
    query = select(columns.author_id, columns.verdict, columns.reason)
    rows = (await connection.execute(query.filter_by(**bot_values(press), question=question_id))).all()
    own_row = next((row for row in rows if row.author_id == press.author_id), None)
    up, down = (sum(row.verdict == verdict for row in rows) for verdict in (UP, DOWN))
    return Rating(own_row.verdict if own_row else "", own_row.reason if own_row else "", up, down)


def _to_daily_ratings(day: date, rows: Sequence[Any]) -> DailyRatings:
    reasons = dict(Counter(row.reason for row in rows if row.reason))
    return DailyRatings(day, sum(row.verdict == UP for row in rows), sum(row.verdict == DOWN for row in rows), reasons)
