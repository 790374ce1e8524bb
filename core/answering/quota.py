"""Daily limits: whether a question may be answered now, and the record of what its answer consumed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Literal

from core.errors import StoreError, UsageError
from core.observability.logs import get_logger
from core.runtime.budget import Budget
from core.settings import LimitsSettings
from core.text.catalogue import Messages, messages_for
from core.text.tokens import detect_language
from core.types import Question, Reply

if TYPE_CHECKING:
    from core.storage.overrides import LiveSettings
    from core.storage.usage import AnswerOutcome, HeadStartCount, TokenUsage, UsageRepository, UsageTotals

QuotaScope = Literal["everybody", "this_chat", "you"]


@dataclass(frozen=True, slots=True, eq=False)
class _Reservation:
    """An answer that is being made."""

    chat: tuple[str, str]
    user: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _QuotaUsage:
    """How much of one limit is used up: `used_amount` by finished answers; `in_progress` answers are being made."""

    limit_name: str
    scope: QuotaScope
    subject: tuple[str, str]
    quota: float
    used_amount: float
    in_progress: int
    average_amount: float

    @property
    def is_exhausted(self) -> bool:
        return self.used_amount + self.in_progress * self.average_amount >= self.quota


class QuotaLimiter:
    """The daily limits. `default_usage` is what an answer is expected to consume while no answer is on record."""

    def __init__(self, live: LiveSettings, usage_repository: UsageRepository, default_usage: TokenUsage) -> None:
        self._live = live
        self._usage_repository = usage_repository
        self._default_usage = default_usage
        self._in_progress: set[_Reservation] = set()
        # For each reservation that is reading the record just now: all that were in progress at any moment of it.
        self._open_reads: dict[_Reservation, set[_Reservation]] = {}
        self._logged_today: tuple[date, set[tuple[str, tuple[str, str]]]] = (date.min, set())

    @asynccontextmanager
    async def reserve(self, question: Question) -> AsyncIterator[None]:
        """Reserve an answer for the block. Raises `UsageError`, which says until when, when a limit is used up."""
        await self._live.load()
        if all(self._live.limit(limit_name) is None for limit_name in LimitsSettings.model_fields):
            yield
            return
        reservation = await self._create_reservation(question)
        try:
            yield
        finally:
            self._in_progress.discard(reservation)

    async def _create_reservation(self, question: Question) -> _Reservation:
        platform, chat = (question.key.platform, question.key.chat) if question.key else ("", "")
        reservation = _Reservation((platform, chat), (platform, question.author_id))
        now = datetime.now().astimezone()
        # An answer that finishes while the record is read may be written too late for it: this counts it.
        in_progress = self._open_reads[reservation] = set(self._in_progress)
        try:
            totals = await self._usage_repository.get_totals(now.date(), question)
            average = await self._usage_repository.get_average() or self._default_usage
        finally:
            del self._open_reads[reservation]
        for quota_usage in self._iter_quota_usage(reservation, in_progress, totals, average):
            if quota_usage.is_exhausted:
                self._log_exhausted(quota_usage, now.date())
                raise UsageError(_format_refusal(quota_usage, now, messages_for(detect_language(question.text))))
        self._in_progress.add(reservation)
        for reservations in self._open_reads.values():
            reservations.add(reservation)
        return reservation

    def _iter_quota_usage(
        self, reservation: _Reservation, in_progress: set[_Reservation], totals: UsageTotals, average: TokenUsage
    ) -> Iterator[_QuotaUsage]:
        chat_count = sum(other.chat == reservation.chat for other in in_progress)
        user_count = sum(other.user == reservation.user for other in in_progress)
        groups: list[tuple[str, QuotaScope, tuple[str, str], int | None, TokenUsage]] = [
            ("", "everybody", ("", ""), len(in_progress), totals.overall),
            ("_per_chat", "this_chat", reservation.chat, chat_count if reservation.chat[1] else None, totals.chat),
            ("_per_user", "you", reservation.user, user_count if reservation.user[1] else None, totals.user),
        ]
        for suffix, scope, subject, count, usage in groups:
            # In the terminal there is neither a chat nor a user.
            if count is None:
                continue
            for kind, amount, average_amount in (
                ("tokens", usage.total_tokens, average.total_tokens),
                ("cost", usage.cost, average.cost),
            ):
                quota = self._live.limit(f"daily_{kind}{suffix}")
                if quota is not None:
                    yield _QuotaUsage(f"daily_{kind}{suffix}", scope, subject, quota, amount, count, average_amount)

    def _log_exhausted(self, quota_usage: _QuotaUsage, today: date) -> None:
        """Log a limit that is used up, once a day: every further question would repeat it."""
        if self._logged_today[0] != today:
            self._logged_today = (today, set())
        if (quota_usage.limit_name, quota_usage.subject) in self._logged_today[1]:
            return
        self._logged_today[1].add((quota_usage.limit_name, quota_usage.subject))
        get_logger(__name__).warning(
            "limit.reached",
            limit=quota_usage.limit_name,
            subject=":".join(quota_usage.subject).strip(":"),
            allowed=quota_usage.quota,
            used=quota_usage.used_amount,
            underway=quota_usage.in_progress,
        )


def _format_refusal(quota_usage: _QuotaUsage, now: datetime, messages: Messages) -> str:
    is_token_limit = "tokens" in quota_usage.limit_name
    amount = f"{quota_usage.quota:,.0f}" if is_token_limit else f"{quota_usage.quota:,g}"
    quota_text = messages.tokens.format(amount=amount) if is_token_limit else amount
    scope_text = getattr(messages, quota_usage.scope)
    if quota_usage.used_amount < quota_usage.quota:
        return messages.quota_reserved.format(whose=scope_text, allowed=quota_text)
    midnight = datetime.combine(now.date() + timedelta(days=1), time()).astimezone()
    hours, minutes = divmod(max(1, round((midnight - now).total_seconds() / 60)), 60)
    wait = (messages.hours if hours else messages.minutes).format(hours=hours, minutes=minutes)
    return messages.quota_exceeded.format(
        whose=scope_text, allowed=quota_text, midnight=f"{midnight:%Y-%m-%d %H:%M %Z}", wait=wait
    )


async def answer_with_quota(
    question: Question,
    answer: Callable[[], Awaitable[Reply]],
    budget: Budget,
    *,
    quota_limiter: QuotaLimiter,
    usage_repository: UsageRepository,
) -> Reply:
    """Make an answer when the limits allow it, and record what it consumed by its budget, also when it fails.

    Raises `UsageError` when a limit is used up, and what `answer` raises.
    """
    from core.storage.usage import HeadStartCount, group_by_agent

    async with quota_limiter.reserve(question):
        outcome: AnswerOutcome = "failed"
        try:
            reply = await answer()
            outcome = "answered"
        finally:
            agent_usage = group_by_agent(budget.tokens, budget.cost)
            if agent_usage or outcome == "answered":
                head_starts = HeadStartCount(len(budget.head_starts), sum(budget.head_starts))
                await record_usage(usage_repository, question, outcome, agent_usage, head_starts)
    return reply


async def record_usage(
    usage_repository: UsageRepository,
    question: Question,
    outcome: AnswerOutcome,
    agent_usage: Mapping[str, TokenUsage],
    head_starts: HeadStartCount | None = None,
) -> None:
    """Record the usage of one answer. The asker has the answer already, so a failure is only logged."""
    try:
        today = datetime.now().astimezone().date()
        await usage_repository.record(question, outcome, agent_usage, today, head_starts)
    except StoreError as error:
        get_logger(__name__).error("usage.not_recorded", error=str(error))
