"""The information filter: which passages of a search help to answer the question, and what is still missing.

States and outputs:

| state | when | `kept` | `missing` |
|---|---|---|---|
| nothing to filter | the search found no passage; no model call | none | empty |
| some kept | the model named passages | those, in their order | what they do not say, or empty |
| nothing kept | the model said that no passage helps | none | what they do not say, or empty |
| default | the model failed, overran or cannot be understood | all | empty |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.answering.agents.conversation import asked_about
from core.answering.context.dependencies import Parts
from core.grounding.evidence import render_within
from core.llm.decision_schema import Record, Shape, Slot
from core.llm.structured_output import Ask, Calls, decide
from core.runtime.budget import Budget
from core.types import Passage, Question, Turn

FILTER_KEYS = (
    *("kept", "relevant", "relevant ids", "relevant passages", "passages", "ids", "useful", "selected", "result"),
    *("保留", "相关", "相关段落", "段落", "编号", "结果"),
)
MISSING_KEYS = (
    *("missing information", "missing info", "gap", "gaps", "lacking", "needed", "缺失", "缺少", "缺失信息", "还缺"),
)
SHAPE = Shape(
    "filter",
    "Which passages help to answer the question",
    (
        Slot(
            "keep",
            "ids",
            "list of the ids of the passages that help, for example p1; empty when none does",
            FILTER_KEYS,
        ),
        Slot(
            "missing",
            "text",
            "what the question needs that none of them says; empty when nothing is missing",
            (
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
            ),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Filtered:
    """What the filter let through, and what the model misses; empty for nothing."""

    kept: tuple[Passage, ...]
    missing: str = ""


async def filter_passages(
    question: Question, passages: Sequence[Passage], parts: Parts, budget: Budget, calls: Calls | None = None
) -> Filtered:
    """Return the passages that help to answer the question. The default is all of them."""
    everything = Filtered(tuple(passages))
    if not passages:
        return everything

    def accept(record: Record) -> Filtered | None:
        positions = record.ids("keep", len(passages))
        if positions is None:
            return None
        return Filtered(tuple(passages[position] for position in sorted(positions)), record.text("missing"))

    evidence = render_within(passages, parts.settings.evidence_tokens("light"))
    turns = [Turn("user", f"<evidence>\n{evidence}\n</evidence>\n{asked_about(question)}")]
    ask = Ask("filter", "step", SHAPE, parts.prompts.fill("filter"), turns, calls=calls)
    return await decide(ask, accept, everything, parts, budget)
