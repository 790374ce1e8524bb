"""`retrieval`: what a first search finds shows the words that the knowledge uses (pseudo relevance feedback)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from core.answering.rewriting.base import QUERY, Query, RewriteContext, ask, asked, each, related, sensible
from core.grounding.evidence import defuse
from core.llm.decision_schema import Record
from core.text.keywords import content_words
from core.types import Passage

STAGE = "rewrite_retrieval"
SHOWN = 5
SHOWN_CHARS = 240
ADDED_TERMS = 5
LEAST_PASSAGES = 2
_WORD = re.compile(r"[^\W\d_][\w.\-]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")


async def retrieval(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query rephrased after what the question as it is has found; as it is when that is nothing.

    The stand-in adds the terms that several of the first passages share to the words.
    """
    found = (await context.within(STAGE, context.first()) or ())[:SHOWN]
    if not found:
        return queries

    async def by_model(query: Query, context: RewriteContext) -> Sequence[Query] | None:
        def accept(record: Record) -> Sequence[Query] | None:
            text = record.text("query")
            return [replace(query, text=text)] if sensible(text, query) and related(text, query, context) else None

        shown = "\n".join(f"- {_line(one.title)}: {_line(one.text)}" for one in found)
        request = f"<evidence>\n{defuse(shown)}\n</evidence>\n{asked(query)}"
        return await ask(STAGE, QUERY, request, accept, context)

    def by_rule(query: Query, context: RewriteContext) -> Sequence[Query]:
        terms = expansion(query.text, found)
        return [replace(query, words=" ".join((query.lexical(), *terms)))] if terms else [query]

    return await each(queries, context, by_model, by_rule)


def expansion(text: str, passages: Sequence[Passage]) -> list[str]:
    """Return the terms that at least two of the passages share and the text has not, the weightiest first.

    A passage counts less the further down it stands.
    """
    present = set(content_words(text))
    weights: dict[str, float] = defaultdict(float)
    holders: dict[str, int] = defaultdict(int)
    for place, passage in enumerate(passages):
        titled, written = set(content_words(passage.title)), content_words(passage.text)
        for term in {one for one in (*titled, *written) if _WORD.fullmatch(one)} - present:
            share = written.count(term) / max(1, len(written))
            weights[term] += (share + (0.02 if term in titled else 0.0)) / (1 + place)
            holders[term] += 1
    shared = [term for term in weights if holders[term] >= LEAST_PASSAGES]
    return sorted(shared, key=lambda term: (-weights[term], term))[:ADDED_TERMS]


def _line(text: str) -> str:
    return " ".join(text.split())[:SHOWN_CHARS]
