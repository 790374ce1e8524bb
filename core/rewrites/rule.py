"""`rule`: no model. Filler words go, the noun phrases are what is looked up, with the words that the knowledge uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from core.rewrite import phrases, without_fillers
from core.rewrites.query import Query, RewriteContext

MOST_TERMS = 16
_SPACED = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


async def rule(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query without filler words, its words the noun phrases and their synonyms."""
    return [by_rule(query, context)[0] for query in queries]


def by_rule(query: Query, context: RewriteContext) -> Sequence[Query]:
    """Return the query without filler words; its words are the noun phrases and their synonyms."""
    text = without_fillers(query.text)
    terms = (*phrases(query.words or text), *synonyms(query.lexical(), context.agent.synonyms))
    return [replace(query, text=text, words=joined(terms) or query.words)]


def joined(terms: Sequence[str]) -> str:
    """Return terms as words to look up, each once, at most as many as a search should have."""
    return " ".join(list(dict.fromkeys(term.strip() for term in terms if term.strip()))[:MOST_TERMS])


def synonyms(text: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what the knowledge says for the words and phrases of a text."""
    return [other for said, _ in _said(text, known) for other in known[said]]


def replaced(text: str, known: Mapping[str, Sequence[str]]) -> str:
    """Return a text with its words and phrases replaced by the first of what the knowledge says for each."""
    for said, pattern in _said(text, known):
        text = pattern.sub(known[said][0].replace("\\", r"\\"), text)
    return text


def _said(text: str, known: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the phrases of the map that a text holds, longer ones first, with the pattern that finds them."""
    for said in sorted(known, key=len, reverse=True):
        if not known[said] or not said.strip():
            continue
        words = r"\s+".join(re.escape(word) for word in said.split())
        # Text without spaces between its words has no word boundaries either.
        before = r"(?<!\w)" if _SPACED.match(said) else ""
        after = r"(?!\w)" if _SPACED.match(said.rstrip()[-1]) else ""
        pattern = re.compile(f"{before}{words}{after}", re.IGNORECASE)
        if pattern.search(text):
            yield said, pattern
