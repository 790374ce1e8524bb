"""The words of the lexical column, made the same way at index and at query time, in every store.

Identifiers are kept whole and split as well (camelCase, snake_case, dots); Chinese, Japanese and Korean runs become pairs
of characters, which finds as much as a word splitter and needs no dictionary.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_TOKEN = 64

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])\w)+(?:[._\-](?:(?![{_CJK}])\w)+)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_MARK = re.compile(r"[\u0300-\u036f]")
_STOP = frozenset(
    "a an and are as at be but by can do does for from has have how i if in into is it its my not of on or our so "
    "such that the their then there these they this to was we what when where which who why will with you your".split()
)


def lexical_tokens(text: str) -> str:
    """Return the tokens of a text, lower-case, joined by spaces; repetition is kept, for BM25 counts it."""
    return " ".join(_tokens(text))


def query_tokens(text: str, limit: int = 64) -> str:
    """Return the distinct tokens of a query in order, at most `limit`, joined by spaces."""
    return " ".join(list(dict.fromkeys(_tokens(text)))[:limit])


def _tokens(text: str) -> list[str]:
    if not text.isascii():
        # Accents are folded; compatibility forms such as full-width letters become plain ones.
        text = unicodedata.normalize("NFC", _MARK.sub("", unicodedata.normalize("NFKD", text)))
    found: list[str] = []
    for run in _RUN.findall(text):
        if run[0] >= "\u3040" and re.match(rf"[{_CJK}]", run):
            found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
        else:
            found += _of_word(run)
    return found


def _of_word(run: str) -> list[str]:
    if len(run) > LONGEST_TOKEN:
        # Hashes and encoded data are noise; a long dotted path is still good for its parts.
        return [stem(part.lower()) for part in _PART.findall(run) if 1 < len(part) <= 20] if run.count(".") > 1 else []
    parts = [part.lower() for part in _PART.findall(run)]
    whole = "".join(parts)
    if len(parts) <= 1:
        return [] if not whole or whole in _STOP else [stem(whole)]
    return [whole, *(stem(part) for part in parts if part not in _STOP)]


def stem(word: str) -> str:
    """Cut the plural off an English word, and nothing else: identifiers must keep their shape."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
