"""Does a passage support a sentence? Judged by words, numbers, names and denials; by meaning where these do not tell.

A wrong refusal costs the reader a good link, an overlooked one only leaves a weak link: what cannot be told is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from core.grounding.citations import sentences
from core.grounding.fact_extraction import (
    claimed_numbers,
    core_terms,
    denies,
    has_name,
    has_number,
    has_quantity,
    names,
    number_words,
    numbers,
    quantities,
    squeeze,
    stem,
    terms,
    without_quantities,
)
from core.types import Passage

Verdict = Literal["yes", "no", "unsure"]

# Chosen on one half of tests/core/data/citations.jsonl and confirmed on the other: docs/evaluate.md.
SUPPORTED, FOUND, ALIKE, FOCUSED = 0.5, 0.35, 0.8, 0.5
# With fewer words of content a claim says too little to be told by them.
FEW_TERMS = 3
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-z][A-Za-z0-9]+")
_DIGITS = re.compile(r"\d+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENGLISH = frozenset(
    """
    the a an of to in is are and or for on with that this it its by as at from be was were has have not can will you
    your if when which who how into than then there they their but do does use
    """.split()  # noqa: SIM905 (one word a line would hide the code)
)
_CLAUSE = re.compile(
    r"[,;:，；、：]\s|[，；、]|\s[-–—]\s|\b(?:but|while|whereas|although|though|however|because|unless)\b", re.I
)
_BLOCK = re.compile(r"\n\s*\n|\n\s*(?=[-*+•|#]|\d+[.)]\s)")
# A statement about the evidence itself: that something is not in it.
_ABSENT = re.compile(
    r"\b(?:does|do|did|is|are)(?: not|n[’']t) (?:\w+ ){0,2}"
    r"(?:mention|say|state|contain|cover|describe|specify|specified|document|list)(?:e?d)?\b"
    r"|\bno (?:information|mention|passage)|没有(?:提到|提及|说明|说)|未(?:提到|提及|说明)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Known:
    """What a passage says, its title and path included; each view of it is made when it is first needed."""

    passage: Passage

    @property
    def body(self) -> str:
        """The passage's own text."""
        return self.passage.text

    @cached_property
    def text(self) -> str:
        """All that is said."""
        return f"{self.passage.title}\n{self.passage.path}\n{self.passage.text}"

    @cached_property
    def terms(self) -> frozenset[str]:
        """The stems of its words of content."""
        return frozenset(terms(self.text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Its numbers, also those inside names and those spelled out."""
        return _all_numbers(self.text)

    @cached_property
    def quantities(self) -> frozenset[float]:
        """Its times and sizes, in seconds and bytes."""
        return frozenset(value for _, value in quantities(self.text))

    @cached_property
    def bare(self) -> frozenset[str]:
        """Its numbers without a unit, which may be of any."""
        return _all_numbers(without_quantities(self.text))

    @cached_property
    def squeezed(self) -> str:
        """Its letters and digits alone."""
        return squeeze(self.text)

    @cached_property
    def language(self) -> str:
        """What its text is written in."""
        return language(self.body)

    @cached_property
    def clauses(self) -> tuple[tuple[frozenset[str], bool, float], ...]:
        """The terms of each sentence and of its parts, whether it denies, and how much of it a claim has to share."""
        return tuple((core_terms(clause), denies(clause), focus) for clause, focus in _clauses(self.body))


def _all_numbers(text: str) -> frozenset[str]:
    return frozenset(numbers(text) | number_words(text) | set(_DIGITS.findall(text)))


def language(text: str) -> str:
    """Return what a text is written in, as far as comparing words needs it: wide, english, or neither."""
    words = _WORD.findall(text.lower())
    wide = len(_WIDE.findall(text))
    # A character of Chinese says about as much as half a word.
    if wide > len([word for word in words if word.isascii()]):
        return "wide"
    common = sum(word in _ENGLISH for word in words)
    return "english" if common >= 0.12 * len(words) and common else ""


def rarities(passages: Sequence[Known]) -> Mapping[str, float]:
    """Return the weight of every term: the fewer passages hold it, the more it says."""
    counts = Counter(term for known in passages for term in known.terms)
    return {term: 1 / (1 + count) for term, count in counts.items()}


def share(claim: str, known: Known, rarity: Mapping[str, float]) -> float:
    """Return how much of a claim's words of content a passage holds, 0 to 1, weighed by rarity."""
    weights = {term: rarity.get(term, 1.0) for term in terms(claim)}
    whole = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in known.terms) / whole if whole else 0.0


def judge(claim: str, known: Known, rarity: Mapping[str, float], asked: str = "") -> Verdict:
    """Say whether a passage supports a claim, by words alone. What the asker said needs no support."""
    if _ABSENT.search(claim):
        return "unsure"
    if _contradicts(claim, known, asked):
        return "no"
    if share(claim, known, rarity) >= SUPPORTED and len(set(terms(claim))) >= FEW_TERMS:
        return "yes"
    return "unsure" if comparable(claim, known) else _by_names(claim, known)


def comparable(claim: str, known: Known) -> bool:
    """Say whether words that a passage lacks mean anything: it is about something, in the language of the claim."""
    if _ABSENT.search(claim) or len(set(terms(claim))) < FEW_TERMS:
        return False
    spoken = language(claim)
    return spoken == known.language == "english" or (spoken == "wide" == known.language)


def _contradicts(claim: str, known: Known, asked: str) -> bool:
    """Say whether a claim gives a number or names that the passage lacks, or denies what it says."""
    foreign = language(claim) != known.language
    if any(not _stated(number, claim, known, foreign) for number in claimed_numbers(claim) - numbers(asked)):
        return True
    if _other_count(claim, known):
        return True
    called = {name for name in names(claim) if squeeze(name) not in squeeze(asked)}
    if called and 2 * sum(has_name(name, known.squeezed, known.terms) for name in called) <= len(called):
        return True
    return not foreign and _reverses(claim, known)


_COUNTED = re.compile(
    r"\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|\d+)"
    r"\s+([a-z]{3,})",
    re.IGNORECASE,
)


def _stated(number: str, claim: str, known: Known, foreign: bool) -> bool:
    """Say whether a passage gives a number, or it is none that could be looked for there."""
    # Small numbers are often counts, and another language spells them in its own way. Percentages are worked out.
    if (foreign and len(number) < 2) or (f"{number}%" in claim and "%" not in known.body):
        return True
    given = [value for one, value in quantities(claim) if one == number]
    if not given:
        return has_number(number, known.numbers)
    # 30 seconds are no 30 days: only without a unit the number alone counts.
    return has_number(number, known.bare) or any(has_quantity(value, known.quantities) for value in given)


def _other_count(claim: str, known: Known) -> bool:
    """Say whether the claim counts something in words for which the passage only gives another count."""
    said = {stem(noun): number_words(count) or {count} for count, noun in _COUNTED.findall(claim)}
    for count, noun in _COUNTED.findall(known.body) if said else ():
        other = said.get(stem(noun))
        if other and not other & (number_words(count) | {count}) and not other & known.numbers:
            return True
    return False


def _reverses(claim: str, known: Known) -> bool:
    """Say whether every clause of the passage that says nearly the same as one of the claim denies it, or it them."""
    for clause, _ in _clauses(claim):
        said, denied = core_terms(clause), denies(clause)
        if len(said) < 2 or len(said & known.terms) < ALIKE * len(said):
            continue
        alike = [
            other
            for words, other, focus in known.clauses
            if len(said & words) >= max(ALIKE * len(said), focus * len(words))
        ]
        if alike and denied not in alike:
            return True
    return False


def _by_names(claim: str, known: Known) -> Verdict:
    """Judge across languages, where only what every language writes alike can be compared."""
    called = names(claim)
    if language(claim) == "wide":
        called |= set(_LATIN.findall(claim))
    stated = numbers(claim)
    if len(called) + len(stated) < 2:
        return "unsure"
    held = [has_name(name, known.squeezed, known.terms) for name in called]
    held += [has_number(number, known.numbers) for number in stated]
    return "yes" if all(held) else "unsure"


def _clauses(text: str) -> list[tuple[str, float]]:
    """Return the sentences of a text, and the parts of those that have several, with how much of each must be shared.

    A sentence of several parts may deny one and affirm another: only nearly the whole of it can be compared.
    """
    found: list[tuple[str, float]] = []
    # A sentence may go on over lines, but not into another paragraph, list item or row.
    blocks = (" ".join(block.split()) for block in _BLOCK.split(text))
    for sentence in (one for block in blocks for one in sentences(block)):
        parts = [part for part in _CLAUSE.split(sentence) if part.strip()]
        found += [(part, FOCUSED) for part in parts]
        if len(parts) > 1:
            found.append((sentence, ALIKE))
    return found


def overlap_support(text: str, passages: Sequence[Passage], asked: str = "") -> dict[int, list[int]]:
    """Find the passage behind each sentence by shared words: the look-back without a model.

    The passage is the one that holds most of the sentence's words of content, weighed by how rare they are among the
    passages, and enough of them; none that gives other numbers or names, or denies it.
    """
    known = [Known(passage) for passage in passages]
    rarity = rarities(known)
    support: dict[int, list[int]] = {}
    for place, sentence in enumerate(sentences(text)):
        fit: dict[int, float] = {}
        for position, one in enumerate(known):
            verdict, held = judge(sentence, one, rarity, asked), share(sentence, one, rarity)
            if verdict == "yes" or (verdict == "unsure" and held >= FOUND and comparable(sentence, one)):
                fit[position] = held
        if fit:
            support[place] = [max(fit, key=fit.__getitem__)]
    return support
