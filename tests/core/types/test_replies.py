"""The record of how an answer was made stays small, and comes back from the journal as it was."""

from __future__ import annotations

import json

from core.answering.context import RetrievalResult
from core.runtime.budget import Budget
from core.settings import BudgetSettings
from core.types import AgentScore, Passage
from core.types.replies import MAX_EXCERPT_CHARS, MAX_PASSAGES, MAX_SPANS, SearchRound, Span, Trace, trace_from_json

HUGE = Passage("p", "docs", "d/" * 4000, "T" * 9000, "x" * 90_000, "https://example.org/" + "u" * 9000, score=0.123456)


def test_what_is_kept_is_bounded() -> None:
    budget = Budget(BudgetSettings())
    for number in range(500):
        with budget.timed(f"stage {number % 9}"):
            pass
    trace = RetrievalResult("q", ("docs",), (HUGE,) * 99, rounds=(SearchRound(("a", "b"), "good"),)).to_trace(budget, 1)
    assert (len(trace.passages), len(trace.spans)) == (MAX_PASSAGES, MAX_SPANS)
    assert len(trace.passages[0].excerpt) == MAX_EXCERPT_CHARS
    assert trace.passages[0].score == 0.1235
    assert len(json.dumps(trace.to_json())) < 30_000


def test_it_comes_back_as_it_was() -> None:
    budget = Budget(BudgetSettings())
    budget.record_scores([AgentScore("docs", 0.4), AgentScore("code", -0.1)])
    budget.record_scores([AgentScore("docs", 0.2), AgentScore("code", 0.3)])
    budget.add_usage("answer", 10, 5, 0.1, model="small")
    budget.add_usage("answer", 10, 5, 0.1, model="large")
    budget.spans.append(Span("route", 1.0, 2.0))
    trace = RetrievalResult("q", ("docs",), (HUGE,), rounds=(SearchRound(("a", "b"), "good"),)).to_trace(budget, 0)
    assert trace.scores == {"docs": 0.4, "code": 0.3}
    assert trace.models == {"answer": "large"}
    assert trace_from_json(json.loads(json.dumps(trace.to_json()))) == trace


def test_a_record_of_an_earlier_version_is_read() -> None:
    names = ("query", "strategy", "agents", "timings_ms", "cut", "dropped_citations", "tokens", "cost", "rounds")
    trace = Trace("q", "single", ("docs",), {"total": 5.0}, ("rerank",))
    values = {name: value for name, value in trace.to_json().items() if name in names}
    assert trace_from_json(json.loads(json.dumps(values))) == trace
