"""`hyde`: a passage that would answer the question, as the model imagines it, is compared by meaning.

Passages resemble passages more than they resemble questions. What is looked up by words stays the question's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import Query, RewriteContext, ask, asked, each, same_script, sensible
from core.llm.decision_schema import Record, Shape, Slot
from core.text.keywords import content_words, without_fillers

MAX_PASSAGE_CHARS = 1200
SHAPE = Shape(
    "passage",
    "A passage as it might stand in the knowledge",
    (
        Slot(
            "passage",
            "text",
            "two or three sentences",
            (
                *("text", "answer", "document", "hypothetical passage", "hypothetical document", "content"),
                *("paragraph", "result", "output", "段落", "文本", "内容", "答案", "回答"),
            ),
        ),
    ),
)
_ASKING = re.compile(
    r"^(?:(?:what|which|who|where|when|why|how)(?:'s|'re)?(?: (?:much|many|long|often|far))?"
    r"(?: (?:is|are|was|were|do|does|did|can|could|should|would|will|to|exactly))?"
    r"|is|are|was|were|do|does|did|can|could|should|would|will|has|have)\b"
    r"(?: (?:i|we|you|one|there|it possible to)\b(?: (?:best|need to|have to|want to)\b)?)?\s*"
    r"|(?:请问|如何|怎么样?|怎样|什么是|为什么|为何|是否可以|能否|能不能)",
    re.IGNORECASE,
)


async def hyde(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query with an imagined passage as its meaning. The stand-in is the question as a statement."""
    return await each(queries, context, _by_model, _by_rule)


async def _by_model(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(record: Record) -> Sequence[Query] | None:
        text = record.text("passage")
        shared = not set(content_words(query.text)).isdisjoint(content_words(text))
        # A passage about the question names something of it, unless it is in another script.
        about = shared or not same_script(text, query.text)
        return [replace(query, dense=text)] if about and sensible(text, query, MAX_PASSAGE_CHARS) else None

    return await ask("rewrite_hyde", SHAPE, asked(query), accept, context)


def _by_rule(query: Query, context: RewriteContext) -> Sequence[Query]:
    said = _ASKING.sub("", without_fillers(query.text), count=1).strip().rstrip("?？ 吗呢")
    return [replace(query, dense=f"{said[:1].upper()}{said[1:]}.")] if content_words(said) else [query]
