"""Joining the dense and the lexical ranking of passages into one score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.types import Passage


def fuse(passages: Sequence[Passage], alpha: float, limit: int | None = None) -> list[Passage]:
    """Return the passages best first, with `score` = alpha * similarity + (1 - alpha) * lexical, each scaled to 0..1.

    `limit` is how many are wanted at most. The scaling is min-max over the passages given, so give all candidates at
    once. A side on which all are equal cannot tell them apart: it counts fully where it found something, and nothing
    where it did not. Of passages with the same id one is kept, with the higher scores. Equal scores are ordered by id.
    """
    distinct: dict[str, Passage] = {}
    for passage in passages:
        kept = distinct.get(passage.id, passage)
        similarity, lexical = max(kept.similarity, passage.similarity), max(kept.lexical, passage.lexical)
        if kept is not passage and (similarity, lexical) != (kept.similarity, kept.lexical):
            kept = replace(kept, similarity=similarity, lexical=lexical)
        distinct[passage.id] = kept
    dense = _scaled([passage.similarity for passage in distinct.values()])
    words = _scaled([passage.lexical for passage in distinct.values()])
    scores = [alpha * near + (1 - alpha) * word for near, word in zip(dense, words, strict=True)]
    ordered = sorted(zip(distinct.values(), scores, strict=True), key=lambda pair: (-pair[1], pair[0].id))
    # A passage is made anew for its score: of a hundred candidates only those that are wanted.
    return [replace(passage, score=score) for passage, score in ordered[:limit]]


def _scaled(values: Sequence[float]) -> list[float]:
    lowest, highest = min(values, default=0.0), max(values, default=0.0)
    if highest == lowest:
        return [1.0 if highest > 0 else 0.0] * len(values)
    return [(value - lowest) / (highest - lowest) for value in values]
