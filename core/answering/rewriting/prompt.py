"""`prompt`: the light model rephrases the query for what this agent knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import (
    QUERY_SCHEMA,
    Query,
    RewriteContext,
    ask_llm,
    fence_query,
    is_valid_rewrite,
    rewrite_all,
    rule_based_rewrite,
    shares_terms,
)
from core.llm.decision_schema import ParsedReply


async def prompt(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query with another text. The stand-in is `rule`."""
    return await rewrite_all(queries, context, _llm_rewrite, rule_based_rewrite)


async def _llm_rewrite(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        text = parsed_reply.get_text("query")
        return (
            [replace(query, text=text)]
            if is_valid_rewrite(text, query) and shares_terms(text, query, context)
            else None
        )

    return await ask_llm("rewrite_prompt", QUERY_SCHEMA, fence_query(query), accept, context)
