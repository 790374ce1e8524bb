"""What a retrieval strategy returns, and what an answer is written from."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from core.runtime.budget import Budget
from core.settings import Strategy
from core.types import Passage, Question, SearchRound, Trace


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The result of a strategy: the query that was searched, the agents that searched it, their passages.

    `strategy` is the strategy's name. When `is_ranked`, the passages are in their final order, best first: passages of
    several searches must not be ordered by one query again. `was_searched` is false when no search was needed.
    `rounds` are those of a strategy that judges its own results.
    """

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]
    strategy: Strategy = "single"
    is_ranked: bool = False
    was_searched: bool = True
    rounds: tuple[SearchRound, ...] = ()

    def low_quality_reason(self) -> str:
        """Return why the evidence was judged poor in the end, or an empty string when it was not."""
        last_round = self.rounds[-1] if self.rounds else SearchRound(())
        return (last_round.reason or "it does not answer the question") if last_round.quality == "poor" else ""

    def to_trace(self, budget: Budget, dropped_citations: int) -> Trace:
        """Return the trace of an answer that ends now."""
        budget.record_time("total")
        return Trace(
            self.query,
            self.strategy,
            self.agents,
            budget.timings_ms,
            tuple(budget.degraded),
            dropped_citations,
            dict(budget.tokens),
            dict(budget.cost),
            why_cut=dict(budget.degrade_reasons),
            rounds=self.rounds,
        )


@dataclass(frozen=True, slots=True)
class AnswerInputs:
    """What an answer is written from. `chunks` are the text of an answer that has already begun on it."""

    question: Question
    retrieval: RetrievalResult
    chunks: AsyncGenerator[str] | None = None
