"""The baseline: one search with the raw question, nothing else. For comparison with the other strategies."""

from __future__ import annotations

from core.answering.agents.search import by_score, search
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.runtime.budget import Budget
from core.types import Question


async def gather(question: Question, parts: Parts, budget: Budget) -> Gathered:
    """Return the passages for the question as it was asked, in the order of their scores."""
    found = await search(question.text, parts, budget, rewriting=False)
    return Gathered(found.query, found.agents, tuple(by_score(found.passages)), "simple", ranked=True)
