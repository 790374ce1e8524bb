"""Daily limits: whether a question may be answered now, and the record of what its answer consumed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Literal

from core.catalogue import Messages, messages_for
from core.errors import QuotaExceeded, StoreError
from core.language.languages import get_asker_language
from core.llm.usage import TOKENS_PER_PRICE_UNIT
from core.observability.logs import get_logger
from core.runtime.budget import Budget
from core.settings import ModelSettings, Settings
from core.settings.limits import DAILY_LIMITS
from core.types import Question, Reply

if TYPE_CHECKING:
    from core.storage.overrides import LiveSettings
    from core.storage.usage import AnswerOutcome, HeadStartCount, TokenUsage, UsageRepository, UsageTotals

_log = get_logger(__name__)

QuotaScope = Literal["everybody", "this_chat", "you"]


@dataclass(frozen=True, slots=True, eq=False)
class _Reservation:
    """An answer that is being made. It counts as `weight` usual ones, or as what its budget says when that is more."""

    chat: tuple[str, str]
    user: tuple[str, str]
    budget: Budget | None
    weight: float

    def estimate_usage(self, average: TokenUsage) -> tuple[float, float]:
        """Return the tokens and the cost that this answer counts for."""
        from core.storage.usage import TokenUsage, total_usage

        used_up = total_usage(self.budget.tokens, self.budget.cost) if self.budget else TokenUsage()
        return (
            max(self.weight * average.total_tokens, used_up.total_tokens),
            max(self.weight * average.cost, used_up.cost),
        )


@dataclass(frozen=True, slots=True)
class _QuotaUsage:
    """How much of one limit is used up: by finished answers, and presumably by the `in_progress` ones."""

    limit_name: str
    scope: QuotaScope
    subject: tuple[str, str]
    quota: float
    used_amount: float
    in_progress: int
    reserved_amount: float

    @property
    def is_exhausted(self) -> bool:
        return self.used_amount + self.reserved_amount >= self.quota


class _DailySet:
    """The values that were added today."""

    def __init__(self) -> None:
        self._day = date.min
        self._values: set[tuple[object, ...]] = set()

    def add(self, day: date, *value: object) -> bool:
        """Add a value; return whether it is new on this day."""
        if day != self._day:
            self._day = day
            self._values = set()
        is_new = value not in self._values
        self._values.add(value)
        return is_new


class QuotaLimiter:
    """The daily limits. `default_usage` is what an answer is expected to consume while no answer is on record."""

    def __init__(self, live: LiveSettings, usage_repository: UsageRepository, default_usage: TokenUsage) -> None:
        self._live = live
        self._usage_repository = usage_repository
        self._default_usage = default_usage
        self._in_progress: set[_Reservation] = set()
        # For each reservation that is reading the record just now: all that were in progress at any moment of it.
        self._open_reads: dict[_Reservation, set[_Reservation]] = {}
        self._logged_limits = _DailySet()
        self._reported_refusals = _DailySet()

    @asynccontextmanager
    async def reserve(
        self, question: Question, budget: Budget | None = None, weight: float = 1.0
    ) -> AsyncIterator[None]:
        """Reserve an answer for the block. Raises `QuotaExceeded`, which says until when, when a limit is used up.

        While the answer is made, it counts as `weight` usual ones, or as what `budget` says when that is more.
        """
        await self._live.load()
        if all(self._live.limit(limit_name) is None for limit_name in DAILY_LIMITS):
            yield
            return
        platform, chat = (question.key.platform, question.key.chat) if question.key else ("", "")
        reservation = _Reservation((platform, chat), (platform, question.author_id), budget, weight)
        await self._admit(reservation, question)
        try:
            yield
        finally:
            self._in_progress.discard(reservation)

    async def _admit(self, reservation: _Reservation, question: Question) -> None:
        now = datetime.now().astimezone()
        # An answer that finishes while the record is read may be written too late for it: this counts it.
        in_progress = self._open_reads[reservation] = set(self._in_progress)
        try:
            totals = await self._usage_repository.get_totals(now.date(), question)
            average = await self._usage_repository.get_average() or self._default_usage
            answers_elsewhere = await self._usage_repository.get_in_progress_elsewhere()
        finally:
            del self._open_reads[reservation]
        in_progress |= {
            _Reservation((platform, chat), (platform, user), None, 1.0) for platform, chat, user in answers_elsewhere
        }
        for quota_usage in self._iter_quota_usage(reservation, in_progress, totals, average):
            if quota_usage.is_exhausted:
                raise self._refuse(quota_usage, reservation, question, now)
        self._in_progress.add(reservation)
        for reservations in self._open_reads.values():
            reservations.add(reservation)

    def _iter_quota_usage(
        self, reservation: _Reservation, in_progress: set[_Reservation], totals: UsageTotals, average: TokenUsage
    ) -> Iterator[_QuotaUsage]:
        chat = reservation.chat
        user = reservation.user
        groups: list[tuple[str, QuotaScope, tuple[str, str], list[_Reservation], TokenUsage]] = [
            ("", "everybody", ("", ""), list(in_progress), totals.overall),
            ("_per_chat", "this_chat", chat, [other for other in in_progress if other.chat == chat], totals.chat),
            ("_per_user", "you", user, [other for other in in_progress if other.user == user], totals.user),
        ]
        for suffix, scope, subject, reservations, usage in groups:
            # In the terminal there is neither a chat nor a user.
            if suffix and not subject[1]:
                continue
            estimates = [other.estimate_usage(average) for other in reservations]
            for index, (kind, amount) in enumerate((("tokens", usage.total_tokens), ("cost", usage.cost))):
                limit_name = f"daily_{kind}{suffix}"
                quota = self._live.limit(limit_name)
                if quota is not None:
                    reserved_amount = sum(estimate[index] for estimate in estimates)
                    yield _QuotaUsage(limit_name, scope, subject, quota, amount, len(reservations), reserved_amount)

    def _refuse(
        self, quota_usage: _QuotaUsage, reservation: _Reservation, question: Question, now: datetime
    ) -> QuotaExceeded:
        """Return the refusal, and log the limit once a day: every further question would repeat it."""
        if self._logged_limits.add(now.date(), quota_usage.limit_name, quota_usage.subject):
            _log.warning(
                "limit.reached",
                limit=quota_usage.limit_name,
                subject=":".join(quota_usage.subject).strip(":"),
                allowed=quota_usage.quota,
                used=quota_usage.used_amount,
                underway=quota_usage.in_progress,
            )
        # Reserved usage may be free again in a moment: so the asker gets the text again after a minute.
        minute = "" if quota_usage.used_amount >= quota_usage.quota else f"{now:%H:%M}"
        is_new = self._reported_refusals.add(
            now.date(), quota_usage.limit_name, reservation.chat, reservation.user, minute
        )
        text = _format_refusal(quota_usage, now, messages_for(get_asker_language(question)))
        return QuotaExceeded(text, is_repeated=bool(reservation.user[1]) and not is_new)


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


def max_usage_per_call(settings: Settings) -> TokenUsage:
    """Estimate the most that one call for an answer consumes."""
    from core.storage.usage import TokenUsage

    model_settings = settings.models.main or settings.models.light or ModelSettings(base_url="-", model="-")
    prompt_tokens = model_settings.context_tokens
    completion_tokens = model_settings.max_tokens
    cost = (
        prompt_tokens * (model_settings.price_prompt or 0) + completion_tokens * (model_settings.price_completion or 0)
    ) / TOKENS_PER_PRICE_UNIT
    return TokenUsage(prompt_tokens, completion_tokens, cost)


async def answer_with_quota(
    question: Question,
    answer: Callable[[], Awaitable[Reply]],
    budget: Budget,
    *,
    quota_limiter: QuotaLimiter,
    usage_repository: UsageRepository,
    effort: float = 1.0,
) -> Reply:
    """Make an answer when the limits allow it, and record what it consumed by its budget, also when it fails.

    An answer with more `effort` counts that many times while it is made. Raises `QuotaExceeded` when a limit is used
    up, and what `answer` raises.
    """
    from core.storage.usage import HeadStartCount, group_by_agent

    async with quota_limiter.reserve(question, budget, effort):
        outcome: AnswerOutcome = "failed"
        try:
            reply = await answer()
            outcome = "answered"
        finally:
            agent_usage = group_by_agent(budget.tokens, budget.cost)
            if agent_usage or outcome == "answered":
                head_starts = HeadStartCount(len(budget.head_starts), sum(budget.head_starts))
                await record_usage(usage_repository, question, outcome, agent_usage, head_starts, models=budget.models)
    return reply


async def record_usage(
    usage_repository: UsageRepository,
    question: Question,
    outcome: AnswerOutcome,
    agent_usage: Mapping[str, TokenUsage],
    head_starts: HeadStartCount | None = None,
    *,
    models: Mapping[str, str] | None = None,
) -> None:
    """Record the usage of one answer. The asker has the answer already, so a failure is only logged."""
    try:
        today = datetime.now().astimezone().date()
        await usage_repository.record(question, outcome, agent_usage, today, head_starts, models=models)
    except StoreError as error:
        _log.error("usage.not_recorded", error=str(error))
