"""Typing errors: which words of a question may have one, and what was meant with one letter otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import ascii_lowercase

from core.language.lexicon import get_words
from core.language.prose import CODE

# Nearly every shorter word is one letter away from another one.
MIN_WORD_LETTERS = 5
MAX_WORD_LETTERS = 20
# A question of many unknown words is in another language, or about something else.
MAX_SUSPECTS = 8
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
