"""The citation check: a sentence is judged by all passages of its prompt.

A citation stays where its passage supports the sentence about as well as the best one. Where another passage supports
it clearly better, the citation moves there; where none does, it is removed (docs/answering.md#citations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from core.citations.inventions import Facts, describe_passage, find_invented
from core.citations.markers import CitationKey, extract_claims
from core.citations.support import Rating, SupportIndex
from core.language.prose import split_sentences
from core.types import Passage

# Chosen on the development half of tests/lab/quality/whole_prompts: docs/decisions.md.
MIN_SHARE = 0.46
# With less of the best passage's weight, a citation is certainly wrong; only the best one is certainly right.
MIN_DOUBTFUL_SHARE = 0.3
# A citation moves where the second best passage is so far behind.
MAX_SECOND_SHARE = 0.6
# A sentence of some words (by the weight of their terms) has no support where all passages have less of it.
MIN_WEIGHT = 5.0
MIN_COVERAGE = 0.08
# Where the look-back puts a citation, the passage has at least so much of the sentence.
MIN_LOOK_BACK_COVERAGE = 0.35


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """The result of a check.

    `changes` has the citations that do not stay, with the position of the passage that supports the sentence instead,
    or None. `doubts` are the citations that words cannot decide, with their sentence; `changes` has the better guess.
    """

    changes: Mapping[CitationKey, int | None]
    doubts: Mapping[CitationKey, str]

    @property
    def certain_changes(self) -> Mapping[CitationKey, int | None]:
        """The changes of which words are sure."""
        return {key: position for key, position in self.changes.items() if key not in self.doubts}


def check_citations(text: str, passages: Sequence[Passage], *, known: str = "") -> CitationCheck:
    """Return the citations of an answer that its passages do not support, and those that support them. Blocking.

    `known` is what needs no support: the question, its conversation, the names of the product and its sources.
    """
    claims = extract_claims(text)
    if not any(0 <= position < len(passages) for claim in claims for position in claim.positions):
        return CitationCheck({}, {})
    judge = _Judge(passages, known)
    changes: dict[CitationKey, int | None] = {}
    doubts: dict[CitationKey, str] = {}
    for claim in claims:
        for position in claim.positions:
            if 0 <= position < len(passages):
                key = claim.marker_index, position
                new_position, is_doubtful = judge.judge(claim.text, position)
                if new_position != position:
                    changes[key] = new_position
                if is_doubtful:
                    doubts[key] = claim.text
    return CitationCheck(changes, doubts)


class _Judge:
    """Judges citations of the passages of one prompt. Many of them may have the same words, which are read once."""

    def __init__(self, passages: Sequence[Passage], known: str) -> None:
        self.rate = cache(SupportIndex(passages).rate)
        self._facts = [describe_passage(passage) for passage in passages]
        known_facts = Facts(known)
        self._find_invented = cache(lambda claim: frozenset(find_invented(claim, self._facts, known_facts)))
        self._is_wide = cache(lambda claim: Facts(claim).is_wide)

    def contradicts(self, claim: str, position: int) -> bool:
        """Return whether a claim states for certain what neither a passage nor another one of its prompt says."""
        # People count and compute in their own words what a program does.
        return bool(self._find_invented(claim) - ({"number"} if self._facts[position].is_code else set()))

    def judge(self, text: str, position: int) -> tuple[int | None, bool]:
        """Return the position of the passage that a citation has now, or None, and whether that is in doubt."""
        rating = self.rate(text)
        is_foreign = self._is_wide(text) and not self._facts[position].is_wide
        share = (self.rate(text, without_chinese=True) if is_foreign else rating).shares[position]
        if self._is_unsupported(text, position, rating):
            return None, True
        if share >= MIN_SHARE and not self.contradicts(text, position):
            return position, share < 1
        return self.find_best(text, rating), share > MIN_DOUBTFUL_SHARE

    def _is_unsupported(self, text: str, position: int, rating: Rating) -> bool:
        """Return whether no passage has the words of a text, although that of the citation is in its language."""
        has_words = max(rating.weights) >= MIN_COVERAGE * rating.total or rating.total < MIN_WEIGHT
        return not has_words and Facts(text).language == self._facts[position].language

    def find_best(self, text: str, rating: Rating) -> int | None:
        """Return the position of the passage that supports a text clearly best, without contradicting it."""
        candidates = sorted(range(len(rating.shares)), key=lambda position: -rating.shares[position])[:2]
        best = candidates[0]
        is_clear = len(candidates) == 1 or rating.shares[candidates[1]] <= MAX_SECOND_SHARE
        return best if is_clear and not self.contradicts(text, best) else None


def find_support_by_overlap(text: str, passages: Sequence[Passage], known: str = "") -> dict[int, list[int]]:
    """Find the passage behind each sentence by shared words: the look-back without a model. Blocking."""
    judge = _Judge(passages, known)
    support: dict[int, list[int]] = {}
    for index, sentence in enumerate(split_sentences(text) if passages else ()):
        rating = judge.rate(sentence)
        best = judge.find_best(sentence, rating)
        if best is not None and rating.weights[best] >= MIN_LOOK_BACK_COVERAGE * rating.total:
            support[index] = [best]
    return support
