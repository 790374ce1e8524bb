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
    passages_by_id: dict[str, Passage] = {}
    for passage in passages:
        merged_passage = passages_by_id.get(passage.id, passage)
        similarity, lexical = (
            max(merged_passage.similarity, passage.similarity),
            max(merged_passage.lexical, passage.lexical),
        )
        if merged_passage is not passage and (similarity, lexical) != (
            merged_passage.similarity,
            merged_passage.lexical,
        ):
            merged_passage = replace(merged_passage, similarity=similarity, lexical=lexical)
        passages_by_id[passage.id] = merged_passage
    dense_scores = _min_max_scale([passage.similarity for passage in passages_by_id.values()])
    lexical_scores = _min_max_scale([passage.lexical for passage in passages_by_id.values()])
    scores = [
        alpha * dense_score + (1 - alpha) * lexical_score
        for dense_score, lexical_score in zip(dense_scores, lexical_scores, strict=True)
    ]
    ranked_pairs = sorted(zip(passages_by_id.values(), scores, strict=True), key=lambda pair: (-pair[1], pair[0].id))
    # A passage is made anew for its score: of a hundred candidates only those that are wanted.
    return [replace(passage, score=score) for passage, score in ranked_pairs[:limit]]


def _min_max_scale(values: Sequence[float]) -> list[float]:
    lowest, highest = min(values, default=0.0), max(values, default=0.0)
    if highest == lowest:
        return [1.0 if highest > 0 else 0.0] * len(values)
    return [(value - lowest) / (highest - lowest) for value in values]
