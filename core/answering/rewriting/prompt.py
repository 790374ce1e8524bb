"""`prompt`: the light model rephrases the query for what this agent knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import QUERY, Query, RewriteContext, ask, asked, by_rule, each, related, sensible
from core.llm.decision_schema import Record


async def prompt(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query with another text. The stand-in is `rule`."""
    return await each(queries, context, _by_model, by_rule)


async def _by_model(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(record: Record) -> Sequence[Query] | None:
        text = record.text("query")
        return [replace(query, text=text)] if sensible(text, query) and related(text, query, context) else None

    return await ask("rewrite_prompt", QUERY, asked(query), accept, context)
