"""Merges the scores that a reranker gave to some passages into one order of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.types import Passage

# Rerankers read about 512 tokens; longer passages are cut to this many characters.
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
    """Return the text of a passage that is judged, its title included."""
    return f"{passage.title}\n{passage.text}"[:MAX_CHARACTERS]


def _logistic(score: float) -> float:
    # Beyond these the exponential overflows, and the result is 0 or 1 all the same.
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, score))))
