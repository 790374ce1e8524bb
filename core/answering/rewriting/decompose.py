"""`decompose`: what is wanted, in one to three sub-queries and the terms of the domain; all are searched at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import Query, RewriteContext, ask, asked, each, joined, related, sensible, synonyms
from core.llm.decision_schema import Record, Shape, Slot
from core.text.keywords import content_words, phrases, without_fillers

MOST_PARTS = 3
LEAST_PART_WORDS = 2
SHAPE = Shape(
    "decomposition",
    "What a question wants, and its parts",
    (
        Slot(
            "queries",
            "texts",
            "list of one to three search queries, each understandable alone",
            (
                *("sub queries", "subqueries", "sub questions", "questions", "searches", "parts", "query", "list"),
                *("子查询", "子问题", "查询", "问题列表", "查询列表"),
            ),
        ),
        Slot("intent", "text", "what the asker wants, in one sentence", ("goal", "purpose", "意图", "目的", "目标")),
        Slot(
            "terms",
            "texts",
            "list of terms of the domain; empty for none",
            ("domain terms", "keywords", "entities", "concepts", "术语", "领域术语", "关键词", "实体"),
        ),
    ),
)
_JOINT = re.compile(
    r"[?？;；]+|,?(?<!\s)\s++(?:and also|as well as|and then|and|or|versus|vs\.?)\s+(?=\w)|以及|并且|同时|还有|，另外",
    re.IGNORECASE,
)


async def decompose(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query, followed by its parts.

    The query itself gets the terms as words and the intent as meaning. One part alone leaves it at that. The stand-in
    splits at question marks and conjunctions and takes the noun phrases for terms.
    """
    return await each(queries, context, _by_model, _by_rule)


async def _by_model(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(record: Record) -> Sequence[Query] | None:
        parts = [one for one in record.texts("queries") if sensible(one, query)][:MOST_PARTS]
        if not parts or not related(" ".join(parts), query, context):
            return None
        intent = record.text("intent")
        wanted = intent if sensible(intent, query) and related(intent, query, context) else ""
        return _composed(query, parts, record.texts("terms"), wanted, context)

    return await ask("rewrite_decompose", SHAPE, asked(query), accept, context)


def _by_rule(query: Query, context: RewriteContext) -> Sequence[Query]:
    text = without_fillers(query.text)
    parts = [part.strip(" ,，。.") for part in _JOINT.split(text)]
    whole = all(len(content_words(part)) >= LEAST_PART_WORDS for part in parts if part)
    # Where a conjunction joins single words, the halves say too little alone.
    separate = [part for part in parts if part][:MOST_PARTS] if whole else []
    return _composed(query, separate, phrases(text), "", context)


def _composed(
    query: Query, parts: Sequence[str], terms: Sequence[str], intent: str, context: RewriteContext
) -> Sequence[Query]:
    others = synonyms(query.text, context.agent.synonyms)
    words = joined((query.lexical(), *(term for term in (*terms, *others) if not _holds(query.lexical(), term))))
    whole = replace(query, words=words if words != query.text else "", dense=query.dense or intent)
    return [whole, *(Query(part) for part in parts)] if len(parts) > 1 else [whole]


def _holds(text: str, term: str) -> bool:
    return term.lower() in text.lower()
