"""The deadline of one answer, each stage's share of it, and the record of what happened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from core.errors import ServiceError
from core.observability.logs import get_logger
from core.observability.tracing import span
from core.types import AgentScore
from core.types.replies import Span

if TYPE_CHECKING:
    from core.settings import BudgetSettings

_log = get_logger(__name__)

T = TypeVar("T")
# Why a stage used its fallback: it overran, its service failed, its reply made no sense, or somebody stopped it.
DegradeReason = Literal["late", "failed", "unreadable", "stopped"]
# Stages after the writing need not reserve time for it.
_AFTER_WRITING = frozenset({"look_back", "names", "verify"})
# The stages with a fixed share of the deadline. Selecting messages (`context`) counts from the question.
STAGE_SHARES = {
    "voice": 0.4,
    "look_up": 0.05,
    "context": 0.12,
    "spelling": 0.1,
    "route": 0.1,
    "look_back": 0.2,
    "verify": 0.1,
    "names": 0.05,
}
# What the light model is called for takes one share, `step`, or this part of it.
STEP_PARTS = {
    "rewrite": 1.0,
    "requery": 1.0,
    "second_opinion": 1.0,
    "choose": 2 / 3,
    "compress": 2 / 3,
    "rerank": 2 / 3,
}


class Budget:
    """The time budget of one answer. It starts with the question and goes through the whole pipeline.

    `timings_ms` holds milliseconds by stage, `spans` every run of a stage in the order in which they ended, `degraded`
    the stages that used their fallback, `degrade_reasons` the reason for each, `tokens` the token usage by
    "agent.prompt" and "agent.completion" ("agent.estimated" is how much of both is estimated), `cost` the cost by
    agent, `models` the model that each agent called last, `head_starts` whether each head start was kept,
    `translations` each query that was translated into the sources' language, `saved_searches` how many agents routing
    left out, `agent_scores` the highest routing score of each asked agent.
    """

    def __init__(self, shares: BudgetSettings) -> None:
        self._shares = shares
        self._started = time.monotonic()
        self.timings_ms: dict[str, float] = {}
        self.spans: list[Span] = []
        self.degraded: list[str] = []
        self.degrade_reasons: dict[str, DegradeReason] = {}
        self.tokens: Counter[str] = Counter()
        self.cost: defaultdict[str, float] = defaultdict(float)
        self.models: dict[str, str] = {}
        self.head_starts: list[bool] = []
        self.translations: dict[str, str] = {}
        self.saved_searches = 0
        self.agent_scores: dict[str, float] = {}
        self._claimed_names: set[str] = set()

    def claim(self, name: str) -> bool:
        """Return True for the first caller with this name: for work that is done only once per answer."""
        is_first = name not in self._claimed_names
        self._claimed_names.add(name)
        return is_first

    def remaining(self) -> float:
        """Return the seconds left before the deadline, never below zero."""
        return max(0.0, self._started + self._shares.deadline_s - time.monotonic())

    def share(self, stage: str) -> float:
        """Return the seconds that a stage may take: its share of the whole, and never more than what is left.

        All stages before the answer leave the share `write` to the summarizer: however many of them hang one after the
        other, their fallbacks are used while there is still time for an answer.
        """
        if stage in STEP_PARTS:
            share = self._shares.step * STEP_PARTS[stage]
        else:
            share = STAGE_SHARES[stage] if stage in STAGE_SHARES else getattr(self._shares, stage)
        reserved_s = 0.0 if stage in _AFTER_WRITING else self._shares.write * self._shares.deadline_s
        return max(0.0, min(share * self._shares.deadline_s, self.remaining() - reserved_s))

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the question."""
        return (time.monotonic() - self._started) * 1000

    def record_time(self, name: str) -> None:
        """Record the milliseconds from the question to this event, such as the first token."""
        self.timings_ms[name] = round(self.elapsed_ms(), 2)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Record the time of the block; of several runs of one stage `timings_ms` keeps the longest."""
        started_at = time.monotonic()
        try:
            with span(stage):
                yield
        finally:
            spent_ms = (time.monotonic() - started_at) * 1000
            self.spans.append(Span(stage, round((started_at - self._started) * 1000, 2), round(spent_ms, 2)))
            self.timings_ms[stage] = round(max(self.timings_ms.get(stage, 0.0), spent_ms), 2)

    def record_scores(self, scores: Iterable[AgentScore]) -> None:
        """Record the routing scores of a query; of several queries the highest of each agent counts."""
        for score in scores:
            self.agent_scores[score.name] = max(score.score, self.agent_scores.get(score.name, score.score))

    def add_usage(
        self,
        agent: str,
        prompt_tokens: int,
        completion_tokens: int,
        cost: float = 0.0,
        *,
        is_estimated: bool = False,
        model: str = "",
    ) -> None:
        """Add what one call of a language model consumed, in tokens and in the currency of the configured prices.

        `is_estimated` says that the provider did not tell: for a call that was cancelled or broke off.
        """
        self.tokens[f"{agent}.prompt"] += prompt_tokens
        self.tokens[f"{agent}.completion"] += completion_tokens
        if is_estimated:
            self.tokens[f"{agent}.estimated"] += prompt_tokens + completion_tokens
        if cost:
            self.cost[agent] += cost
        if model:
            self.models[agent] = model

    def degrade(self, stage: str, reason: DegradeReason) -> None:
        """Record that a stage used its fallback, and why; the first reason counts."""
        if stage not in self.degraded:
            self.degraded.append(stage)
            self.degrade_reasons[stage] = reason

    async def run_stage(self, stage: str, awaitable: Awaitable[T], fallback: Callable[[], T]) -> T:
        """Await an optional stage within its share; when it overruns or its service fails, use the fallback.

        Errors other than `ServiceError` are raised.
        """
        with self.timed(stage):
            try:
                async with asyncio.timeout(self.share(stage)):
                    return await awaitable
            except TimeoutError:
                reason: DegradeReason = "late"
                _log.warning("stage.overran", stage=stage, share_s=round(self.share(stage), 3))
            except ServiceError as error:
                reason = "failed"
                _log.warning("stage.failed", stage=stage, error=str(error))
            self.degrade(stage, reason)
            return fallback()
