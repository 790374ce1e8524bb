"""Finds words and patterns in a text as people read it, however they are spelled or split, in bounded time."""

from __future__ import annotations

import html
import time
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any
from urllib.parse import unquote

import regex

# For all patterns in one text, seconds: only a pattern that backtracks without end takes longer.
SEARCH_S = 1.0
MAX_CUTS = 8
TOO_SLOW = "patterns: the search took too long"
# What looks like one character: with its accents and joiners, a reference to it as in HTML, or its bytes in an address.
_CHARACTER = r"&#?\w{1,31};|(?:%[0-9A-Fa-f]{2}){1,255}|\X"
# What people do not see of Markdown: where a line of a quotation begins, where a link leads, and other signs.
_MARK = r"^(?:[ \t]*>)+|!?\[|\](?:\((?:[^()\n]|\([^()\n]*\))*(?:\)|\Z)|\[[^\[\]\n]*\])?|[*_~`\\]"
_READINGS = (regex.compile(_CHARACTER), regex.compile(rf"(?P<mark>{_MARK})|{_CHARACTER}", regex.MULTILINE))
_CONTROL = regex.compile(r"[\p{Cc}--[\t\n]]", regex.V1)
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\u0300-\u036f]+")
# Around words of other scripts there are no spaces, or endings follow them.
_SPACED_LETTER = (
    r"[[\p{L}\p{N}\p{M}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]"
)
_BEGINS_SPACED = regex.compile(_SPACED_LETTER, regex.V1)
_WORD_FLAGS = regex.V1 | regex.IGNORECASE | regex.FULLCASE


class WordFilter:
    """Finds any of these words, whole and in any case, and what these regular expressions match."""

    def __init__(self, words: Sequence[str] = (), patterns: Sequence[str] = ()) -> None:
        self._word_numbers = {fold_word(word).casefold(): number for number, word in enumerate(words)}
        self._patterns = {f"patterns.{number}": compile_pattern(pattern) for number, pattern in enumerate(patterns)}
        if words:
            self._patterns["words"] = _compile_words(words)

    def find(self, text: str) -> str:
        """Return which is found, such as `words.0`, or ""; never what, which may be a secret.

        A pattern that takes too long counts as found: nobody knows.
        """
        try:
            for name, match, _ in self._search(text, is_growing=False):
                number = self._word_numbers.get(match.group().casefold())
                return f"words.{number}" if name == "words" and number is not None else name
        except TimeoutError:
            return TOO_SLOW
        return ""

    def count_settled(self, text: str) -> int:
        """Return how many characters of a growing text belong to nothing that is found, whatever comes after them."""
        settled_count = len(text)
        # A cut may end a word that went on.
        for _ in range(MAX_CUTS):
            shown = text[:settled_count]
            try:
                settled_count = min((start for _, _, start in self._search(shown, is_growing=True)), default=len(shown))
            except TimeoutError:
                return 0
            if settled_count == len(shown):
                return settled_count
        return 0

    def _search(self, text: str, *, is_growing: bool) -> Iterator[tuple[str, regex.Match[str], int]]:
        """Yield the first match of each pattern in each reading, with the pattern's name and its place in the text."""
        deadline = time.monotonic() + SEARCH_S
        for reading, places in _read(text):
            for name, pattern in self._patterns.items():
                # A partial match may come before a whole one, and after it.
                for is_partial in (False, True) if is_growing else (False,):
                    timeout_s = max(0.01, deadline - time.monotonic())
                    match = pattern.search(reading, partial=is_partial, timeout=timeout_s, concurrent=True)
                    if match and (match.group() or match.partial):
                        yield name, match, places[match.start()]


@lru_cache(maxsize=8)
def make_word_filter(words: tuple[str, ...], patterns: tuple[str, ...]) -> WordFilter:
    """Return the filter of these words and patterns, which is made once."""
    return WordFilter(words, patterns)


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Return a regular expression. Raises `ValueError` for one that has an error, or that matches every text."""
    try:
        compiled_pattern = regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if compiled_pattern.search("", timeout=SEARCH_S):
        raise ValueError(f"{pattern!r} matches an empty text, and so every text")
    return compiled_pattern


def _compile_words(words: Sequence[str]) -> regex.Pattern[str]:
    """Return a pattern of all words; the edge of a word that has letters of a script with spaces is the word's end."""
    groups: dict[str, list[str]] = {}
    for word in words:
        folded_word = fold_word(word)
        before = rf"(?<!{_SPACED_LETTER})" if _BEGINS_SPACED.match(folded_word) else ""
        after = rf"(?!{_SPACED_LETTER})" if _BEGINS_SPACED.match(folded_word[-1]) else ""
        groups.setdefault(rf"{before}\L<group>{after}", []).append(folded_word)
    alternatives = [form.replace("group", f"group{number}") for number, form in enumerate(groups)]
    lists: Any = {f"group{number}": group for number, group in enumerate(groups.values())}
    return regex.compile("|".join(alternatives), _WORD_FLAGS, **lists)


def _read(text: str) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the text as it is, without what is invisible, and without marks as well; with the place of each character.

    Each reading is yielded once, and the place behind its last character is the text's end.
    """
    yield text, range(len(text) + 1)
    readings = {text}
    # Some platforms show nothing for a control character, others a blank or a new line.
    blanks = ("", " ") if _CONTROL.search(text) else ("",)
    for pattern, blank in product(_READINGS, blanks):
        parts: list[str] = []
        places: list[int] = []
        for match in pattern.finditer(text):
            character = "" if match.groupdict().get("mark") else _fold(match.group(), blank)
            is_repeated_space = character == " " and parts[-1:] == [" "]
            if character and not is_repeated_space:
                parts.append(character)
                places += [match.start()] * len(character)
        reading = "".join(parts)
        if reading not in readings:
            readings.add(reading)
            yield reading, [*places, len(text)]


def fold_word(word: str) -> str:
    """Return a word as it is searched. Raises `ValueError` for one that nobody could see."""
    folded_word = " ".join("".join(map(_fold, _READINGS[0].findall(word))).split())
    if not folded_word:
        raise ValueError(f"{word!r} has nothing that people can see")
    return folded_word


@lru_cache(maxsize=4096)
def _fold(character: str, blank: str = "") -> str:
    """Return a character in its usual form: none for an invisible one, a space for any blank.

    `blank` is what a control character is shown as.
    """
    if _CONTROL.fullmatch(character):
        return blank
    if character.isspace():
        return " "
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", unquote(html.unescape(character))))
