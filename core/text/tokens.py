"""The words of the lexical index: a text becomes space-joined tokens, the same way for passages and for queries.

Identifiers are indexed whole and split, text without spaces between its words (Chinese, Japanese, Korean) as pairs of
characters, accents are folded, English stop words left out and English endings cut. A store splits at the spaces and
does nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

LONGEST_TOKEN = 64
# Of more parts than this, a compound is hardly ever searched as a whole.
MOST_PARTS = 4
# Han, hiragana, katakana and Hangul, without their punctuation and lone marks. Compatibility forms are folded before.
UNSPACED = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0002a6df"
)
LETTER = rf"[^\W_{UNSPACED}]"
# A run of characters without spaces between its words, or words joined by underscores, dots and hyphens.
RUNS = re.compile(rf"[{UNSPACED}]+|{LETTER}+(?:(?:_+|[.\-]){LETTER}+){{0,7}}")
UNSPACED_RUN = re.compile(f"[{UNSPACED}]")
JOINTS = re.compile(r"[_.\-]+")
NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
# Encoded data: long, and of letters, digits, plus and slash only. Paths have dots, hyphens or underscores.
BLOB = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{128,}={0,2}")
# HTTPServer: HTTP Server; parseURLs: parse URLs; Llama3Model: Llama3 Model.
CAMEL = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
WORD_NUMBER = re.compile(r"([a-z]{2,})(\d+)")
VOWEL = re.compile(r"[aeiouy]")
VOICING_MARKS = "\u3099\u309a"
WITHOUT_DECOMPOSITION = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"})
ENGLISH_STOP_WORDS = (
    "a about am an and any are as at be been being but by can could did didn do does doesn doing don for from had has "
    "have having he her his how i if in into is isn it its just ll me my of on or our s she should so some such t than "
    "that the their them then there these they this those to too us ve was we were what when where which who whom why "
    "will with would you your"
)
STOP_WORDS = frozenset(ENGLISH_STOP_WORDS.split())


def lexical_tokens(text: str) -> str:
    """Return the tokens of a passage, space-joined: lower-case word characters only, repetitions kept."""
    return " ".join(_tokens(text))


def query_tokens(text: str, limit: int = 64) -> str:
    """Return the first `limit` different tokens of a query, space-joined; empty when it consists of stop words."""
    seen: dict[str, None] = {}
    for tokens in _tokens(text):
        seen.update(dict.fromkeys(tokens.split()))
        if len(seen) >= limit:
            break
    return " ".join(list(seen)[:limit])


def _tokens(text: str) -> Iterator[str]:
    """Yield the tokens of one run after the other, those of one run space-joined."""
    text = BLOB.sub(" ", text)
    if not text.isascii():
        text = NOT_ASCII.sub(_folded, text)
    for run in RUNS.findall(text):
        tokens = _pairs(run) if UNSPACED_RUN.match(run) else _identifier(run)
        if tokens:
            yield tokens


def _folded(run: re.Match[str]) -> str:
    """Decompose compatibility forms, drop accents and vowel points, compose what is left (Hangul, kana) again."""
    decomposed = unicodedata.normalize("NFKD", run[0])
    bare = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M") or c in VOICING_MARKS)
    return unicodedata.normalize("NFC", bare).translate(WITHOUT_DECOMPOSITION)


def _pairs(run: str) -> str:
    return " ".join(run[start : start + 2] for start in range(len(run) - 1)) or run


# A text repeats its words, so most of them are found here.
@lru_cache(maxsize=32_768)
def _identifier(run: str) -> str:
    """Return the tokens of words joined by underscores, dots or hyphens: all of them as one, and one by one."""
    parts = JOINTS.split(run)
    words = [word for part in parts for word in _words(part)]
    if 1 < len(parts) <= MOST_PARTS:
        words.insert(0, _caseless("".join(parts)))
    return " ".join(_stem(word) for word in words if len(word) <= LONGEST_TOKEN and word not in STOP_WORDS)


def _words(part: str) -> list[str]:
    """Return a word whole and, where its case or digits say so, its pieces of more than one letter."""
    whole = _caseless(part)
    if len(whole) > LONGEST_TOKEN:
        return []
    pieces = [piece.lower() for piece in CAMEL.findall(part)] if part.isascii() else []
    if len(pieces) == 1 and (numbered := WORD_NUMBER.fullmatch(whole)):
        pieces = list(numbered.groups())
    return [whole] + [piece for piece in pieces if len(piece) > 1 or piece.isdigit()] * (len(pieces) > 1)


def _caseless(word: str) -> str:
    # Folding alone turns Cherokee to capitals; lowering alone keeps two forms of the Greek sigma.
    return word.casefold().lower()


def _stem(word: str) -> str:
    """Cut English plurals, -ing, -ed and a final e: route, routes, routed and routing become one."""
    if len(word) > 4 and word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    # Of the words in -us, the plurals that matter here are those of GPU and its like.
    if len(word) > 3 and word.endswith("s") and (word.endswith("pus") or not word.endswith(("ss", "us"))):
        word = word[:-1]
    # Twice -ed: embedding becomes embed by the first rule, and must then become what embed itself becomes.
    for suffix in ("ing", "ed", "ed"):
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) > 2 and VOWEL.search(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "aeloszu" else rest
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
