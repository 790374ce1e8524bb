"""The ledger: what every answer consumed, by agent and day, in the journal's database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, case, func, insert, select, update

from core.runtime.tasks import unbroken
from core.storage.engine import Database
from core.storage.tables import answers, spending
from core.types import Question

Outcome = Literal["answered", "failed", "cached"]
TERMINAL = "terminal"
# So many of the last answers say what one usually consumes.
USUAL_ANSWERS = 50


@dataclass(frozen=True, slots=True)
class Consumed:
    """What language models consumed: tokens read and written, and their cost in the currency of the models' prices."""

    prompt: int = 0
    completion: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True)
class Spent:
    """What one day's answers consumed so far: everybody's, those in one chat, and those to one person."""

    everybody: Consumed
    chat: Consumed
    user: Consumed


@dataclass(frozen=True, slots=True)
class DayUsage:
    """One day (YYYY-MM-DD, local) of all answers; `cached` and `failed` are among `answers`."""

    day: str
    answers: int
    cached: int
    failed: int
    consumed: Consumed


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """What one agent consumed, and for how many answers."""

    agent: str
    answers: int
    consumed: Consumed


class Ledger:
    """What answers consumed. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @unbroken
    async def record(self, question: Question, outcome: Outcome, agents: Mapping[str, Consumed], day: date) -> None:
        """Note one answer: what each agent consumed for it, on which local day."""
        values = {
            "day": day.isoformat(),
            "platform": question.key.platform if question.key else TERMINAL,
            "chat": question.key.chat if question.key else "",
            "author_id": question.author_id,
            "question_id": question.id,
            "outcome": outcome,
            "prompt": sum(one.prompt for one in agents.values()),
            "completion": sum(one.completion for one in agents.values()),
            "cost": sum(one.cost for one in agents.values()),
        }
        async with self._database.writing() as connection:
            number = await connection.scalar(insert(answers).values(values).returning(answers.c.number))
            rows = [
                {
                    "answer": number,
                    "agent": agent,
                    "day": day.isoformat(),
                    "prompt": one.prompt,
                    "completion": one.completion,
                    "cost": one.cost,
                }
                for agent, one in agents.items()
            ]
            if rows:
                await connection.execute(insert(spending), rows)

    async def spent(self, day: date, question: Question) -> Spent:
        """Return what was consumed on a local day, together, in the question's chat, and by whoever asks it."""
        columns, key = answers.c, question.key
        today = columns.day == day.isoformat()
        here = and_(today, columns.platform == (key.platform if key else TERMINAL))
        chat = and_(here, columns.chat == (key.chat if key else ""))
        user = and_(here, columns.author_id == question.author_id)
        async with self._database.reading() as connection:
            # One query each: every one has its index.
            rows = [(await connection.execute(select(*_sums()).where(one))).one() for one in (today, chat, user)]
        return Spent(*(Consumed(*row) for row in rows))

    async def usual(self) -> Consumed | None:
        """Return what one of the last answers consumed on average, or None when there is none yet."""
        columns = answers.c
        last = (
            select(columns.prompt, columns.completion, columns.cost)
            .where(columns.outcome == "answered", columns.prompt + columns.completion > 0)
            .order_by(columns.number.desc())
            .limit(USUAL_ANSWERS)
            .subquery()
        )
        averages = [func.avg(last.c[name]) for name in ("prompt", "completion", "cost")]
        async with self._database.reading() as connection:
            prompt, completion, cost = (await connection.execute(select(*averages))).one()
        return None if prompt is None else Consumed(round(prompt), round(completion), float(cost))

    async def by_day(self, since: date) -> Sequence[DayUsage]:
        """Return the days from `since` on that had answers, the newest first."""
        columns = answers.c
        counted = [func.sum(case((columns.outcome == name, 1), else_=0)) for name in ("cached", "failed")]
        query = (
            select(columns.day, func.count(), *counted, *_sums())
            .where(columns.day >= since.isoformat())
            .group_by(columns.day)
            .order_by(columns.day.desc())
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [DayUsage(row[0], row[1], row[2], row[3], Consumed(*row[4:7])) for row in rows]

    async def by_agent(self, since: date) -> Sequence[AgentUsage]:
        """Return what each agent consumed from `since` on, the most tokens first."""
        columns = spending.c
        prompt, completion, cost = (func.sum(columns[name]) for name in ("prompt", "completion", "cost"))
        query = (
            select(columns.agent, func.count(), prompt, completion, cost)
            .where(columns.day >= since.isoformat())
            .group_by(columns.agent)
            .order_by((prompt + completion).desc(), columns.agent)
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [AgentUsage(row[0], row[1], Consumed(*row[2:5])) for row in rows]

    @unbroken
    async def forget(self, today: date, keep_days: float) -> int:
        """Remove who asked where and what from answers older than `keep_days`; the sums stay. Returns how many."""
        columns = answers.c
        oldest = (today - timedelta(days=keep_days)).isoformat()
        nobody: dict[str, Any] = dict.fromkeys(("chat", "author_id", "question_id"), "")
        known = (columns.chat != "") | (columns.author_id != "") | (columns.question_id != "")
        async with self._database.writing() as connection:
            done = await connection.execute(update(answers).where(columns.day < oldest, known).values(nobody))
        return done.rowcount


def by_agent(tokens: Mapping[str, int], cost: Mapping[str, float]) -> dict[str, Consumed]:
    """Return what was consumed by agent, from a budget's or a trace's `tokens` and `cost`."""
    agents = dict.fromkeys([*(name.rpartition(".")[0] for name in tokens), *cost])
    return {
        agent: Consumed(
            tokens.get(f"{agent}.prompt", 0), tokens.get(f"{agent}.completion", 0), float(cost.get(agent, 0.0))
        )
        for agent in agents
    }


def together(tokens: Mapping[str, int], cost: Mapping[str, float]) -> Consumed:
    """Return what all agents consumed together, from a budget's or a trace's `tokens` and `cost`."""
    agents = by_agent(tokens, cost).values()
    return Consumed(
        sum(one.prompt for one in agents), sum(one.completion for one in agents), sum(one.cost for one in agents)
    )


def _sums() -> list[ColumnElement[Any]]:
    return [func.coalesce(func.sum(answers.c[name]), 0) for name in ("prompt", "completion", "cost")]
