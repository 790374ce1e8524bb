"""Whether a passage supports a sentence, judged by words, numbers, names and negations.

A wrong rejection costs the reader a good link; a missed one only leaves a weak link. In doubt the verdict is "unsure".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from core.citations.defaults import gives_other_default
from core.citations.layout import contradicts_layout
from core.citations.opposites import count_opposites, unify_opposites
from core.citations.shell_commands import extract_commands, has_command, unfold_code_spans
from core.language.facts import (
    extract_claimed_numbers,
    extract_code_names,
    extract_core_stems,
    extract_identifiers,
    extract_negated_stems,
    extract_number_words,
    extract_numbers,
    extract_quantities,
    extract_stated_numbers,
    extract_stems,
    has_code_name,
    has_identifier,
    has_number,
    has_quantity,
    is_negated,
    is_part_of_name,
    is_usual_amount,
    strip_quantities,
    to_alnum_key,
)
from core.language.lexicon import get_words
from core.language.prose import CODE, split_clauses, split_sentences
from core.language.tokens import count_cjk, stem
from core.markup.statements import read_statements
from core.types import Passage

SupportVerdict = Literal["yes", "no", "unsure"]

# Chosen on one half of tests/core/data/citations.jsonl and confirmed on the other: docs/evaluate.md.
MIN_SUPPORT_OVERLAP = 0.5
MIN_LOOK_BACK_OVERLAP = 0.25
NEAR_EQUAL_OVERLAP = 0.8
MIN_CLAUSE_OVERLAP = 0.5
# A claim with fewer content words says too little to be judged by them.
MIN_STEMS = 3
_WORD = re.compile(r"[^\W\d_]+")
_LATIN_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")
# A statement that something is missing from the evidence.
_ABSENCE_STATEMENT = re.compile(
    r"\b(?:does|do|did|is|are)(?: not|n[’']t) (?:\w+ ){0,2}"
    r"(?:mention|say|state|contain|cover|describe|specify|specified|document|list)(?:e?d)?\b"
    r"|\bno (?:information|mention|passage)|没有(?:提到|提及|说明|说)|未(?:提到|提及|说明)",
    re.IGNORECASE,
)

_COUNTED_NOUN = re.compile(
    r"(?<![\w.])(?<!\d[,\s])(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|"
    r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s+([a-z]{3,})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class PassageFeatures:
    """Features of a passage, its title and path included; each is computed when it is first needed."""

    passage: Passage

    @cached_property
    def body(self) -> str:
        """The passage's own text, each code span on one line."""
        return unfold_code_spans(self.passage.text)

    @cached_property
    def text(self) -> str:
        """Title, path and text."""
        return f"{self.passage.title}\n{self.passage.path}\n{self.body}"

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of its content words."""
        return frozenset(extract_stems(self.text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Its numbers, also numbers inside names and number words."""
        return frozenset(extract_stated_numbers(self.text))

    @cached_property
    def quantities(self) -> frozenset[float]:
        """Its times and sizes, in seconds and bytes."""
        return frozenset(value for _, value in extract_quantities(self.text))

    @cached_property
    def unitless_numbers(self) -> frozenset[str]:
        """Its numbers without a unit."""
        return frozenset(extract_stated_numbers(strip_quantities(self.text)))

    @cached_property
    def alnum_text(self) -> str:
        """Only its letters and digits."""
        return to_alnum_key(self.text)

    @cached_property
    def prose(self) -> tuple[str, ...]:
        """Its paragraphs, list items and table rows, those in notes and the like, too, without code."""
        return tuple(block.text for block in read_statements(self.body) if block.kind in ("prose", "item", "row"))

    @cached_property
    def language_class(self) -> str:
        """The class of its language, as `classify_language` returns it."""
        return classify_language("\n".join(self.prose) or self.body)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """Its sentences and clauses."""
        return tuple(clause for text in self.prose for clause in _split_clauses(text))

    @cached_property
    def clause_stems(self) -> frozenset[str]:
        """The stems of all its clauses, where words and their opposites have the same."""
        return frozenset().union(*(clause.stems for clause in self.clauses))


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause or sentence: its stems, whether it is negated, and the stems that its last negation is about.

    `opposites` are its words that have an opposite, as `unify_opposites` returns them; the opposite has the same stem.
    `min_overlap` is the share of it that a claim must have to be compared with it.
    """

    stems: frozenset[str]
    is_negated: bool
    negated_stems: frozenset[str]
    opposites: Mapping[int, bool | None]
    min_overlap: float

    @classmethod
    def from_text(cls, text: str, min_overlap: float) -> Clause:
        """Return the clause that a text is."""
        text, opposites = unify_opposites(text)
        negated = is_negated(text)
        negated_stems = extract_negated_stems(text) if negated else frozenset()
        return cls(extract_core_stems(text), negated, negated_stems, opposites, min_overlap)

    def has_opposite_of(self, other: Clause) -> bool:
        """Return whether two clauses differ in one negation, or in one word and its opposite; two of these cancel out.

        A negation counts where it is about something that the other clause has as well.
        """
        difference_count = count_opposites(self.opposites, other.opposites)
        if self.is_negated != other.is_negated:
            negated, affirmed = (self, other) if self.is_negated else (other, self)
            if negated.negated_stems and not negated.negated_stems & affirmed.stems:
                return False
            difference_count += 1
        return difference_count % 2 == 1

    def has_both_sides_of(self, other: Clause) -> bool:
        """Return whether this clause has both a word of the other and its opposite: it may mean either."""
        return any(pair in self.opposites and self.opposites[pair] is None for pair in other.opposites)


def classify_language(text: str) -> str:
    """Return the language class that the comparison of words needs: "wide" (CJK), "english", or an empty string."""
    # Code is written alike in all languages.
    text = CODE.sub(" ", text)
    words = _WORD.findall(text.lower())
    cjk_count = count_cjk(text)
    # One Chinese character counts about as much as half a word.
    if cjk_count > len([word for word in words if word.isascii()]):
        return "wide"
    function_words = get_words("en", "function_words")
    stopword_count = sum(word in function_words for word in words)
    return "english" if stopword_count >= 0.12 * len(words) and stopword_count else ""


def get_idf_weights(passages: Sequence[PassageFeatures]) -> Mapping[str, float]:
    """Return the weight of every term: the fewer passages have it, the higher."""
    counts = Counter(term for features in passages for term in features.stems)
    return {term: 1 / (1 + count) for term, count in counts.items()}


def get_weighted_overlap(claim: str, features: PassageFeatures, idf: Mapping[str, float]) -> float:
    """Return the share of a claim's content words that a passage has, 0 to 1, weighted by `idf`."""
    weights = {term: idf.get(term, 1.0) for term in extract_stems(claim)}
    total_weight = sum(weights.values())
    return (
        sum(weight for term, weight in weights.items() if term in features.stems) / total_weight
        if total_weight
        else 0.0
    )


