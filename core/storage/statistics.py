"""Counts over the journal and the ledger, of all chats or of one. Every function raises `StoreError`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import ColumnElement, String, Table, cast, func, select

from core.storage.chat_history import written
from core.storage.engine import Database
from core.storage.tables import answers, messages

Chat = tuple[str, str] | None
PENDING = ("received", "answering", "sending")
# So much of a time's text, YYYY-MM-DD HH:M, is ten minutes: fine enough to find the local day of every time zone.
TEN_MINUTES = 15


@dataclass(slots=True)
class Day:
    """One local day: messages by what became of them, and what their answers consumed."""

    states: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    cost: float = 0.0


async def days(database: Database, since: date, chat: Chat = None) -> Mapping[date, Day]:
    """Return the days from `since` on that had messages, newest first."""
    found: dict[date, Day] = {}
    columns, start = messages.c, datetime.combine(since, time()).astimezone(UTC)
    slot = func.substr(cast(columns.received_at, String), 1, TEN_MINUTES)
    said = select(slot, columns.state, func.count())
    said = said.where(columns.received_at >= start, written(), *_place(messages, chat))
    used = answers.c
    sums = (func.sum(used.prompt + used.completion), func.sum(used.cost))
    spent = select(used.day, *sums).where(used.day >= since.isoformat(), *_place(answers, chat)).group_by(used.day)
    async with database.reading() as connection:
        slots = (await connection.execute(said.group_by(slot, columns.state))).all()
        consumed = (await connection.execute(spent)).all()
    for at, state, count in slots:
        moment = datetime.strptime(f"{at.replace('T', ' ')}0+0000", "%Y-%m-%d %H:%M%z")
        found.setdefault(moment.astimezone().date(), Day()).states[state] += count
    for day, tokens, cost in consumed:
        one = found.setdefault(date.fromisoformat(day), Day())
        one.tokens, one.cost = int(tokens), float(cost)
    return dict(sorted(found.items(), reverse=True))


async def pending(database: Database, chat: Chat = None) -> int:
    """Return how many messages wait for their answer or for a decision."""
    query = select(func.count()).select_from(messages)
    query = query.where(messages.c.state.in_(PENDING), *_place(messages, chat))
    async with database.reading() as connection:
        return int(await connection.scalar(query) or 0)


async def last_heard(database: Database, platforms: Sequence[str]) -> Mapping[str, datetime]:
    """Return when the last message of each platform came."""
    found: dict[str, datetime] = {}
    async with database.reading() as connection:
        for platform in platforms:
            # The newest row, and not the latest time: that would read them all.
            columns = messages.c
            query = select(columns.received_at).where(columns.platform == platform)
            moment = await connection.scalar(query.order_by(columns.number.desc()).limit(1))
            if moment is not None:
                found[platform] = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return found


def first_of(count: int, today: date) -> date:
    """Return the first of so many days, today among them."""
    return today - timedelta(days=count - 1)


def _place(table: Table, chat: Chat) -> list[ColumnElement[bool]]:
    return [] if chat is None else [table.c.platform == chat[0], table.c.chat == chat[1]]
