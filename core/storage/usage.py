"""The usage of every answer by agent and day, and the outcomes of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, String, Table, and_, case, cast, func, insert, select, update

from core.runtime.tasks import uncancellable
from core.storage.chat_history import is_user_message
from core.storage.engine import Repository
from core.storage.tables import DRAFTED, answers, chat_values, identity_values, messages, spending
from core.types import ASK_COMMANDS, Message, Question

# The last two are no answers: a model was asked whether to speak, or whether it is there (`kimas check --live`).
AnswerOutcome = Literal["answered", "failed", "cached", "second_opinion", "probe"]
# A model was asked whether to speak, or whether it is reachable.
NO_ANSWERS: tuple[AnswerOutcome, ...] = ("second_opinion", "probe")
TERMINAL_PLATFORM = "terminal"
# The number of recent answers that estimate the usage of one.
AVERAGED_ANSWERS = 50
MAX_NAME_CHARS = 128
# Their traces are read for the hits of sources.
MAX_HIT_ANSWERS = 500
ChatFilter = tuple[str, str] | None
PENDING_STATES = ("received", "answering", "sending", DRAFTED)
# So much of a time's text, YYYY-MM-DD HH:M, is ten minutes: fine enough to find the local day of every time zone.
TEN_MINUTE_CHARS = 15
_COUNTED_COLUMNS = ("estimated", "head_starts", "head_starts_kept")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The usage of language models: prompt and completion tokens, and their cost in the currency of the prices.

    `estimated_tokens` of both together are estimates, for calls that were cancelled or broke off.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    estimated_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class HeadStartCount:
    """How many head starts were begun, and how many of them were kept."""

    started_count: int = 0
    used_count: int = 0


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """The usage of a day so far: of all users, of one chat, and of one person."""

    overall: TokenUsage
    chat: TokenUsage
    user: TokenUsage


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """One day (YYYY-MM-DD, local) of all answers; `cached` and `failed` are among `answers`.

    `second_opinions` and `probes` are no answers: a model was asked whether to speak, or whether it is there. `usage`
    counts what that took.
    """

    day: str
    answers: int
    cached: int
    failed: int
    usage: TokenUsage
    head_starts: HeadStartCount = HeadStartCount()
    second_opinions: int = 0
    probes: int = 0


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """The usage of one agent, and its number of answers."""

    agent: str
    answers: int
    usage: TokenUsage


@dataclass(frozen=True, slots=True)
class UsageShare:
    """The usage of the answers that share some columns: their values, the number of answers, and the usage."""

    values: tuple[str, ...]
    answers: int
    usage: TokenUsage


class UsageRepository(Repository):
    """The usage of answers. Every method raises `StoreError` when the database fails."""

    @uncancellable
    async def record(
        self,
        question: Question,
        outcome: AnswerOutcome,
        agent_usage: Mapping[str, TokenUsage],
        day: date,
        head_starts: HeadStartCount | None = None,
        *,
        models: Mapping[str, str] | None = None,
    ) -> None:
        """Record one answer: the usage of each agent and its model, the local day, and its head starts."""
        values = {
            **_chat_values(question),
            "author_id": question.author_id,
            "question_id": question.id,
            "outcome": outcome,
            **_usage_values(day, add_up(agent_usage.values())),
            "head_starts": head_starts.started_count if head_starts else 0,
            "head_starts_kept": head_starts.used_count if head_starts else 0,
        }
        async with self._database.transaction() as connection:
            # The values go beside the statement: SQLAlchemy takes twice as long with one that holds them.
            answer_number = await connection.scalar(insert(answers).returning(answers.c.number), values)
            rows = [
                {
                    "answer": answer_number,
                    "agent": agent,
                    **_usage_values(day, usage),
                    "model": (models or {}).get(agent, "")[:MAX_NAME_CHARS],
                }
                for agent, usage in agent_usage.items()
            ]
            if rows:
                await connection.execute(insert(spending), rows)

    async def get_totals(self, day: date, question: Question) -> UsageTotals:
        """Return the usage of a local day: in total, of the question's chat, and of its author."""
        today = select(*_sum_columns()).filter_by(day=day.isoformat())
        chat = _chat_values(question)
        user = {"platform": chat["platform"], "author_id": question.author_id}
        async with self._database.connect() as connection:
            # One query each, because each has its own index.
            queries = (today, today.filter_by(**chat), today.filter_by(**user))
            rows = [(await connection.execute(query)).one() for query in queries]
        return UsageTotals(*(TokenUsage(*row) for row in rows))

    async def get_in_progress_elsewhere(self) -> Sequence[tuple[str, str, str]]:
        """Return the platform, chat and author of each answer that another daemon is making now."""
        if not self._database.owner:
            return []
        columns = messages.c
        query = select(columns.platform, columns.chat, columns.author_id)
        query = query.where(
            columns.state.in_(("answering", "sending")), columns.owner.not_in(("", self._database.owner))
        )
        return [(row.platform, row.chat, row.author_id) for row in await self._database.fetch_all(query)]

    async def get_average(self) -> TokenUsage | None:
        """Return the average usage of the last answers, or None if there is none yet."""
        columns = answers.c
        recent = (
            select(columns.prompt, columns.completion, columns.cost)
            .where(columns.outcome == "answered", columns.prompt + columns.completion > 0)
            .order_by(columns.number.desc())
            .limit(AVERAGED_ANSWERS)
            .subquery()
        )
        averages = [func.avg(recent.c[name]) for name in ("prompt", "completion", "cost")]
        row = await self._database.fetch_first(select(*averages))
        return TokenUsage(round(row[0]), round(row[1]), float(row[2])) if row and row[0] is not None else None

    async def get_daily_usage(self, since: date) -> Sequence[DailyUsage]:
        """Return the days since `since` that had answers, newest first."""
        columns = answers.c
        outcome_counts = [
            func.sum(case((columns.outcome == name, 1), else_=0)) for name in ("cached", "failed", *NO_ANSWERS)
        ]
        query = (
            select(columns.day, func.count(), *outcome_counts, *_sum_columns(*_COUNTED_COLUMNS))
            .where(columns.day >= since.isoformat())
            .group_by(columns.day)
            .order_by(columns.day.desc())
        )
        return [
            DailyUsage(
                day,
                count - opinions - probes,
                cached,
                failed,
                TokenUsage(*usage[:4]),
                HeadStartCount(*usage[4:]),
                opinions,
                probes,
            )
            for day, count, cached, failed, opinions, probes, *usage in await self._database.fetch_all(query)
        ]

    async def get_agent_usage(self, since: date) -> Sequence[AgentUsage]:
        """Return the usage of each agent since `since`, the most tokens first."""
        columns = spending.c
        prompt, completion, cost = (func.sum(columns[name]) for name in ("prompt", "completion", "cost"))
        query = (
            select(columns.agent, func.count(), prompt, completion, cost, func.sum(columns.estimated))
            .where(columns.day >= since.isoformat())
            .group_by(columns.agent)
            .order_by((prompt + completion).desc(), columns.agent)
        )
        rows = await self._database.fetch_all(query)
        return [AgentUsage(agent, answer_count, TokenUsage(*usage)) for agent, answer_count, *usage in rows]

    async def get_usage_by_chat(self, since: date) -> Sequence[UsageShare]:
        """Return the usage since `since` by day, platform, chat and outcome, oldest day first."""
        columns = answers.c
        return await self._group(since, columns.day, columns.platform, columns.chat, columns.outcome)

    async def get_usage_by_model(self, since: date) -> Sequence[UsageShare]:
        """Return the usage since `since` by day, agent and model, which is "" where it is not known."""
        # By day as well: rows that come in the order of the index are added up several times as fast.
        return await self._group(since, spending.c.day, spending.c.agent, spending.c.model)

    async def _group(self, since: date, *keys: Column[str]) -> Sequence[UsageShare]:
        columns = keys[0].table.c
        sums = [func.sum(columns[name]) for name in ("prompt", "completion", "cost")]
        query = select(*keys, func.count(), *sums).where(columns.day >= since.isoformat()).group_by(*keys)
        rows = await self._database.fetch_all(query.order_by(*keys))
        return [UsageShare(tuple(row[: len(keys)]), row[len(keys)], TokenUsage(*row[len(keys) + 1 :])) for row in rows]

    async def anonymize(self, today: date, keep_days: float) -> int:
        """Remove people and chats from the usage of answers older than `keep_days`; the sums stay. Return how many."""
        columns = answers.c
        cutoff = (today - timedelta(days=keep_days)).isoformat()
        blank_values: dict[str, Any] = dict.fromkeys(("chat", "author_id", "question_id"), "")
        is_identified = (columns.chat != "") | (columns.author_id != "") | (columns.question_id != "")
        return await self._database.write(
            update(answers).where(columns.day < cutoff, is_identified).values(blank_values)
        )


