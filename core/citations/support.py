"""How well each passage of a prompt supports a sentence, in comparison with all others.

A term is a token or two tokens in a row; the fewer passages of the prompt have it, the more it weighs. Chinese claims
and English passages, or the other way round, are compared by the English words that the glossary knows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TypeAlias

from core.language.glossary import translate_terms
from core.language.tokens import count_cjk, lexical_tokens
from core.types import Passage

# Chosen on the development half of tests/lab/quality/whole_prompts: docs/decisions.md.
# Of two tokens in a row, beside the weights of both.
PAIR_WEIGHT = 0.5
# What stands in so many lines in a row supports a sentence twice as well as what is scattered over the passage.
WINDOW_LINES = 8
# Added to all weights before they are compared, with a share of the sentence's own weight: few words in common say
# little about where a sentence comes from.
SMOOTHING = 2.0
SMOOTHING_SHARE = 0.1
# The passages whose terms are kept for the next answers: many have some in common.
KEPT_PASSAGES = 128

# The lines of a text, as tokens between blanks, and by token the numbers of the lines that have it.
_Lines: TypeAlias = tuple[list[str], Mapping[str, list[int]]]


@dataclass(frozen=True, slots=True)
class Rating:
    """How well each passage supports a claim.

    `shares` are 0 to 1, relative to the best passage; `weights` are the weights of the terms that a passage has,
    `total` that of all terms of the claim.
    """

    shares: tuple[float, ...]
    weights: tuple[float, ...]
    total: float


class SupportIndex:
    """The terms of all passages of a prompt, by line."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._texts = [f"{passage.title} {passage.path}\n{passage.text}" for passage in passages]
        self._lines = [_read_lines(text, lexical_tokens) for text in self._texts]

    @cached_property
    def _translated_lines(self) -> list[_Lines]:
        """The English words for what Chinese passages say, for claims in other languages."""
        return [_read_lines(text if count_cjk(text) else "", _translate_line) for text in self._texts]

    def rate(self, claim: str, *, without_chinese: bool = False) -> Rating:
        """Return how well each passage supports a claim.

        `without_chinese` leaves out the terms that only passages in Chinese can have: for the citation of another one.
        """
        weights = [0.0] * len(self._texts)
        by_window: list[defaultdict[int, float]] = [defaultdict(float) for _ in weights]
        total = 0.0
        # One meaning: of several at most one is in the passage.
        translated_terms = _translate(claim, 1)
        for term in _extract_terms(claim) | translated_terms:
            lines_by_passage = _find_lines(term, self._lines)
            if not translated_terms:
                lines_by_passage = {**_find_lines(term, self._translated_lines), **lines_by_passage}
            # Passages in another language say it in words that the dictionary does not have.
            if (without_chinese or not lines_by_passage) and count_cjk(term):
                continue
            weight = math.log((len(weights) + 1) / max(1, len(lines_by_passage)))
            weight *= PAIR_WEIGHT if " " in term else 1
            total += weight
            for position, lines in lines_by_passage.items():
                weights[position] += weight
                for window in {number - offset for number in lines for offset in range(WINDOW_LINES)}:
                    by_window[position][window] += weight
        smoothing = SMOOTHING + SMOOTHING_SHARE * total
        scores = [
            smoothing + weight + max(windows.values(), default=0.0)
            for weight, windows in zip(weights, by_window, strict=True)
        ]
        best_score = max(scores, default=1.0) or 1.0
        return Rating(tuple(score / best_score for score in scores), tuple(weights), total)


@lru_cache(maxsize=2 * KEPT_PASSAGES)
def _read_lines(text: str, extract: Callable[[str], str]) -> _Lines:
    """Return the lines of a text that are not empty."""
    lines = [f" {extract(line)} " for line in text.split("\n") if line.strip()]
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        for token in set(line.split()):
            numbers[token].append(number)
    return lines, numbers


def _find_lines(term: str, passages: Sequence[_Lines]) -> dict[int, list[int]]:
    """Return the numbers of the lines that have a term, by the position of their passage."""
    token, _, second_token = term.partition(" ")
    found: dict[int, list[int]] = {}
    for position, (lines, numbers) in enumerate(passages):
        matches = numbers.get(token, [])
        if second_token:
            matches = [number for number in matches if f" {term} " in lines[number]]
        if matches:
            found[position] = matches
    return found


def _translate_line(line: str) -> str:
    # Two blanks: these words do not stand in a row.
    return "  ".join(_translate(line))


def _translate(text: str, meanings: int = 2) -> Set[str]:
    """Return the terms of the English words that the dictionary has for a text in Chinese."""
    return set(lexical_tokens(translate_terms(text, meanings).text).split()) if count_cjk(text) else set()


def _extract_terms(text: str) -> Set[str]:
    """Return the tokens of a text, and every two in a row."""
    tokens = lexical_tokens(text).split()
    return {*tokens, *map(" ".join, pairwise(tokens))}
