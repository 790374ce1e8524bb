"""The score of a passage: the dense and the lexical ranking fused, and weighted by the kind of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.types import Passage

# Every other kind is named after a programming language.
NON_CODE_KINDS = frozenset({"markdown", "rst", "text", "faq", "web", "csv", "html", "asciidoc", "issue", "release"})
CODE_KIND = "code"


def fuse(passages: Sequence[Passage], alpha: float, limit: int | None = None) -> list[Passage]:
    """Return at most `limit` passages, best first, with `score` = alpha * similarity + (1 - alpha) * lexical.

    Both sides are scaled to 0..1 by the minimum and maximum of these passages, so pass all candidates at once. A side
    on which all are equal counts fully if it is above zero, and nothing otherwise. Of passages with the same id one
    stays, with the higher scores. Equal scores are ordered by id.
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
    # Only the passages of the result are copied, not all hundred candidates.
    return [replace(passage, score=score) for passage, score in ranked_pairs[:limit]]


def _min_max_scale(values: Sequence[float]) -> list[float]:
    lowest, highest = min(values, default=0.0), max(values, default=0.0)
    if highest == lowest:
        return [1.0 if highest > 0 else 0.0] * len(values)
    return [(value - lowest) / (highest - lowest) for value in values]


def apply_kind_weights(passages: Sequence[Passage], weights: Mapping[str, float]) -> Sequence[Passage]:
    """Return ranked passages with their scores multiplied by the weights of their kinds (1 at most), best first.

    `code` stands for all programming languages; the weight of a single language goes before it.
    """
    if not weights:
        return passages
    weighted_passages = [(passage.score * get_kind_weight(passage.kind, weights), passage) for passage in passages]
    ranked_pairs = sorted(weighted_passages, key=lambda pair: -pair[0])
    return [replace(passage, score=min(1.0, score)) for score, passage in ranked_pairs]


def get_kind_weight(kind: str, weights: Mapping[str, float]) -> float:
    """Return the factor for the scores of a kind."""
    return weights.get(kind, 1.0 if kind in NON_CODE_KINDS else weights.get(CODE_KIND, 1.0))