def check_support(
    claim: str, features: PassageFeatures, idf: Mapping[str, float], question: str = ""
) -> SupportVerdict:
    """Return whether a passage supports a claim, judged by words alone. What the question says needs no support."""
    if _ABSENCE_STATEMENT.search(claim):
        return "unsure"
    if _contradicts(claim, features, question):
        return "no"
    if (
        get_weighted_overlap(claim, features, idf) >= MIN_SUPPORT_OVERLAP
        and len(set(extract_stems(claim))) >= MIN_STEMS
    ):
        return "yes"
    return "unsure" if is_comparable(claim, features) else _compare_identifiers(claim, features)


def is_comparable(claim: str, features: PassageFeatures) -> bool:
    """Return whether words that a passage lacks are evidence: the claim has enough words, in the passage's language."""
    if _ABSENCE_STATEMENT.search(claim) or len(set(extract_stems(claim))) < MIN_STEMS:
        return False
    language_class = classify_language(claim)
    return language_class == features.language_class == "english" or (
        language_class == "wide" == features.language_class
    )


def _contradicts(claim: str, features: PassageFeatures, question: str) -> bool:
    """Return whether a claim has a number, names or a command that the passage lacks, or says its opposite."""
    language_class = classify_language(claim)
    if "wide" in (language_class, features.language_class) and language_class != features.language_class:
        return False
    is_foreign = language_class != features.language_class
    if any(
        not _is_stated(number, claim, features, is_foreign)
        for number in extract_claimed_numbers(claim) - extract_numbers(question)
    ):
        return True
    if _has_other_count(claim, features):
        return True
    question_key = to_alnum_key(question)
    code_names = [name for name in extract_code_names(claim) if to_alnum_key(name) not in question_key]
    if not all(has_code_name(name, features.alnum_text) for name in code_names):
        return True
    identifiers = [name for name in extract_identifiers(claim) if to_alnum_key(name) not in question_key]
    if identifiers and 2 * sum(
        has_identifier(identifier, features.alnum_text, features.stems) for identifier in identifiers
    ) <= len(identifiers):
        return True
    return (
        _gives_other_command(claim, features, question_key)
        or gives_other_default(claim, features.body)
        or contradicts_layout(claim, features.body)
        or (not is_foreign and _says_opposite(claim, features))
    )


def _gives_other_command(claim: str, features: PassageFeatures, question_key: str) -> bool:
    """Return whether a claim has a command that neither the passage nor the question has."""
    commands = [words for words in extract_commands(claim) if to_alnum_key("".join(words)) not in question_key]
    return any(not has_command(words, features.text, features.stems) for words in commands)


