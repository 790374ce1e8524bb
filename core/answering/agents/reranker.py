"""The order of the passages for one answer: by the configured reranker, or by the light language model.

Either way a failure or an overrun leaves the fused order, with the stage `rerank` cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.answering.context.dependencies import Parts
from core.grounding.document_kinds import weigh_kinds
from core.grounding.evidence import defuse, render_within
from core.grounding.fusion import fuse
from core.llm.decision_schema import Record, Shape, Slot
from core.llm.structured_output import Ask, decide
from core.runtime.budget import Budget
from core.types import Passage, Turn

# An excerpt says what a passage is about; the whole is for the model that writes.
EXCERPT_TOKENS = 160
SHAPE = Shape(
    "rerank",
    "The passages in the order of their use for a question",
    (
        Slot(
            "order",
            "ids",
            "list of passage ids, the most useful first, for example p3",
            (
                *("ranking", "ranked", "ranked ids", "ordered", "sorted", "ids", "passages", "result", "results"),
                *("relevant", "most useful", "排序", "顺序", "编号", "段落", "结果"),
            ),
        ),
    ),
)


async def rerank(query: str, passages: Sequence[Passage], parts: Parts, budget: Budget) -> Sequence[Passage]:
    """Return the passages best first, in the share of the budget that the stage has."""
    search = parts.settings.knowledge.search
    if search.rerank == "model" and parts.model:
        return await ModelReranker(parts, budget).rerank(query, passages)
    return await budget.within(
        "rerank",
        parts.reranker.rerank(query, passages),
        lambda: weigh_kinds(fuse(passages, search.alpha), search.kind_weights),
    )


class ModelReranker:
    """Implements `core.ports.Reranker` for one answer: the light model orders the best passages of the fused order.

    Those that it does not name follow in that order. Where it fails, overruns or cannot be understood, the fused order
    stays and the stage is cut.
    """

    def __init__(self, parts: Parts, budget: Budget) -> None:
        self._parts = parts
        self._budget = budget

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first; their fused scores are dealt anew in that order."""
        search = self._parts.settings.knowledge.search
        fused = fuse(passages, search.alpha)
        shown = fused[: search.reranker.top_n]
        order = await self._order(query, shown) if len(shown) > 1 and query.strip() else ()
        rest = [position for position in range(len(fused)) if position not in order]
        # Scores of different searches compare only as fused: an order of places would make each search's best a 1.
        dealt = [replace(fused[position], score=fused[place].score) for place, position in enumerate((*order, *rest))]
        return weigh_kinds(dealt, search.kind_weights)

    async def _order(self, query: str, passages: Sequence[Passage]) -> tuple[int, ...]:
        def accept(record: Record) -> tuple[int, ...] | None:
            # To name none is no order.
            return record.ids("order", len(passages)) or None

        evidence = render_within(passages, self._parts.settings.evidence_tokens("light"), most=EXCERPT_TOKENS)
        turns = [Turn("user", f"<evidence>\n{evidence}\n</evidence>\n<question>\n{defuse(query)}\n</question>")]
        ask = Ask("rerank", "rerank", SHAPE, self._parts.prompts.fill("rerank"), turns)
        return await decide(ask, accept, (), self._parts, self._budget)
