"""Joining what the queries of one agent found, so that scores stay comparable.

Scores belong to one query. A BM25 score is a sum over the words of its query, so a longer query scores higher for
nothing; the cosines of an imagined passage are higher than those of a question. Both are brought back to the measure of
the question, and only ever lowered: a rewrite makes no weak passage look strong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from core.rewrite import content_words
from core.rewrites.query import Query
from core.types import Passage


@dataclass(frozen=True, slots=True)
class Hits:
    """What one query found, best first."""

    query: Query
    passages: Sequence[Passage]


def merge(asked: Hits, found: Sequence[Hits], limit: int) -> list[Passage]:
    """Return at most `limit` passages: of every query the best, then of every query the second, none twice.

    `asked` is the question as it is and what it found, which is the measure and not part of the result. A passage that
    several queries found has the highest of its scores.
    """
    best: dict[str, Passage] = {}
    for passage in chain.from_iterable(zip_longest(*(_measured(asked, hits) for hits in found))):
        if passage is not None:
            best[passage.id] = _joined(best.get(passage.id, passage), passage)
    return list(best.values())[:limit]


def _joined(one: Passage, other: Passage) -> Passage:
    return replace(
        one,
        similarity=max(one.similarity, other.similarity),
        lexical=max(one.lexical, other.lexical),
        score=max(one.score, other.score),
    )


def _measured(asked: Hits, hits: Hits) -> list[Passage]:
    """Return what a query found in the measure of the question."""
    if hits.query == asked.query:
        return list(hits.passages)
    words = len(content_words(asked.query.text)) or 1
    per_word = min(1.0, words / max(1, len(content_words(hits.query.lexical()))))
    near = max((one.similarity for one in asked.passages), default=0.0)
    nearest = max((one.similarity for one in hits.passages), default=0.0)
    closeness = near / nearest if hits.query.dense and 0 < near < nearest else 1.0
    return [
        replace(one, lexical=one.lexical * per_word, similarity=one.similarity * closeness) for one in hits.passages
    ]