@dataclass(slots=True)
class DailyStatistics:
    """One local day: messages that are no commands by outcome, and the usage of all answers."""

    states: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceHits:
    """In how many answers a source was among the passages, and in how many it was cited."""

    shown: int
    cited: int


class StatisticsRepository(Repository):
    """Counts over messages and usage, of all chats or of one. Every method raises `StoreError`."""

    async def get_daily_statistics(self, since: date, chat: ChatFilter = None) -> Mapping[date, DailyStatistics]:
        """Return the days since `since` that had messages, newest first."""
        statistics: dict[date, DailyStatistics] = {}
        columns = messages.c
        start = datetime.combine(since, time()).astimezone(UTC)
        slot = func.substr(cast(columns.received_at, String), 1, TEN_MINUTE_CHARS)
        message_query = select(slot, columns.state, func.count())
        message_query = message_query.where(
            columns.received_at >= start,
            is_user_message(),
            columns.command.in_(ASK_COMMANDS),
            *_chat_conditions(messages, chat),
        )
        answer_columns = answers.c
        sums = (func.sum(answer_columns.prompt + answer_columns.completion), func.sum(answer_columns.cost))
        usage_query = (
            select(answer_columns.day, *sums)
            .where(answer_columns.day >= since.isoformat(), *_chat_conditions(answers, chat))
            .group_by(answer_columns.day)
        )
        async with self._database.connect() as connection:
            slot_rows = (await connection.execute(message_query.group_by(slot, columns.state))).all()
            usage_rows = (await connection.execute(usage_query)).all()
        for slot_start, state, count in slot_rows:
            moment = datetime.strptime(f"{slot_start.replace('T', ' ')}0+0000", "%Y-%m-%d %H:%M%z")
            statistics.setdefault(moment.astimezone().date(), DailyStatistics()).states[state] += count
        for day, tokens, cost in usage_rows:
            day_statistics = statistics.setdefault(date.fromisoformat(day), DailyStatistics())
            day_statistics.tokens = int(tokens)
            day_statistics.cost = float(cost)
        return dict(sorted(statistics.items(), reverse=True))

    async def count_source_hits(self, since: date, chat: ChatFilter = None) -> Mapping[str, SourceHits]:
        """Return how often each source was shown to an answer and cited, in the newest answers since `since`."""
        columns = messages.c
        start = datetime.combine(since, time()).astimezone(UTC)
        query = select(columns.trace, columns.citations).where(
            columns.received_at >= start, columns.state == "answered", *_chat_conditions(messages, chat)
        )
        rows = await self._database.fetch_all(query.order_by(columns.number.desc()).limit(MAX_HIT_ANSWERS))
        shown: Counter[str] = Counter()
        cited: Counter[str] = Counter()
        for trace, citations in rows:
            shown.update({passage["source"] for passage in (trace or {}).get("passages") or ()})
            cited.update({citation["source"] for citation in citations or ()})
        return {source: SourceHits(count, cited[source]) for source, count in sorted(shown.items())}

    async def count_pending(self, chat: ChatFilter = None, *, besides: Message | None = None) -> int:
        """Return how many messages wait for an answer or a decision, besides one: the command that asks."""
        query = select(func.count()).select_from(messages)
        query = query.where(messages.c.state.in_(PENDING_STATES), *_chat_conditions(messages, chat))
        if besides:
            query = query.where(~and_(*(messages.c[name] == value for name, value in identity_values(besides).items())))
        return int(await self._database.fetch_value(query))

    async def get_last_received(self, platforms: Sequence[str]) -> Mapping[str, datetime]:
        """Return the time of the last message of each platform."""
        last_received: dict[str, datetime] = {}
        for platform in platforms:
            # The newest row, and not the latest time: that would read them all.
            query = select(messages.c.received_at).filter_by(platform=platform).order_by(messages.c.number.desc())
            if (moment := await self._database.fetch_value(query.limit(1))) is not None:
                last_received[platform] = moment
        return last_received


