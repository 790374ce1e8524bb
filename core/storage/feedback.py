"""What the journal's database knows of answers and of what people said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Row, and_, case, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.runtime.tasks import unbroken
from core.storage.answer_cache import of_chat
from core.storage.engine import Database
from core.storage.messages import message_of
from core.storage.tables import feedback, messages, replies
from core.types import DOWN, UP, Message

# A reply can be rated as soon as it is seen, which is before the journal has closed its question.
_SHOWN = ("answered", "answering", "sending")


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and its answer as the journal has them. Both texts are empty once they were forgotten."""

    question: Message
    reply: str
    reply_id: str
    strategy: str
    passages: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Rating:
    """What one person says about an answer now (`verdict` is empty when they took it back), and how many say what."""

    verdict: str
    reason: str
    up: int
    down: int


@dataclass(frozen=True, slots=True)
class Day:
    """What was said about answers on one day (a local date), with the reasons by name."""

    day: date
    up: int
    down: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question that people judged whether it deserved its answer."""

    platform: str
    chat: str
    id: str
    text: str
    good: bool


class Opinions:
    """What people say about answers. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def answered(self, press: Message) -> Answered | None:
        """Return the answer that a press is about, found by the id of its question or of the reply itself.

        None where the chat of the press has no such answer of this bot.
        """
        columns, key = messages.c, press.key
        named = or_(columns.id == press.reply_to, and_(columns.reply_id == press.reply_to, columns.reply_id != ""))
        query = select(messages).where(
            columns.platform == key.platform,
            columns.bot == press.bot,
            columns.chat == key.chat,
            named,
            columns.state.in_(_SHOWN),
            columns.command.in_(("", "ask")),
        )
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).first()
        if row is None or row.reference.get("kind") == "post":
            return None
        cited = tuple(dict.fromkeys(str(one["passage_id"]) for one in row.citations or ()))
        strategy = str((row.trace or {}).get("strategy", ""))
        return Answered(message_of(row), row.reply, row.reply_id, strategy, cited, row.state == "answered")

    @unbroken
    async def rate(self, press: Message, question: str, verdict: str, reason: str = "") -> Rating:
        """Take over what a press says. The same again takes it back; a press taken over before changes nothing."""
        columns = feedback.c
        one = and_(*_about(press, question), columns.author_id == press.author_id)
        async with self._database.writing() as connection:
            row = (await connection.execute(select(feedback).where(one))).first()
            if row is None or row.press != press.id:
                verdict, reason = _following(row, verdict, reason)
                values = {"verdict": verdict, "reason": reason, "press": press.id, "at": datetime.now(UTC)}
                if row is None:
                    await connection.execute(insert(feedback).values(**_place(press, question), **values))
                else:
                    await connection.execute(update(feedback).where(one).values(values))
            return await _rating(connection, press, question)

    async def rating(self, press: Message, question: str) -> Rating:
        """Return what the author of a press says about an answer, and how many say what."""
        async with self._database.reading() as connection:
            return await _rating(connection, press, question)

    @unbroken
    async def give_no_more(self, question: Message) -> None:
        """Forget the reply that is kept to be given again to who asks the same in this chat."""
        asked = replies.c.asked == question.text
        async with self._database.writing() as connection:
            await connection.execute(delete(replies).where(of_chat(question.key), asked))

    async def days(self, since: datetime) -> Sequence[Day]:
        """Return what was said since a moment, by day, oldest first; it counts on the day it was last changed."""
        columns = feedback.c
        query = select(columns.at, columns.verdict, columns.reason).where(columns.at >= since, columns.verdict != "")
        async with self._database.reading() as connection:
            rows = (await connection.execute(query.order_by(columns.at))).all()
        by_day: dict[date, list[Any]] = {}
        for row in rows:
            by_day.setdefault(_aware(row.at).astimezone().date(), []).append(row)
        return [_day(day, said) for day, said in by_day.items()]

    async def labelled(self, chat: tuple[str, str] | None = None) -> Sequence[Labelled]:
        """Return the questions that people rated, in the order they were asked, with what most of them said.

        All of them, or those of one chat (its platform and its id). A tie counts for neither, and a question whose
        text was forgotten is left out.
        """
        columns, said = messages.c, feedback.c
        ups = func.sum(_is(UP))
        downs = func.sum(_is(DOWN))
        names = ("platform", "chat", "id", "text")
        query = (
            select(*(columns[name] for name in names), ups.label("ups"), downs.label("downs"))
            .join(feedback, and_(*(said[name] == columns[name] for name in ("platform", "bot", "chat"))))
            .where(said.question == columns.id, columns.text != "")
            .group_by(columns.number)
            .order_by(columns.number)
        )
        if chat is not None:
            query = query.where(columns.platform == chat[0], columns.chat == chat[1])
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        decided = [row for row in rows if row.ups != row.downs]
        return [Labelled(row.platform, row.chat, row.id, row.text, row.ups > row.downs) for row in decided]

    @unbroken
    async def forget(self, before: datetime) -> int:
        """Remove what was said before a moment; return how many rows that were."""
        async with self._database.writing() as connection:
            return (await connection.execute(delete(feedback).where(feedback.c.at < before))).rowcount


def _following(row: Row[Any] | None, verdict: str, reason: str) -> tuple[str, str]:
    if row is None:
        return verdict, reason
    if reason:
        return verdict, "" if row.reason == reason else reason
    return ("", "") if row.verdict == verdict else (verdict, "")


async def _rating(connection: AsyncConnection, press: Message, question: str) -> Rating:
    columns = feedback.c
    query = select(columns.author_id, columns.verdict, columns.reason).where(*_about(press, question))
    rows = (await connection.execute(query)).all()
    mine = next((row for row in rows if row.author_id == press.author_id), None)
    up, down = (sum(row.verdict == verdict for row in rows) for verdict in (UP, DOWN))
    return Rating(mine.verdict if mine else "", mine.reason if mine else "", up, down)


def _place(press: Message, question: str) -> dict[str, str]:
    key = press.key
    place = {"platform": key.platform, "bot": press.bot, "chat": key.chat, "question": question}
    return {**place, "author_id": press.author_id}


def _about(press: Message, question: str) -> tuple[Any, ...]:
    place = _place(press, question)
    return tuple(feedback.c[name] == place[name] for name in ("platform", "bot", "chat", "question"))


def _is(verdict: str) -> Any:
    return case((feedback.c.verdict == verdict, 1), else_=0)


def _day(day: date, said: Sequence[Any]) -> Day:
    reasons: dict[str, int] = {}
    for row in said:
        if row.reason:
            reasons[row.reason] = reasons.get(row.reason, 0) + 1
    return Day(day, sum(row.verdict == UP for row in said), sum(row.verdict == DOWN for row in said), reasons)


def _aware(moment: datetime) -> datetime:
    # SQLite gives times back without their zone.
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
