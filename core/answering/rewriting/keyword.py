"""`keyword`: key terms are what is looked up by words; what is compared by meaning stays the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import Query, RewriteContext, ask, asked, each, joined, related, synonyms
from core.llm.decision_schema import Record, Shape, Slot
from core.text.keywords import content_words, phrases, without_fillers

LONGEST_TERM_WORDS = 6
SHAPE = Shape(
    "keywords",
    "The key terms of a question",
    (
        Slot(
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
    return await each(queries, context, _by_model, _by_rule)


async def _by_model(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(record: Record) -> Sequence[Query] | None:
        lists = record.texts("terms")
        # Written as one line, they come as one item.
        split = [term.strip() for item in lists for term in item.replace("，", ",").replace("、", ",").split(",")]
        terms = [term for term in split if content_words(term) and len(term.split()) <= LONGEST_TERM_WORDS]
        words = joined((*terms, *synonyms(query.text, context.agent.synonyms)))
        return [replace(query, words=words)] if terms and related(words, query, context) else None

    return await ask("rewrite_keyword", SHAPE, asked(query), accept, context)


def _by_rule(query: Query, context: RewriteContext) -> Sequence[Query]:
    terms = phrases(without_fillers(query.text)) + synonyms(query.text, context.agent.synonyms)
    return [replace(query, words=joined(terms) or query.words)]