def group_by_agent(token_counts: Mapping[str, int], costs: Mapping[str, float]) -> dict[str, TokenUsage]:
    """Return the usage by agent, from the `tokens` and `cost` of a budget or a trace."""
    agents = dict.fromkeys([*(name.rpartition(".")[0] for name in token_counts), *costs])
    return {
        agent: TokenUsage(
            token_counts.get(f"{agent}.prompt", 0),
            token_counts.get(f"{agent}.completion", 0),
            float(costs.get(agent, 0.0)),
            token_counts.get(f"{agent}.estimated", 0),
        )
        for agent in agents
    }


def total_usage(token_counts: Mapping[str, int], costs: Mapping[str, float]) -> TokenUsage:
    """Return the total usage of all agents, from the `tokens` and `cost` of a budget or a trace."""
    return add_up(group_by_agent(token_counts, costs).values())


def add_up(usages: Collection[TokenUsage]) -> TokenUsage:
    """Return the sum of several usages."""
    return TokenUsage(
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.completion_tokens for usage in usages),
        sum(usage.cost for usage in usages),
        sum(usage.estimated_tokens for usage in usages),
    )


def _usage_values(day: date, usage: TokenUsage) -> dict[str, Any]:
    return {
        "day": day.isoformat(),
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "cost": usage.cost,
        "estimated": usage.estimated_tokens,
    }


def _chat_values(question: Question) -> dict[str, str]:
    return chat_values(question.key) if question.key else {"platform": TERMINAL_PLATFORM, "chat": ""}


def first_day(count: int, today: date) -> date:
    """Return the first of this many days that end today."""
    return today - timedelta(days=count - 1)


def _sum_columns(*more_names: str) -> list[ColumnElement[Any]]:
    return [func.coalesce(func.sum(answers.c[name]), 0) for name in ("prompt", "completion", "cost", *more_names)]


def _chat_conditions(table: Table, chat: ChatFilter) -> list[ColumnElement[bool]]:
    return [] if chat is None else [table.c.platform == chat[0], table.c.chat == chat[1]]
