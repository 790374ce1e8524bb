"""From what a reranker says of some passages to one order of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.types import Passage

# What a passage is longer than, no reranker reads: their windows end at about 512 tokens.
MAX_CHARACTERS = 4000


def order_by_scores(passages: Sequence[Passage], scores: Mapping[int, float]) -> Sequence[Passage]:
    """Return fused passages in the order of their new scores, by position; at least one is scored.

    Those without a new score stay behind those with one, in their order. Scores that are not all from 0 to 1 are a
    model's raw ones: the logistic function makes them so.
    """
    ranking = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    is_raw = not all(0 <= score <= 1 for score in scores.values())
    scored_passages = [
        replace(passages[position], score=_logistic(score) if is_raw else score) for position, score in ranking
    ]
    unscored_passages = [passage for position, passage in enumerate(passages) if position not in scores]
    return scored_passages + [
        replace(passage, score=passage.score * scored_passages[-1].score) for passage in unscored_passages
    ]


def rerank_input(passage: Passage) -> str:
    """Return what of a passage is judged: its title belongs to it."""
    return f"{passage.title}\n{passage.text}"[:MAX_CHARACTERS]


def _logistic(score: float) -> float:
    # Beyond these the exponential overflows, and the result is 0 or 1 all the same.
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, score))))
