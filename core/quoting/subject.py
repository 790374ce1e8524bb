"""The subject of a question as weighted terms, the share of it that a text covers, and what the question asks for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from core.language.facts import extract_identifiers
from core.language.keywords import strip_fillers
from core.language.lexicon import get_words
from core.language.tokens import (
    CJK_CHARACTER,
    CJK_CHARACTERS,
    cut_into_pairs,
    lexical_tokens,
    query_words,
    simplify,
)
from core.ports import Library
from core.types import Passage

# Characters that are particles, ask without saying for what, or occur in questions of every kind.
_PARTICLES = re.compile(
    "什么|怎么|怎样|怎么办|如何|为什么|哪些|哪里|多少|时候|可以|应该|需要|有没有|是否|原因|办法|区别"
    "|东西|意思|回事|干[嘛吗]|一[个下些种]"
    "|[的了吗呢吧啊是在和与及或把被对从到请问有没能可会不要想我你您他她哪几谁这那以里上下为因就都还再让给用么些个好太"
    "呀嘛啦哦噢喔咯啥咋]"
)
# "How many" asks for a number.
_HOW_TO = re.compile(
    r"\bhow\b(?! (?:many|much|long|often|old|big|large|fast|far)\b)|\bcommand\b|\bexample\b|怎么|怎样|如何|命令|示例",
    re.IGNORECASE,
)
_CJK_RUN = re.compile(f"[{CJK_CHARACTERS}]+")


# Another word for the same thing is common in Chinese: a pair that no passage has counts less than an unknown name.
MAX_PAIR_WEIGHT = 5.0


@dataclass(frozen=True, slots=True)
class Subject:
    """The terms of a question with their weights.

    A term is the tokens of which a text must have one: a word is a single token; a character of Chinese, kana or Hangul
    is the two pairs that it is part of, for a pair over the border of two words is in no text.
    """

    terms: tuple[tuple[frozenset[str], float], ...]

    @classmethod
    def from_question(cls, question: str, idf: Mapping[str, float]) -> Subject:
        """Return the subject of a question. Tokens without an `idf` weigh the same."""
        text = strip_fillers(question)
        words = query_words(text)
        latin_words = [tokens[0] for tokens in words if not CJK_CHARACTER.match(tokens[0])]
        specific_words = [word for word in latin_words if word not in _get_question_tokens()]
        terms = [(frozenset((word,)), idf.get(word, 1.0)) for word in specific_words]
        for segment in _cut_into_segments(text):
            # Two characters weigh as much as a word.
            terms += [
                (term, min(MAX_PAIR_WEIGHT, *(idf.get(pair, 1.0) for pair in term)) / 2) for term in _to_terms(segment)
            ]
        return cls(tuple(terms) or tuple((frozenset(tokens), 1.0) for tokens in words))

    def get_coverage(self, tokens: Collection[str]) -> float:
        """Return the share of the subject that a text with these tokens has, 0 to 1."""
        total = sum(weight for _, weight in self.terms)
        covered_weight = sum(weight for term, weight in self.terms if not term.isdisjoint(tokens))
        return covered_weight / total if total else 0.0

    def is_heading_of(self, passage: Passage) -> bool:
        """Return whether the last heading above a passage has every term of the subject."""
        headings = passage.title.rpartition(" > ")[2].split(" / ")
        return any(self.get_coverage(tokenize(heading)) == 1 for heading in headings)


@cache
def _get_question_tokens() -> frozenset[str]:
    """Return the tokens of words that say nothing about a subject."""
    return frozenset(lexical_tokens(" ".join(get_words("en", "question_words"))).split())


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


@dataclass(frozen=True, slots=True)
class QuoteRequest:
    """A question, its weighted terms, and the seconds that comparing vectors may take."""

    text: str
    subject: Subject
    timeout_s: float

    @classmethod
    async def open(cls, question: str, library: Library, timeout_s: float) -> QuoteRequest:
        """Return the request for a question, its words weighted by a library."""
        return cls(question, Subject.from_question(question, await library.term_weights(question)), timeout_s)

    def get_coverage(self, passage: Passage) -> float:
        """Return the share of the question's terms that a passage has, with its title and path, 0 to 1."""
        return self.subject.get_coverage(tokenize(f"{passage.title}\n{passage.path}\n{passage.text}"))

    @property
    def wants_code(self) -> bool:
        """Return whether it asks how something is done."""
        return bool(_HOW_TO.search(self.text))

    @property
    def names_code(self) -> bool:
        """Return whether it names a function, an option or the like; else prose answers better than a definition."""
        return bool(extract_identifiers(self.text))
