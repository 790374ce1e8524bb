"""What is certainly false: numbers, names in code and commands that no passage of a prompt has, and opposites."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

from core.evidence.ranking import NON_CODE_KINDS
from core.language.facts import (
    count_negations,
    extract_code_names,
    extract_numbers,
    extract_quantities,
    extract_stated_numbers,
    extract_stems,
    has_code_name,
    has_number,
    has_quantity,
    strip_literals,
    strip_quantities,
    to_alnum_key,
)
from core.language.lexicon import get_opposites
from core.language.prose import CODE, CODE_SPAN, split_clauses, split_sentences
from core.language.tokens import count_cjk, stem
from core.markup.statements import read_statements
from core.types import Passage

# The passages whose facts are kept for the next answers: many have some in common.
KEPT_PASSAGES = 256
# Two clauses are nearly equal if they share so much of the claim's, and of the passage's.
NEAR_EQUAL_OVERLAP = 0.8
MIN_CLAUSE_OVERLAP = 0.7
# What follows them are values.
MAX_COMMAND_WORDS = 3
_WORD = re.compile(r"[^\W\d_]+")
# Chinese words that negate or permit are part of the pairs around them.
_CHINESE_MODALS = re.compile("不能|不可以|不会|不需要|不必|没有|无法|无需|可以|需要|必须|请勿|切勿|禁止|会|能|不|未|勿")
# A part of an identifier is no word of the sentence.
_ENGLISH_WORD = re.compile(r"(?<![\w.-])[A-Za-z]{3,}(?![\w-])")
# As opposed to a file, an address, a version, a placeholder or a number.
_COMMAND_WORD = re.compile(r"[a-z][a-z_-]*+\d?[a-z_-]*+")
# A command behind what only starts it, in code: `sudo git remote add`, from git on, without its options.
_COMMAND = re.compile(
    r"(?:^|[`;&|$>])[ \t]*+(?>(?:[$>][ \t]*+|[A-Za-z_]\w*+=\S*+[ \t]++|(?:sudo|npx|uvx|srun|uv[ \t]run|poetry[ \t]run"
    r"|python[\d.]*+[ \t]++-m)[ \t]++(?>(?:\$\S++[ \t]++){0,4})){0,6})"
    r"([a-z][a-z_-]*+\d?(?:[ \t]++[^\s`;&|]++){1,6})",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause: its stems, with one word for both of each pair of opposites, and whether it is negated.

    `sides` has the words with an opposite: the word for both, and whether it is the second. `min_overlap` is the share
    of the clause that a claim must have to be compared with it.
    """

    stems: Set[str]
    is_negated: bool
    sides: Set[tuple[str, bool]]
    min_overlap: float

    @classmethod
    def from_text(cls, text: str, min_overlap: float) -> Clause:
        """Return the clause that a text is."""
        first_words, pattern = _load_opposites()
        sides: set[tuple[str, bool]] = set()

        def unify(match: re.Match[str]) -> str:
            word = match[0]
            side = first_words.get(stem(word.lower()) if word.isascii() else word)
            sides.update((side,) if side else ())
            return side[0] if side else word

        # Two negations cancel each other.
        is_negated = count_negations(text) % 2 == 1
        text = pattern.sub(unify, text)
        return cls(frozenset(extract_stems(_CHINESE_MODALS.sub(" ", text))), is_negated, sides, min_overlap)

    def has_opposite_of(self, other: Clause) -> bool:
        """Return whether two clauses differ in one negation, or in one word and its opposite; two of these cancel out.

        A clause with both words of a pair may mean either.
        """
        opposites = [side for side in self.sides - other.sides if (side[0], not side[1]) in other.sides - self.sides]
        return (len(opposites) + (self.is_negated != other.is_negated)) % 2 == 1


@cache
def _load_opposites() -> tuple[dict[str, tuple[str, bool]], re.Pattern[str]]:
    """Return for each word with an opposite the first of its pair and whether it is on the second side; a pattern."""
    first_words = {
        stem(word) if word.isascii() else word: (pair[0][0], is_second)
        for pair in (*get_opposites("en"), *get_opposites("zh"))
        for is_second, side in zip((False, True), pair, strict=True)
        for word in side
    }
    chinese = "|".join(word for word in first_words if not word.isascii())
    return first_words, re.compile(f"{_ENGLISH_WORD.pattern}|{chinese}")


@dataclass(frozen=True)
class Facts:
    """The facts of a text; each kind is read when it is first needed.

    `is_code` says that it is the code of a program: what it counts, people compute or say in their own words.
    """

    text: str
    is_code: bool = False

    @cached_property
    def key(self) -> str:
        """Its letters and digits."""
        return to_alnum_key(self.text)

    @cached_property
    def is_wide(self) -> bool:
        """Whether it is written in Chinese, Japanese or Korean, apart from its code."""
        text = CODE.sub(" ", self.text)
        # One Chinese character counts about as much as half a word.
        return count_cjk(text) > len([word for word in _WORD.findall(text) if word.isascii()])

    @cached_property
    def numbers(self) -> Set[str]:
        """Its numbers, those in names and words, too."""
        return extract_stated_numbers(self.text)

    @cached_property
    def unitless_numbers(self) -> Set[str]:
        """Its numbers without a unit."""
        return extract_stated_numbers(strip_quantities(self.text))

    @cached_property
    def quantities(self) -> Set[float]:
        """Its times and sizes, in seconds and bytes."""
        return frozenset(value for _, value in extract_quantities(self.text))

    @cached_property
    def commands(self) -> Set[tuple[str, ...]]:
        """The first words of its commands, without options."""
        return _find_commands(self.text)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """Its sentences and clauses."""
        prose = [block.text for block in read_statements(self.text) if block.kind in ("prose", "item", "row")]
        return tuple(clause for text in prose for clause in _split_clauses(text))


