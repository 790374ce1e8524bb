"""How busy the bot was: what the alerts read of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, case, func, select

from core.storage.chat_history import is_user_message
from core.storage.engine import Repository
from core.storage.tables import messages


@dataclass(frozen=True, slots=True)
class GroupActivity:
    """Messages that people wrote in groups without addressing the bot, and how many of them it answered."""

    messages: int
    answers: int


class ActivityRepository(Repository):
    """Counts messages. Every method raises `StoreError` when the database fails."""

    async def count_unprompted(self, since: datetime, until: datetime) -> GroupActivity:
        """Return the activity between two moments."""
        columns = messages.c
        is_in_group = and_(~columns.private, ~columns.addressed, ~columns.is_by_bot, is_user_message())
        answers = func.sum(case((columns.state == "answered", 1), else_=0))
        query = select(func.count().label("messages"), answers.label("answers")).where(
            columns.received_at >= since, columns.received_at < until, is_in_group
        )
        row = await self._database.fetch_first(query)
        return GroupActivity(0, 0) if row is None else GroupActivity(row.messages, int(row.answers or 0))
