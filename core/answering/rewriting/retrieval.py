"""`retrieval`: what a first search finds shows the words that the knowledge uses (pseudo relevance feedback)."""

from __future__ import annotations

import re
from collections import defaultdict
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
    shares_terms,
)
from core.grounding.evidence import escape_delimiters
from core.llm.decision_schema import ParsedReply
from core.text.keywords import content_words
from core.types import Passage

STAGE = "rewrite_retrieval"
MAX_FEEDBACK_PASSAGES = 5
MAX_EXCERPT_CHARS = 240
MAX_ADDED_TERMS = 5
MIN_FEEDBACK_PASSAGES = 2
_WORD = re.compile(r"[^\W\d_][\w.\-]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")


async def retrieval(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query rephrased after what the question as it is has found; as it is when that is nothing.

    The stand-in adds the terms that several of the first passages share to the words.
    """
    passages = (await context.run_stage(STAGE, context.first()) or ())[:MAX_FEEDBACK_PASSAGES]
    if not passages:
        return queries

    async def llm_rewrite(query: Query, context: RewriteContext) -> Sequence[Query] | None:
        def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
            text = parsed_reply.get_text("query")
            return (
                [replace(query, text=text)]
                if is_valid_rewrite(text, query) and shares_terms(text, query, context)
                else None
            )

        evidence = "\n".join(f"- {_to_excerpt(passage.title)}: {_to_excerpt(passage.text)}" for passage in passages)
        request = f"<evidence>\n{escape_delimiters(evidence)}\n</evidence>\n{fence_query(query)}"
        return await ask_llm(STAGE, QUERY_SCHEMA, request, accept, context)

    def rule_based_rewrite(query: Query, context: RewriteContext) -> Sequence[Query]:
        terms = get_expansion_terms(query.text, passages)
        return [replace(query, words=" ".join((query.get_lexical_text(), *terms)))] if terms else [query]

    return await rewrite_all(queries, context, llm_rewrite, rule_based_rewrite)


def get_expansion_terms(text: str, passages: Sequence[Passage]) -> list[str]:
    """Return the terms that at least two of the passages share and the text has not, the weightiest first.

    A passage counts less the further down it stands.
    """
    query_words = set(content_words(text))
    weights: dict[str, float] = defaultdict(float)
    document_frequency: dict[str, int] = defaultdict(int)
    for rank, passage in enumerate(passages):
        title_words, text_words = set(content_words(passage.title)), content_words(passage.text)
        for term in {word for word in (*title_words, *text_words) if _WORD.fullmatch(word)} - query_words:
            term_frequency = text_words.count(term) / max(1, len(text_words))
            weights[term] += (term_frequency + (0.02 if term in title_words else 0.0)) / (1 + rank)
            document_frequency[term] += 1
    shared_terms = [term for term in weights if document_frequency[term] >= MIN_FEEDBACK_PASSAGES]
    return sorted(shared_terms, key=lambda term: (-weights[term], term))[:MAX_ADDED_TERMS]


def _to_excerpt(text: str) -> str:
    return " ".join(text.split())[:MAX_EXCERPT_CHARS]
