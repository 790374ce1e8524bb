"""The two strategies without an agent: no search at all, and one search with the question as it was asked."""

from __future__ import annotations

from core.answering.agents.search import search
from core.answering.context import AnswerDependencies, RetrievalResult
from core.evidence.ranking import fuse
from core.runtime.budget import Budget
from core.types import Question


def skip_search(question: Question) -> RetrievalResult:
    """Return no passages: for small talk, and for questions that the model can answer without documents."""
    return RetrievalResult(question.text, (), (), "none", is_ranked=True, was_searched=False)


async def gather(question: Question, deps: AnswerDependencies, budget: Budget) -> RetrievalResult:
    """Return the passages for the question as it was asked, in their fused order: the baseline."""
    result = await search(question.text, deps, budget, with_rewrites=False)
    passages = fuse(result.passages, deps.settings.knowledge.search.alpha)
    return RetrievalResult(result.query, result.agents, tuple(passages), "simple", is_ranked=True)
