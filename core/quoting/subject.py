"""The subject of a question as weighted terms, the share of it that a text covers, and what the question asks for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from core.language.keywords import strip_fillers
from core.language.tokens import (
    CJK_CHARACTER,
    CJK_CHARACTERS,
    cut_into_pairs,
    lexical_tokens,
    query_words,
    simplify,
)

# Characters that are particles, ask without saying for what, or occur in questions of every kind.
_PARTICLES = re.compile(
    "什么|怎么|怎样|怎么办|如何|为什么|哪些|哪里|多少|时候|可以|应该|需要|有没有|是否|原因|办法|区别"
    "|东西|意思|回事|干[嘛吗]|一[个下些种]"
    "|[的了吗呢吧啊是在和与及或把被对从到请问有没能可会不要想我你您他她哪几谁这那以为因就都还再让给用么些个好太"
    "呀嘛啦哦噢喔咯啥咋]"
)
_CJK_RUN = re.compile(f"[{CJK_CHARACTERS}]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """The terms of a question with their weights.

    A term is the tokens of which a text must have one: a word is a single token; a character of Chinese, kana or Hangul
    is the two pairs that it is part of, for a pair over the border of two words is in no text.
    """

    terms: tuple[tuple[frozenset[str], float], ...]

    @classmethod
    def from_question(cls, question: str, idf: Mapping[str, float]) -> Subject:
        """Return the subject of a question. Tokens without an `idf` weigh the same, those with 0 are in no passage."""
        text = strip_fillers(question)
        words = query_words(text)
        latin_words = [tokens[0] for tokens in words if not CJK_CHARACTER.match(tokens[0])]
        terms = [(frozenset((word,)), idf.get(word, 1.0)) for word in latin_words]
        for segment in _cut_into_segments(text):
            # Two characters weigh as much as a word.
            terms += [(term, _weigh_character(term, idf) / 2) for term in _to_terms(segment)]
        terms = terms or [(frozenset(tokens), 1.0) for tokens in words]
        return cls(tuple(terms))

    def get_coverage(self, tokens: Collection[str]) -> float:
        """Return the share of the subject that a text with these tokens has, 0 to 1."""
        covered_weight = sum(weight for term, weight in self.terms if not term.isdisjoint(tokens))
        return covered_weight / (sum(weight for _, weight in self.terms) or 1.0)


def _weigh_character(term: Collection[str], idf: Mapping[str, float]) -> float:
    """Return the weight of a character: that of its more frequent pair, of those that a passage has."""
    return min(filter(None, (idf.get(pair, 1.0) for pair in term)), default=0.0)


def _cut_into_segments(text: str) -> Iterator[str]:
    """Yield the runs of CJK characters of a text without particles, as written, of two characters or more."""
    for run in _CJK_RUN.findall(text):
        start = 0
        for particle in [*_PARTICLES.finditer(simplify(run)), None]:
            end = particle.start() if particle else len(run)
            if end - start > 1:
                yield run[start:end]
            start = particle.end() if particle else end


def _to_terms(segment: str) -> list[frozenset[str]]:
    """Return the term of each character: the pairs that it is part of, as written and in simplified Chinese."""
    pairs = [
        frozenset(variants) for variants in zip(cut_into_pairs(segment), cut_into_pairs(simplify(segment)), strict=True)
    ]
    return [first | second for first, second in zip([pairs[0], *pairs], [*pairs, pairs[-1]], strict=True)]


def tokenize(text: str) -> frozenset[str]:
    """Return the tokens of a text, by which subjects are compared with it."""
    return frozenset(lexical_tokens(text).split())