def _unite(name: str) -> cached_property[Set[Any]]:
    return cached_property(lambda facts: frozenset().union(*(getattr(passage, name) for passage in facts.passages)))


@dataclass(frozen=True)
class PromptFacts(Facts):
    """The facts of all passages of a prompt: what was read of one for earlier prompts is not read again."""

    passages: Sequence[Facts] = ()
    numbers = _unite("numbers")
    unitless_numbers = _unite("unitless_numbers")
    quantities = _unite("quantities")
    commands = _unite("commands")

    @cached_property
    def key(self) -> str:
        """The letters and digits of all passages."""
        return "".join(facts.key for facts in self.passages)


def _find_commands(text: str) -> Set[tuple[str, ...]]:
    commands = (tuple(word for word in command.split() if word[0] != "-") for command in _COMMAND.findall(text))
    return frozenset(command[:MAX_COMMAND_WORDS] for command in commands if len(command) > 1)


def describe_passage(passage: Passage) -> Facts:
    """Return the facts of a passage, its title and path included."""
    return _get_facts(f"{passage.title}\n{passage.path}\n\n{passage.text}", passage.kind not in NON_CODE_KINDS)


@lru_cache(maxsize=KEPT_PASSAGES)
def _get_facts(text: str, is_code: bool) -> Facts:
    return Facts(text, is_code)


class ClaimFacts:
    """The facts of a claim that the passages of a prompt have to state; not those that were said before."""

    def __init__(self, claim: str, known: Facts) -> None:
        self.is_wide = Facts(claim).is_wide
        self._numbers = {
            number for number in extract_numbers(strip_literals(claim)) if not has_number(number, known.numbers)
        }
        self._quantities: defaultdict[str, list[float]] = defaultdict(list)
        for number, value in extract_quantities(claim):
            self._quantities[number].append(value)
        self._names = [name for name in extract_code_names(claim) if to_alnum_key(name) not in known.key]
        commands = _find_commands("\n".join(CODE_SPAN.findall(claim)))
        self._commands = [command for command in commands if to_alnum_key("".join(command[:2])) not in known.key]
        self._clauses = _split_clauses(claim)

    def find_invented(self, prompt: Facts) -> Iterator[str]:
        """Yield the kinds of facts of the claim that stand nowhere in all passages of a prompt."""
        if not all(self._is_stated(number, prompt) for number in self._numbers):
            yield "number"
        if not all(has_code_name(name, prompt.key) for name in self._names):
            yield "name"
        if any(self._is_other_command(command, prompt) for command in self._commands):
            yield "command"

    def has_opposite_in(self, passage: Facts) -> bool:
        """Return whether all in a passage that nearly equals a clause of the claim says the opposite of it."""
        if self.is_wide != passage.is_wide:
            return False
        for own in self._clauses:
            size = len(own.stems)
            near_equal = [
                clause
                for clause in (passage.clauses if size > 1 else ())
                if len(own.stems & clause.stems)
                >= max(NEAR_EQUAL_OVERLAP * size, clause.min_overlap * len(clause.stems))
            ]
            if near_equal and all(clause.has_opposite_of(own) for clause in near_equal):
                return True
        return False

    def _is_stated(self, number: str, prompt: Facts) -> bool:
        """Return whether a prompt has a number, or the number cannot be expected there."""
        # Small numbers are often counts, which another language spells out.
        if len(number) < 2 and self.is_wide != prompt.is_wide:
            return True
        values = self._quantities.get(number)
        if not values:
            # A long number may be part of a name: COCO 2017 is coco2017.
            return has_number(number, prompt.numbers) or (len(number) > 3 and number in prompt.key)
        # 30 seconds are not 30 days: the number alone counts only without a unit.
        return has_number(number, prompt.unitless_numbers) or any(
            has_quantity(value, prompt.quantities, prompt.unitless_numbers) for value in values
        )

    @staticmethod
    def _is_other_command(command: Sequence[str], facts: Facts) -> bool:
        """Return whether a passage has other commands of the same program, or does the same with another program.

        What follows a word is a value if any passage of it is none of a command's words.
        """
        for count in range(1, len(command)):
            word = command[count]
            following = {other[count] for other in facts.commands if other[:count] == command[:count] and other[count:]}
            if word in following or (count > 1 and word in facts.key):
                continue
            if not all(map(_COMMAND_WORD.fullmatch, (word, *following))):
                return False
            is_of_other_program = count == 1 and command[0] not in facts.key
            return bool(following) or (is_of_other_program and any(other[1] == word for other in facts.commands))
        return False


def _split_clauses(text: str) -> list[Clause]:
    """Return the sentences of a text, and their clauses.

    A sentence may negate one clause and affirm another: a claim must have nearly all of it to be compared.
    """
    clauses: list[Clause] = []
    for sentence in split_sentences(text):
        parts = split_clauses(sentence)
        clauses += [Clause.from_text(part, MIN_CLAUSE_OVERLAP) for part in parts]
        if len(parts) > 1:
            clauses.append(Clause.from_text(sentence, NEAR_EQUAL_OVERLAP))
    return clauses
