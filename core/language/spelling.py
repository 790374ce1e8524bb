"""Typing errors: which words of a question may have one, and what was meant with one letter otherwise.

What is an English word, as far as a dictionary explains others with it, is no typing error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from functools import cache
from string import ascii_lowercase

from core.language.glossary import read_dictionary
from core.language.languages import identify_language
from core.language.lexicon import get_words
from core.language.prose import CODE
from core.language.tokens import stem, stem_all

# Nearly every shorter word is one letter away from another one.
MIN_WORD_LETTERS = 5
MAX_WORD_LETTERS = 20
# A question of many unknown words is in another language, or about something else.
MAX_SUSPECTS = 8
# The pronunciations have digits.
_MEANING = re.compile(r"(?<![\w'])[a-z]{3,20}(?![\w'])")
_LETTERS = re.compile(r"[^\W\d_]+")
# Fewer words, such as those of a search, may all be mistyped.
MIN_WORDS = 4
# Words as prose has them: without digits, signs or capitals inside, and no part of a path, an address or an option.
_WORD = re.compile(
    rf"(?<![\w./\\@:#$%&=+~<>'’-])[A-Za-z][a-z]{{{MIN_WORD_LETTERS - 1},{MAX_WORD_LETTERS - 1}}}"
    r"(?![\w/\\@#$%&=+~<>'’(\[{-]|[.:]\S)"
)


def find_suspects(text: str) -> list[str]:
    """Return the words of a text, in lower case, that may have typing errors: no names, and nothing in code spans.

    >>> find_suspects("How do I set `proxi_url` for markdwon with --verbsoe?")
    ['markdwon']
    """
    words = dict.fromkeys(match[0].lower() for match in _WORD.finditer(CODE.sub(" ", text)))
    usual = get_words("en", "function_words", "grammar_words", "question_words")
    return [word for word in words if word not in usual]


def iter_near_words(word: str) -> Iterator[str]:
    """Yield everything that is one typing error away from a word in lower case, each once.

    Two neighbouring letters changed places, or one letter is missing, too many, or another one. The first letter is
    hardly ever wrong in another way; other names often differ in it (mamba, samba).

    >>> "markdown" in iter_near_words("markdwon")
    True
    """
    splits = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    swapped = [head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1]
    shorter = [head + tail[1:] for head, tail in splits[1:] if tail]
    replaced = [head + letter + tail[1:] for head, tail in splits[1:] if tail for letter in ascii_lowercase]
    longer = [head + letter + tail for head, tail in splits[1:] for letter in ascii_lowercase]
    yield from (near for near in dict.fromkeys((*swapped, *shorter, *replaced, *longer)) if near != word)


def replace_words(text: str, corrections: Mapping[str, str]) -> str:
    """Return a text with other words in place of some, which are in lower case; code spans stay."""
    code = [match.span() for match in CODE.finditer(text)]

    def correct(match: re.Match[str]) -> str:
        is_code = any(start <= match.start() < end for start, end in code)
        return match[0] if is_code else corrections.get(match[0].lower(), match[0])

    return _WORD.sub(correct, text)


async def prepare_english_words() -> None:
    """Read the words in a thread: that takes about a second, once."""
    await asyncio.to_thread(_load_stems)


def is_english(word: str) -> bool:
    """Return whether a word in lower case is a form of an English one. The words have to be prepared.

    >>> is_english("theming"), is_english("themign")
    (True, False)
    """
    return stem(word) in _load_stems()


def may_be_english(text: str) -> bool:
    """Return whether a text shows no other language than English. The words have to be prepared.

    >>> may_be_english("server startet nicht"), may_be_english("srever does not start"), may_be_english("srever")
    (False, True, True)
    """
    language = identify_language(text, min_words=1)
    if language:
        return language == "en"
    words = _LETTERS.findall(text.lower())
    english_count = sum(map(is_english, words))
    return all(word.isascii() for word in words) and (len(words) < MIN_WORDS or 2 * english_count > len(words))


@cache
def _load_stems() -> frozenset[str]:
    return stem_all(set(_MEANING.findall(read_dictionary())))
