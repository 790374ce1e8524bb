"""From what a reranker says of some passages to one order of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.types import Passage

# What a passage is longer than, no reranker reads: their windows end at about 512 tokens.
MOST_CHARACTERS = 4000


def by_scores(passages: Sequence[Passage], scores: Mapping[int, float]) -> Sequence[Passage]:
    """Return fused passages in the order of their new scores, by position; at least one is scored.

    Those without a new score stay behind those with one, in their order. Scores that are not all from 0 to 1 are a
    model's raw ones: the logistic function makes them so.
    """
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    raw = not all(0 <= score <= 1 for score in scores.values())
    best = [replace(passages[position], score=_logistic(score) if raw else score) for position, score in ordered]
    others = [one for position, one in enumerate(passages) if position not in scores]
    return best + [replace(one, score=one.score * best[-1].score) for one in others]


def judged_text(passage: Passage) -> str:
    """Return what of a passage is judged: its title belongs to it."""
    return f"{passage.title}\n{passage.text}"[:MOST_CHARACTERS]


def _logistic(score: float) -> float:
    # Beyond these the exponential overflows, and the result is 0 or 1 all the same.
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, score))))
