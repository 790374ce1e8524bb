"""What is certainly invented: numbers, and names and commands in code, that stand nowhere in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from core.evidence.ranking import NON_CODE_KINDS
from core.language.facts import (
    extract_code_names,
    extract_commands,
    extract_numbers,
    has_code_name,
    has_number,
    strip_examples,
    to_alnum_key,
)
from core.language.prose import CODE
from core.language.tokens import count_cjk
from core.types import Passage

# A long number may be part of a name: COCO 2017 is coco2017.
MIN_NAMED_DIGITS = 4
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
    def numbers(self) -> Set[str]:
        """Its numbers, those of its list items and in names, too."""
        return extract_numbers(self.text, with_items=True)


def describe_passage(passage: Passage) -> Facts:
    """Return the facts of a passage, its title and path included."""
    return Facts(f"{passage.title}\n{passage.path}\n\n{passage.text}", passage.kind not in NON_CODE_KINDS)


def find_invented(claim: str, *texts: Facts) -> Iterator[Literal["number", "name"]]:
    """Yield the kinds of facts of a claim that stand in none of these texts."""
    is_wide = Facts(claim).is_wide
    numbers = extract_numbers(strip_examples(claim))
    if not all(any(_is_stated(number, text, is_wide) for text in texts) for number in numbers):
        yield "number"
    is_known = all(any(has_code_name(name, text.key) for text in texts) for name in extract_code_names(claim))
    if not is_known or not all(any(key in text.key for text in texts) for key in extract_commands(claim)):
        yield "name"


def _is_stated(number: str, text: Facts, is_wide: bool) -> bool:
    """Return whether a text has a number, or the number cannot be expected there."""
    # Small numbers are often counts, which another language spells out.
    is_spelled_out = is_wide != text.is_wide and len(number) < 2
    return (
        is_spelled_out or has_number(number, text.numbers) or (len(number) >= MIN_NAMED_DIGITS and number in text.key)
    )
