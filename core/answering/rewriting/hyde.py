"""`hyde`: a passage that would answer the question, as the model imagines it, is compared by meaning.

Passages resemble passages more than they resemble questions. What is looked up by words stays the question's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import (
    Query,
    RewriteContext,
    ask_llm,
    fence_query,
    has_same_script,
    is_valid_rewrite,
    rewrite_all,
)
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.text.keywords import content_words, strip_fillers

MAX_PASSAGE_CHARS = 1200
SCHEMA = DecisionSchema(
    "passage",
    "A passage as it might stand in the knowledge",
    (
        SchemaField(
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
_QUESTION_OPENING = re.compile(
    r"^(?:(?:what|which|who|where|when|why|how)(?:'s|'re)?(?: (?:much|many|long|often|far))?"
    r"(?: (?:is|are|was|were|do|does|did|can|could|should|would|will|to|exactly))?"
    r"|is|are|was|were|do|does|did|can|could|should|would|will|has|have)\b"
    r"(?: (?:i|we|you|one|there|it possible to)\b(?: (?:best|need to|have to|want to)\b)?)?\s*"
    r"|(?:请问|如何|怎么样?|怎样|什么是|为什么|为何|是否可以|能否|能不能)",
    re.IGNORECASE,
)


async def hyde(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query with an imagined passage as its meaning. The stand-in is the question as a statement."""
    return await rewrite_all(queries, context, _llm_rewrite, _rule_based_rewrite)


async def _llm_rewrite(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        text = parsed_reply.get_text("passage")
        has_shared_words = not set(content_words(query.text)).isdisjoint(content_words(text))
        # A passage about the question names something of it, unless it is in another script.
        is_related = has_shared_words or not has_same_script(text, query.text)
        return [replace(query, dense=text)] if is_related and is_valid_rewrite(text, query, MAX_PASSAGE_CHARS) else None

    return await ask_llm("rewrite_hyde", SCHEMA, fence_query(query), accept, context)


def _rule_based_rewrite(query: Query, context: RewriteContext) -> Sequence[Query]:
    statement = _QUESTION_OPENING.sub("", strip_fillers(query.text), count=1).strip().rstrip("?？ 吗呢")
    return [replace(query, dense=f"{statement[:1].upper()}{statement[1:]}.")] if content_words(statement) else [query]
