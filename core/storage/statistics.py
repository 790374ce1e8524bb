"""Counts over the journal and the ledger, of all chats or of one. Every function raises `StoreError`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import ColumnElement, String, Table, cast, func, select

from core.storage.chat_history import is_user_message
from core.storage.engine import Database
from core.storage.tables import answers, messages

ChatFilter = tuple[str, str] | None
PENDING_STATES = ("received", "answering", "sending")
# So much of a time's text, YYYY-MM-DD HH:M, is ten minutes: fine enough to find the local day of every time zone.
TEN_MINUTE_CHARS = 15


@dataclass(slots=True)
class DailyStatistics:
    """One local day: messages by what became of them, and what their answers consumed."""

    states: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    cost: float = 0.0


async def get_daily_statistics(
    database: Database, since: date, chat: ChatFilter = None
) -> Mapping[date, DailyStatistics]:
    """Return the days from `since` on that had messages, newest first."""
    statistics: dict[date, DailyStatistics] = {}
    columns, start = messages.c, datetime.combine(since, time()).astimezone(UTC)
    slot = func.substr(cast(columns.received_at, String), 1, TEN_MINUTE_CHARS)
    message_query = select(slot, columns.state, func.count())
    message_query = message_query.where(
        columns.received_at >= start, is_user_message(), *_chat_conditions(messages, chat)
    )
    answer_columns = answers.c
    sums = (func.sum(answer_columns.prompt + answer_columns.completion), func.sum(answer_columns.cost))
    usage_query = (
        select(answer_columns.day, *sums)
        .where(answer_columns.day >= since.isoformat(), *_chat_conditions(answers, chat))
        .group_by(answer_columns.day)
    )
    async with database.connect() as connection:
        slot_rows = (await connection.execute(message_query.group_by(slot, columns.state))).all()
        usage_rows = (await connection.execute(usage_query)).all()
    for slot_start, state, count in slot_rows:
        moment = datetime.strptime(f"{slot_start.replace('T', ' ')}0+0000", "%Y-%m-%d %H:%M%z")
        statistics.setdefault(moment.astimezone().date(), DailyStatistics()).states[state] += count
    for day, tokens, cost in usage_rows:
        day_statistics = statistics.setdefault(date.fromisoformat(day), DailyStatistics())
        day_statistics.tokens, day_statistics.cost = int(tokens), float(cost)
    return dict(sorted(statistics.items(), reverse=True))


async def count_pending(database: Database, chat: ChatFilter = None) -> int:
    """Return how many messages wait for their answer or for a decision."""
    query = select(func.count()).select_from(messages)
    query = query.where(messages.c.state.in_(PENDING_STATES), *_chat_conditions(messages, chat))
    async with database.connect() as connection:
        return int(await connection.scalar(query) or 0)


async def get_last_received(database: Database, platforms: Sequence[str]) -> Mapping[str, datetime]:
    """Return when the last message of each platform came."""
    last_received: dict[str, datetime] = {}
    async with database.connect() as connection:
        for platform in platforms:
            # The newest row, and not the latest time: that would read them all.
            columns = messages.c
            query = select(columns.received_at).where(columns.platform == platform)
            moment = await connection.scalar(query.order_by(columns.number.desc()).limit(1))
            if moment is not None:
                last_received[platform] = moment
    return last_received


def first_day(count: int, today: date) -> date:
    """Return the first of so many days, today among them."""
    return today - timedelta(days=count - 1)


def _chat_conditions(table: Table, chat: ChatFilter) -> list[ColumnElement[bool]]:
    return [] if chat is None else [table.c.platform == chat[0], table.c.chat == chat[1]]
