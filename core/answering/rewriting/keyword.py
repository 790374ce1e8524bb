"""`keyword`: key terms are what is looked up by words; what is compared by meaning stays the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import (
    Query,
    RewriteContext,
    ask_llm,
    fence_query,
    find_synonyms,
    join_terms,
    rewrite_all,
    shares_terms,
)
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.text.keywords import content_words, extract_noun_phrases, strip_fillers

MAX_TERM_WORDS = 6
SCHEMA = DecisionSchema(
    "keywords",
    "The key terms of a question",
    (
        SchemaField(
            "terms",
            "texts",
            "list of key terms",
            (
                *("keywords", "keyword", "key terms", "key words", "search terms", "words", "phrases", "queries"),
                *("query", "result", "list", "output", "关键词", "关键字", "术语", "搜索词", "结果"),
            ),
        ),
    ),
)


async def keyword(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query with its key terms as words. The stand-in takes its noun phrases."""
    return await rewrite_all(queries, context, _llm_rewrite, _rule_based_rewrite)


async def _llm_rewrite(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        raw_items = parsed_reply.get_texts("terms")
        # Written as one line, they come as one item.
        split_terms = [
            term.strip() for item in raw_items for term in item.replace("，", ",").replace("、", ",").split(",")
        ]
        terms = [term for term in split_terms if content_words(term) and len(term.split()) <= MAX_TERM_WORDS]
        keywords = join_terms((*terms, *find_synonyms(query.text, context.agent.synonyms)))
        return [replace(query, words=keywords)] if terms and shares_terms(keywords, query, context) else None

    return await ask_llm("rewrite_keyword", SCHEMA, fence_query(query), accept, context)


def _rule_based_rewrite(query: Query, context: RewriteContext) -> Sequence[Query]:
    terms = extract_noun_phrases(strip_fillers(query.text)) + find_synonyms(query.text, context.agent.synonyms)
    return [replace(query, words=join_terms(terms) or query.words)]
