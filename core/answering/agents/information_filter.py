"""The information filter: which passages of a search help to answer the question, and what is still missing.

States and outputs:

| state | when | `passages` | `missing_information` |
|---|---|---|---|
| nothing to filter | the search found no passage; no model call | none | empty |
| some kept | the model named passages | those, in their order | what they do not say, or empty |
| nothing kept | the model said that no passage helps | none | what they do not say, or empty |
| default | the model failed, overran or cannot be understood | all | empty |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.answering.agents.conversation import format_question
from core.answering.context import AnswerDependencies
from core.evidence.rendering import escape_delimiters, render_to_budget
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.structured_output import CallBudget, DecisionRequest, decide
from core.runtime.budget import Budget
from core.types import Passage, Question, Turn

FILTER_KEYS = (
    "kept",
    "relevant",
    "relevant ids",
    "relevant passages",
    "passages",
    "ids",
    "useful",
    "selected",
    "result",
    "action",
    "行动",
    "动作",
    "保留",
    "相关",
    "相关段落",
    "段落",
    "编号",
    "结果",
)
MISSING_KEYS = (
    "missing information",
    "missing info",
    "gap",
    "gaps",
    "lacking",
    "needed",
    "缺失",
    "缺少",
    "缺失信息",
    "还缺",
)
SCHEMA = DecisionSchema(
    "filter",
    "Which passages help to answer the question",
    (
        SchemaField(
            "keep",
            "ids",
            "list of the ids of the passages that help, for example p1; empty when none does",
            FILTER_KEYS,
        ),
        SchemaField(
            "missing",
            "text",
            "what the question needs that none of them says; empty when nothing is missing",
            MISSING_KEYS,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The passages that the filter kept, and what the model misses; empty for nothing."""

    passages: tuple[Passage, ...]
    missing_information: str = ""


async def filter_passages(
    question: Question,
    passages: Sequence[Passage],
    deps: AnswerDependencies,
    budget: Budget,
    call_budget: CallBudget | None = None,
    *,
    objectives: Sequence[str] = (),
) -> FilterResult:
    """Return the passages that help to answer the question, or serve what this step was to find out (`objectives`).

    The default is all of them.
    """
    unfiltered_result = FilterResult(tuple(passages))
    if not passages:
        return unfiltered_result

    def accept(parsed_reply: ParsedReply) -> FilterResult | None:
        positions = parsed_reply.get_ids("keep", len(passages))
        if positions is None:
            return None
        return FilterResult(
            tuple(passages[position] for position in sorted(positions)), parsed_reply.get_text("missing")
        )

    evidence = render_to_budget(passages, deps.settings.evidence_tokens("light"))
    lines = "\n".join(" ".join(objective.split()) for objective in objectives)
    objective_block = f"<objective>\n{escape_delimiters(lines)}\n</objective>\n" if lines else ""
    turns = [Turn("user", f"<evidence>\n{evidence}\n</evidence>\n{objective_block}{format_question(question)}")]
    decision_request = DecisionRequest(
        "filter", "step", SCHEMA, deps.prompts.fill("filter"), turns, call_budget=call_budget
    )
    return await decide(decision_request, accept, unfiltered_result, deps, budget)
