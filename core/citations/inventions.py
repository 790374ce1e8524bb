"""What is certainly invented: numbers, and names and commands in code, that stand nowhere in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from core.evidence.ranking import NON_CODE_KINDS
from core.language.facts import (
    extract_code_names,
    extract_commands,
    extract_numbers,
    has_code_name,
    strip_examples,
    to_alnum_key,
)
from core.language.languages import identify_language
from core.language.prose import CODE
from core.language.tokens import count_cjk
from core.types import Passage

# The passages whose facts are kept for the next answers: many have some in common.
KEPT_PASSAGES = 256
# A long number may be part of a name: COCO 2017 is coco2017.
_LONG_NUMBER = re.compile(r"\d{4,}")
_LATIN_WORD = re.compile(r"[^\W\d_]+")


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
        return count_cjk(text) > len([word for word in _LATIN_WORD.findall(text) if word.isascii()])

    @cached_property
    def language(self) -> str:
        """The code of its language; of names and code alone that of English, which they have in common."""
        return identify_language(self.text) or "en"

    @cached_property
    def numbers(self) -> Set[str]:
        """Its numbers, long ones in names, too."""
        return extract_numbers(self.text) | set(_LONG_NUMBER.findall(self.text))


def describe_passage(passage: Passage) -> Facts:
    """Return the facts of a passage, its title and path included."""
    return _get_facts(f"{passage.title}\n{passage.path}\n\n{passage.text}", passage.kind not in NON_CODE_KINDS)


@lru_cache(maxsize=KEPT_PASSAGES)
def _get_facts(text: str, is_code: bool) -> Facts:
    return Facts(text, is_code)


def find_invented(claim: str, passages: Sequence[Facts], known: Facts) -> Iterator[Literal["number", "name"]]:
    """Yield the kinds of facts of a claim that stand neither in the passages of a prompt nor in what is known."""
    numbers = extract_numbers(strip_examples(claim))
    texts = (*passages, known)
    if not all(any(number in text.numbers for text in texts) for number in numbers):
        yield "number"
    is_known = all(any(has_code_name(name, text.key) for text in texts) for name in extract_code_names(claim))
    if not is_known or not all(any(key in text.key for text in texts) for key in extract_commands(claim)):
        yield "name"
