"""The score of a passage: the dense and the lexical ranking fused, and weighted by the kind of its document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from core.types import Passage

# Every other kind is named after a programming language.
NON_CODE_KINDS = frozenset(
    {"markdown", "rst", "text", "faq", "web", "csv", "subtitles", "html", "asciidoc", "issue", "release"}
)
CODE_KIND = "code"
# Code repeats the words of its topic more often than the prose that explains it.
CODE_FACTOR = 0.9
# What each further passage of a document counts, as a share of the one before. Every value from 0 to 0.7 finds the page
# of 25 of 30 questions about projects that nothing was fitted to among the first 8 passages (1: 22 of 30), and all 30
# among the first 24 (27).
REPEAT_FACTOR = 0.7


def fuse(
    passages: Sequence[Passage],
    alpha: float,
    limit: int | None = None,
    lexical_shares: Sequence[float] | None = None,
) -> list[Passage]:
    """Return at most `limit` passages, best first, with `score` = alpha * similarity + (1 - alpha) * lexical_share.

    Both sides mean the same for every query and search, so that the results of several searches can be fused once more,
    and the score does not depend on what else was found. Without any similarity the lexical side counts alone. Code
    counts a tenth less. Further passages of a document are moved down (`rank`). Of passages
    with the same id one stays, with the higher scores. Equal scores are ordered by id. `lexical_shares`, one for each
    passage, take the place of their own.
    """
    ranked_passages = score_passages(passages, alpha, lexical_shares)
    # Only the passages of the result are copied, not all hundred candidates, and only where something changes.
    return [_with_scores(passage, min(1.0, score), share) for score, share, passage in ranked_passages[:limit]]


def on_scale_of(passages: Sequence[Passage], others: Sequence[Passage], alpha: float) -> Sequence[Passage]:
    """Return passages of a search without vectors, with the scores that those of a search with vectors have.

    The best gets the score of the best one, and so on. Otherwise a language that the embedder does not know would count
    by half of its words, beside the whole score of a translation.
    """
    if not passages or any(passage.similarity for passage in passages) or not any(other.similarity for other in others):
        return passages
    scores = sorted((scored.score for scored in score_passages(others, alpha)), reverse=True)
    own = fuse(passages, alpha)
    scores += [scores[-1]] * (len(own) - len(scores))
    return [
        replace(passage, similarity=score, lexical_share=score, score=score)
        for passage, score in zip(own, scores, strict=False)
    ]


class ScoredPassage(NamedTuple):
    """A passage with its fused score, and the lexical share that the score was made with."""

    score: float
    lexical_share: float
    passage: Passage


def score_passages(
    passages: Sequence[Passage], alpha: float, lexical_shares: Sequence[float] | None = None
) -> list[ScoredPassage]:
    """Return all passages as `fuse` ranks them, beside their scores: for those who need no copies with the scores."""
    if lexical_shares is None:
        lexical_shares = [passage.lexical_share for passage in passages]
    shared_passages: dict[str, tuple[Passage, float]] = {}
    for passage, share in zip(passages, lexical_shares, strict=True):
        previous_passage, previous_share = shared_passages.get(passage.id, (passage, share))
        merged_passage = previous_passage if previous_passage is passage else merge_scores(previous_passage, passage)
        shared_passages[passage.id] = merged_passage, max(previous_share, share)
    if not any(passage.similarity for passage, _ in shared_passages.values()):
        alpha = 0.0
    scored_passages = [
        ScoredPassage(
            (alpha * max(0.0, passage.similarity) + (1 - alpha) * share)
            * (1.0 if passage.kind in NON_CODE_KINDS else CODE_FACTOR),
            share,
            passage,
        )
        for passage, share in shared_passages.values()
    ]
    return rank(scored_passages)


def rank(scored_passages: Iterable[ScoredPassage]) -> list[ScoredPassage]:
    """Return passages best first, where each further one of a document counts less; their scores stay what they are.

    Often only one passage of the right page is found, and no other page should take all places before it.
    """
    factors: dict[tuple[str, str], float] = {}
    places = []
    for scored in sorted(scored_passages, key=lambda scored: (-scored.score, scored.passage.id)):
        passage = scored.passage
        document = (passage.source, passage.path or passage.url or passage.id)
        factor = factors.get(document, 1.0)
        factors[document] = factor * REPEAT_FACTOR
        places.append((-scored.score * factor, scored))
    return [scored for _, scored in sorted(places, key=itemgetter(0))]


def _with_scores(passage: Passage, score: float, lexical_share: float) -> Passage:
    if (passage.score, passage.lexical_share) == (score, lexical_share):
        return passage
    return replace(passage, score=score, lexical_share=lexical_share)


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
    return weigh(passages, [get_kind_weight(passage.kind, weights) for passage in passages]) if weights else passages


def weigh(passages: Sequence[Passage], factors: Sequence[float], *, by_rank: bool = False) -> list[Passage]:
    """Return ranked passages with their scores multiplied by a factor each (1 at most), best first.

    Equal factors leave the order, which need not be that of the scores: a passage counts no more than those before it.
    With `by_rank` the factor applies to the rank.
    """
    scores = (passage.score for passage in passages)
    ceilings = [1 / rank for rank in range(1, len(passages) + 1)] if by_rank else accumulate(scores, min)
    ranked = sorted(zip(ceilings, factors, passages, strict=True), key=lambda weighted: -weighted[0] * weighted[1])
    return [replace(passage, score=min(1.0, passage.score * factor)) for _, factor, passage in ranked]


def get_kind_weight(kind: str, weights: Mapping[str, float]) -> float:
    """Return the factor for the scores of a kind."""
    return weights.get(kind, 1.0 if kind in NON_CODE_KINDS else weights.get(CODE_KIND, 1.0))


def logistic(log_odds: float) -> float:
    """Return the probability of log-odds."""
    # Beyond these the exponential overflows, and the result is 0 or 1 all the same.
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, log_odds))))
