"""The two strategies without an agent: no search at all, and one search with the question as it was asked."""

from __future__ import annotations

from core.answering.agents.search import search, sort_by_score
from core.answering.context import AnswerDependencies, RetrievalResult
from core.runtime.budget import Budget
from core.types import Question


def skip_search(question: Question) -> RetrievalResult:
    """Return no passages: for small talk, and for questions that the model can answer without documents."""
    return RetrievalResult(question.text, (), (), "none", is_ranked=True, was_searched=False)


async def gather(question: Question, deps: AnswerDependencies, budget: Budget) -> RetrievalResult:
    """Return the passages for the question as it was asked, in the order of their scores: the baseline."""
    result = await search(question.text, deps, budget, with_rewrites=False)
    return RetrievalResult(result.query, result.agents, tuple(sort_by_score(result.passages)), "simple", is_ranked=True)
