"""No retrieval: for social talk and for what the model knows by itself. The summarizer is told so."""

from __future__ import annotations

from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.runtime.budget import Budget
from core.types import Question


async def gather(question: Question, parts: Parts, budget: Budget) -> Gathered:
    """Return no passages, at once."""
    return Gathered(question.text, (), (), "none", ranked=True, searched=False)
