"""`decompose`: what is wanted, in one to three sub-queries and the terms of the domain; all are searched at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import (
    Query,
    RewriteContext,
    ask_llm,
    fence_query,
    find_synonyms,
    is_valid_rewrite,
    join_terms,
    rewrite_all,
    shares_terms,
)
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.text.keywords import content_words, extract_noun_phrases, strip_fillers

MAX_SUB_QUERIES = 3
MIN_SUB_QUERY_WORDS = 2
SCHEMA = DecisionSchema(
    "decomposition",
    "What a question wants, and its parts",
    (
        SchemaField(
            "queries",
            "texts",
            "list of one to three search queries, each understandable alone",
            (
                *("sub queries", "subqueries", "sub questions", "questions", "searches", "parts", "query", "list"),
                *("子查询", "子问题", "查询", "问题列表", "查询列表"),
            ),
        ),
        SchemaField(
            "intent", "text", "what the asker wants, in one sentence", ("goal", "purpose", "意图", "目的", "目标")
        ),
        SchemaField(
            "terms",
            "texts",
            "list of terms of the domain; empty for none",
            ("domain terms", "keywords", "entities", "concepts", "术语", "领域术语", "关键词", "实体"),
        ),
    ),
)
_CONJUNCTION = re.compile(
    r"[?？;；]+|,?(?<!\s)\s++(?:and also|as well as|and then|and|or|versus|vs\.?)\s+(?=\w)|以及|并且|同时|还有|，另外",
    re.IGNORECASE,
)


async def decompose(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query, followed by its parts.

    The query itself gets the terms as words and the intent as meaning. One part alone leaves it at that. The stand-in
    splits at question marks and conjunctions and takes the noun phrases for terms.
    """
    return await rewrite_all(queries, context, _llm_rewrite, _rule_based_rewrite)


async def _llm_rewrite(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        sub_queries = [
            sub_query for sub_query in parsed_reply.get_texts("queries") if is_valid_rewrite(sub_query, query)
        ][:MAX_SUB_QUERIES]
        if not sub_queries or not shares_terms(" ".join(sub_queries), query, context):
            return None
        intent = parsed_reply.get_text("intent")
        valid_intent = intent if is_valid_rewrite(intent, query) and shares_terms(intent, query, context) else ""
        return _compose_queries(query, sub_queries, parsed_reply.get_texts("terms"), valid_intent, context)

    return await ask_llm("rewrite_decompose", SCHEMA, fence_query(query), accept, context)


def _rule_based_rewrite(query: Query, context: RewriteContext) -> Sequence[Query]:
    text = strip_fillers(query.text)
    segments = [segment.strip(" ,，。.") for segment in _CONJUNCTION.split(text)]
    can_split = all(len(content_words(segment)) >= MIN_SUB_QUERY_WORDS for segment in segments if segment)
    # Where a conjunction joins single words, the halves say too little alone.
    sub_queries = [segment for segment in segments if segment][:MAX_SUB_QUERIES] if can_split else []
    return _compose_queries(query, sub_queries, extract_noun_phrases(text), "", context)


def _compose_queries(
    query: Query, sub_queries: Sequence[str], terms: Sequence[str], intent: str, context: RewriteContext
) -> Sequence[Query]:
    agent_synonyms = find_synonyms(query.text, context.agent.synonyms)
    keywords = join_terms(
        (
            query.get_lexical_text(),
            *(term for term in (*terms, *agent_synonyms) if not _contains(query.get_lexical_text(), term)),
        )
    )
    full_query = replace(query, words=keywords if keywords != query.text else "", dense=query.dense or intent)
    return [full_query, *(Query(sub_query) for sub_query in sub_queries)] if len(sub_queries) > 1 else [full_query]


def _contains(text: str, term: str) -> bool:
    return term.lower() in text.lower()
