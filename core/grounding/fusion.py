"""The score of a passage: the dense and the lexical ranking fused, and weighted by the kind of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.types import Passage

# Every other kind is named after a programming language.
NON_CODE_KINDS = frozenset({"markdown", "rst", "text", "faq", "web", "csv", "html", "asciidoc", "issue", "release"})
CODE_KIND = "code"
# Code repeats the words of what it is about more often than the prose that explains it.
CODE_FACTOR = 0.9


def fuse(passages: Sequence[Passage], alpha: float, limit: int | None = None) -> list[Passage]:
    """Return at most `limit` passages, best first, with `score` = alpha * similarity + (1 - alpha) * lexical_share.

    Both sides mean the same for every query and search, so that the results of several searches can be fused once more,
    and the score does not depend on what else was found. Without any similarity the lexical side counts alone. Code
    counts a tenth less. Of passages with the same id one stays, with the higher scores. Equal scores are ordered by id.
    """
    passages_by_id: dict[str, Passage] = {}
    for passage in passages:
        previous = passages_by_id.get(passage.id, passage)
        passages_by_id[passage.id] = previous if previous is passage else merge_scores(previous, passage)
    unique_passages = list(passages_by_id.values())
    if not any(passage.similarity for passage in unique_passages):
        alpha = 0.0
    scores = [
        (alpha * max(0.0, passage.similarity) + (1 - alpha) * passage.lexical_share)
        * (1.0 if passage.kind in NON_CODE_KINDS else CODE_FACTOR)
        for passage in unique_passages
    ]
    ranked_pairs = sorted(zip(unique_passages, scores, strict=True), key=lambda pair: (-pair[1], pair[0].id))
    # Only the passages of the result are copied, not all hundred candidates.
    return [replace(passage, score=min(1.0, score)) for passage, score in ranked_pairs[:limit]]


def merge_scores(passage: Passage, other: Passage) -> Passage:
    """Return a passage that two searches found with the higher of each of its scores."""
    return replace(
        passage,
        similarity=max(passage.similarity, other.similarity),
        lexical=max(passage.lexical, other.lexical),
        lexical_share=max(passage.lexical_share, other.lexical_share),
        score=max(passage.score, other.score),
    )


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