def _is_stated(number: str, claim: str, features: PassageFeatures, is_foreign: bool) -> bool:
    """Return whether a passage has a number, or the number cannot be expected there."""
    # Small numbers are often counts, which another language spells out. Percentages are often computed.
    if (is_foreign and len(number) < 2) or (f"{number}%" in claim and "%" not in features.body):
        return True
    values = [value for quantity_number, value in extract_quantities(claim) if quantity_number == number]
    if not values:
        return has_number(number, features.numbers) or is_part_of_name(number, claim, features.text)
    # 30 seconds are not 30 days: the number alone counts only without a unit.
    return has_number(number, features.unitless_numbers) or any(
        has_quantity(value, features.quantities) or is_usual_amount(value, features.unitless_numbers)
        for value in values
    )


def _has_other_count(claim: str, features: PassageFeatures) -> bool:
    """Return whether the claim gives a count of something for which the passage only gives another count."""
    claimed_counts = dict(_iter_counts(claim))
    for noun, count in _iter_counts(features.body) if claimed_counts else ():
        claimed_count = claimed_counts.get(noun)
        if claimed_count and not claimed_count & count and not claimed_count & features.numbers:
            return True
    return False


def _iter_counts(text: str) -> Iterator[tuple[str, Set[str]]]:
    """Yield the stem of each counted noun with the numbers that its count may be: 1,024 is written 1024, too."""
    for count, noun in _COUNTED_NOUN.findall(text):
        yield stem(noun), extract_number_words(count) or {count.replace(",", "")}


def _says_opposite(claim: str, features: PassageFeatures) -> bool:
    """Return whether every clause of the passage that nearly equals a clause of the claim says the opposite of it."""
    for claim_clause in _split_clauses(claim):
        size = len(claim_clause.stems)
        if size < 2 or len(claim_clause.stems & features.clause_stems) < NEAR_EQUAL_OVERLAP * size:
            continue
        near_equal = [
            clause
            for clause in features.clauses
            if len(claim_clause.stems & clause.stems)
            >= max(NEAR_EQUAL_OVERLAP * size, clause.min_overlap * len(clause.stems))
            and not clause.has_both_sides_of(claim_clause)
        ]
        if near_equal and all(clause.has_opposite_of(claim_clause) for clause in near_equal):
            return True
    return False


def _compare_identifiers(claim: str, features: PassageFeatures) -> SupportVerdict:
    """Return the verdict across languages: only identifiers and numbers are written alike in all of them."""
    identifiers = extract_identifiers(claim)
    if classify_language(claim) == "wide":
        identifiers |= set(_LATIN_WORD.findall(claim))
    claim_numbers = extract_numbers(claim)
    if len(identifiers) + len(claim_numbers) < 2:
        return "unsure"
    matches = [has_identifier(identifier, features.alnum_text, features.stems) for identifier in identifiers]
    matches += [has_number(number, features.numbers) for number in claim_numbers]
    return "yes" if all(matches) else "unsure"


def _split_clauses(text: str) -> list[Clause]:
    """Return the clauses and sentences of a text in one paragraph.

    A sentence may negate one clause and affirm another: a claim must have nearly all of it to be compared.
    """
    clauses: list[Clause] = []
    for sentence in split_sentences(text):
        clause_texts = split_clauses(sentence)
        clauses += [Clause.from_text(clause_text, MIN_CLAUSE_OVERLAP) for clause_text in clause_texts]
        if len(clause_texts) > 1:
            clauses.append(Clause.from_text(sentence, NEAR_EQUAL_OVERLAP))
    return clauses


def find_support_by_overlap(text: str, passages: Sequence[Passage], question: str = "") -> dict[int, list[int]]:
    """Find the passage behind each sentence by shared words: the look-back without a model.

    It is the passage with the largest weighted overlap, if that is large enough and the passage has no other numbers or
    names and no opposite negation.
    """
    passage_features = [PassageFeatures(passage) for passage in passages]
    idf = get_idf_weights(passage_features)
    support: dict[int, list[int]] = {}
    for index, sentence in enumerate(split_sentences(text)):
        overlaps: dict[int, float] = {}
        for position, features in enumerate(passage_features):
            verdict = check_support(sentence, features, idf, question)
            overlap = get_weighted_overlap(sentence, features, idf)
            if verdict == "yes" or (
                verdict == "unsure" and overlap >= MIN_LOOK_BACK_OVERLAP and is_comparable(sentence, features)
            ):
                overlaps[position] = overlap
        if overlaps:
            support[index] = [max(overlaps, key=overlaps.__getitem__)]
    return support
