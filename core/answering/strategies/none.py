"""No retrieval: for social talk and for what the model knows by itself. The summarizer is told so."""

from __future__ import annotations

from core.answering.context.dependencies import AnswerDependencies
from core.answering.context.retrieval_result import RetrievalResult
from core.runtime.budget import Budget
from core.types import Question


async def gather(question: Question, deps: AnswerDependencies, budget: Budget) -> RetrievalResult:
    """Return no passages, at once."""
    return RetrievalResult(question.text, (), (), "none", is_ranked=True, was_searched=False)
