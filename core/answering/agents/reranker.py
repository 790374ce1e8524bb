"""The passages for one answer: ordered by the configured reranker or the light model, then selected.

When the reranker fails or is too slow, the fused order is the fallback and the stage `rerank` is degraded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.answering.context import AnswerDependencies, RetrievalResult
from core.evidence.ranking import apply_kind_weights, fuse
from core.evidence.rendering import escape_delimiters, render_to_budget
from core.evidence.selection import (
    apply_source_weights,
    drop_far_below_best,
    keep_best_of_groups,
    lost_in_the_middle_order,
    select,
)
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.structured_output import DecisionRequest, decide
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Passage, Turn

# An excerpt is enough to rank a passage; the model that writes gets all of it.
MAX_EXCERPT_TOKENS = 160
# A passage below this share of the best score is not put to the model. Of 99 questions about three projects whose right
# file is among the 24 best for 88, it is among those left for 87, with a seventh of the tokens less.
MIN_CANDIDATE_SHARE = 0.5
# What a model does not name fills the prompt up to so many passages: no answer of 220 cites more (whole_prompts in
# tests/lab/quality).
MIN_ORDERED = 8
# The rerankers whose scores are those of the fused order. The scales of others are their own.
FUSED_ORDERS = ("auto", "embedding", "model", "none")
# How many passages sentences are quoted from when no model writes: with a model the prompt's room is the limit.
QUOTABLE_PASSAGES = 8
SCHEMA = DecisionSchema(
    "rerank",
    "The passages in the order of their use for a question",
    (
        SchemaField(
            "order",
            "ids",
            "list of passage ids, the most useful first, for example p3",
            (
                "ranking",
                "ranked",
                "ranked ids",
                "ordered",
                "sorted",
                "ids",
                "passages",
                "result",
                "results",
                "relevant",
                "most useful",
                "排序",
                "顺序",
                "编号",
                "段落",
                "结果",
            ),
        ),
    ),
)


async def select_evidence(
    retrieval: RetrievalResult, deps: AnswerDependencies, budget: Budget, *, is_final: bool = True
) -> RetrievalResult:
    """Return the result with the passages that the answer is written from, in their order in the prompt.

    Only those of the final answer are worth a call of the light model.
    """
    passages_by_rank: Sequence[Passage] = retrieval.passages
    settings = deps.settings
    if not retrieval.is_ranked:
        by_model = is_final and ranks_by_model(settings)
        passages_by_rank = await rerank(retrieval.query, retrieval.passages, deps, budget, by_model=by_model)
    await deps.turnstile.yield_turn()
    passages_by_rank = apply_source_weights(passages_by_rank, settings.evidence.weights, is_ranked=retrieval.is_ranked)
    limit = settings.answer.passages or (None if deps.model else QUOTABLE_PASSAGES)
    if not retrieval.is_ranked:
        agents = settings.retrieval_agents()
        passages_by_rank = keep_best_of_groups(
            passages_by_rank, [agents[name].sources for name in retrieval.agents if name in agents]
        )
        if deps.model and settings.knowledge.search.rerank in FUSED_ORDERS:
            passages_by_rank = drop_far_below_best(passages_by_rank)
    passages = select(
        passages_by_rank,
        limit=limit,
        max_tokens=settings.evidence_tokens(),
    )
    # An extractive answer quotes the best passage first.
    if deps.model:
        passages = lost_in_the_middle_order(passages)
    return replace(retrieval, passages=tuple(passages))


def ranks_by_model(settings: Settings, *, is_final: bool = True) -> bool:
    """Return whether a model orders the passages: those of an answer, or, unless `is_final`, of one search for it."""
    choice = settings.knowledge.search.rerank
    return choice == "model" or (choice == "auto" and is_final and settings.models.light is not None)


async def rerank(
    query: str, passages: Sequence[Passage], deps: AnswerDependencies, budget: Budget, *, by_model: bool
) -> Sequence[Passage]:
    """Return the passages best first, within the stage's share of the budget; by the light model if `by_model`.

    A translated question goes to the reranker with its translation, which is in the language of most passages.
    """
    search_settings = deps.settings.knowledge.search
    query = "\n".join(filter(None, (query, budget.translations.get(query))))
    if deps.model and by_model:
        return await LLMReranker(deps, budget).rerank(query, passages)
    return await budget.run_stage(
        "rerank",
        deps.reranker.rerank(query, passages),
        lambda: apply_kind_weights(fuse(passages, search_settings.alpha), search_settings.kind_weights),
    )


class LLMReranker:
    """Implements `core.ports.Reranker` for one answer: the light model reorders the best passages of the fused order.

    With `rerank: model`, passages that it does not name are left out: so it is the information filter of a single
    search as well. Otherwise the best of them follow. The fused order of all is the fallback when the model fails, is
    too slow, names none or cannot be understood.
    """

    def __init__(self, deps: AnswerDependencies, budget: Budget) -> None:
        self._deps = deps
        self._budget = budget

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first; their fused scores are dealt anew in that order."""
        search_settings = self._deps.settings.knowledge.search
        fused_passages = fuse(passages, search_settings.alpha)
        candidates = drop_far_below_best(fused_passages, MIN_CANDIDATE_SHARE)[: search_settings.reranker.top_n]
        order = await self._order(query, candidates) if len(candidates) > 1 and query.strip() else ()
        if order and search_settings.rerank != "model":
            # As a filter a model is asked for by name only: a weak one names few.
            unnamed = [position for position in range(len(fused_passages)) if position not in order]
            order = (*order, *unnamed[: max(0, MIN_ORDERED - len(order))])
        # Only fused scores of different searches compare: by rank alone, the best of each search would score 1.
        scores = sorted((passage.score for passage in fused_passages), reverse=True)
        reordered_passages = [
            replace(fused_passages[position], score=score)
            for score, position in zip(scores, order or range(len(fused_passages)), strict=False)
        ]
        return apply_kind_weights(reordered_passages, search_settings.kind_weights)

    async def _order(self, query: str, passages: Sequence[Passage]) -> tuple[int, ...]:
        def accept(parsed_reply: ParsedReply) -> tuple[int, ...] | None:
            # A reply that names no passage is no order.
            return parsed_reply.get_ids("order", len(passages)) or None

        evidence = render_to_budget(
            passages, self._deps.settings.evidence_tokens("light"), max_passage_tokens=MAX_EXCERPT_TOKENS
        )
        turns = [
            Turn("user", f"<evidence>\n{evidence}\n</evidence>\n<question>\n{escape_delimiters(query)}\n</question>")
        ]
        decision_request = DecisionRequest("rerank", "rerank", SCHEMA, self._deps.prompts.fill("rerank"), turns)
        return await decide(decision_request, accept, (), self._deps, self._budget)
