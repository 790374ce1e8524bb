"""Weights by kind of document: code, questions with answers, prose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.types import Passage

# Every other kind is named after a programming language.
NON_CODE_KINDS = frozenset({"markdown", "rst", "text", "faq", "web", "csv", "html", "asciidoc", "issue", "release"})
CODE_KIND = "code"


def apply_kind_weights(passages: Sequence[Passage], weights: Mapping[str, float]) -> Sequence[Passage]:
    """Return ranked passages in the order that the weights of their kinds give them, scores multiplied (1 at most).

    `code` stands for all programming languages; a language's own weight goes before it.
    """
    if not weights:
        return passages
    weighted_passages = [(passage.score * get_kind_weight(passage.kind, weights), passage) for passage in passages]
    ranked_pairs = sorted(weighted_passages, key=lambda pair: -pair[0])
    return [replace(passage, score=min(1.0, score)) for score, passage in ranked_pairs]


def get_kind_weight(kind: str, weights: Mapping[str, float]) -> float:
    """Return what the scores of a kind are multiplied with."""
    return weights.get(kind, 1.0 if kind in NON_CODE_KINDS else weights.get(CODE_KIND, 1.0))
