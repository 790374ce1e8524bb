"""Tokens: the stems of English words, the pairs of CJK characters, and the tokens of the lexical index.

The index gets a text as space-joined tokens, passages and queries in the same way. Identifiers are indexed whole and in
parts, text without spaces between its words (Chinese, Japanese, Korean) as pairs of characters; accents are folded,
traditional Chinese is simplified, English stop words removed, English words stemmed. A store only splits at the spaces.
Stores that were filled by earlier versions have traditional Chinese as it is written, so a query asks for both.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import resources
from itertools import chain

import snowballstemmer

from core.language.lexicon import get_words

MAX_TOKEN_LENGTH = 64
_TRADITIONAL_FILE = "traditional_characters.txt"
# A compound of more parts is hardly ever searched as a whole.
MAX_PARTS = 4
# The one definition of a CJK character, for use inside the brackets of a pattern: Han, kana and Hangul, without their
# punctuation and lone marks. All of them are word characters.
HAN = (
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufa6d\ufa70-\ufad9\U00020000-\U0002a6df\U0002a700-\U0002b738"
    "\U0002b740-\U0002b81d\U0002b820-\U0002cea1\U0002ceb0-\U0002ebe0\U0002f800-\U0002fa1d\U00030000-\U0003134a"
)
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
HANGUL = "\uac00-\ud7a3"
CJK_CHARACTERS = HAN + KANA + HANGUL
LETTER = rf"[^\W_{CJK_CHARACTERS}]"
# A run of characters without spaces between its words, or words joined by underscores, dots and hyphens.
RUNS = re.compile(rf"[{CJK_CHARACTERS}]+|{LETTER}+(?:(?:_+|[.\-]){LETTER}+){{0,7}}")
CJK_CHARACTER = re.compile(f"[{CJK_CHARACTERS}]")
SEPARATORS = re.compile(r"[_.\-]+")
NON_ASCII = re.compile(r"[^\x00-\x7f]+")
# Encoded data: long runs of letters, digits, plus and slash. Paths contain dots, hyphens or underscores.
ENCODED_DATA = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{128,}={0,2}")
# HTTPServer: HTTP Server; parseURLs: parse URLs; Llama3Model: Llama3 Model.
CAMEL_CASE_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
WORD_NUMBER = re.compile(r"([a-z]{2,})(\d+)")
VOICING_MARKS = "\u3099\u309a"
# They show where a word may be broken, how its letters join, or make it longer (the Arabic tatweel).
INVISIBLE_IN_WORDS = "\u00ad\u200c\u200d\u2060\u0640\ufeff"
LETTER_FOLDING = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"})
# GPUs, LLMs: the stemmer does not handle plurals without a vowel or in -us.
ABBREVIATION_PLURAL = re.compile(r"[bcdfghj-np-tv-xz]{2,}[bcdfghj-np-rtv-xz]s|[a-z]pus")


@lru_cache(maxsize=32_768)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word, the same for configure, configured and configuration.

    A word with other letters or digits only loses English endings: gpt4s becomes gpt4.
    """
    if ABBREVIATION_PLURAL.fullmatch(word):
        return word[:-1]
    # The stemmer mistakes the end of "embed" for a past tense. It has state, so threads cannot share one.
    return "embed" if word in ("embed", "embeds") else str(snowballstemmer.stemmer("english").stemWord(word))


def stem_all(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of many lower-case words, without those of passages leaving their cache."""
    return frozenset(snowballstemmer.stemmer("english").stemWords(list(words)))


def cut_into_pairs(run: str) -> list[str]:
    """Return a run of CJK characters as overlapping pairs: ABC gives AB and BC. A single character stays."""
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


def count_cjk(text: str) -> int:
    """Return the number of CJK characters in a text."""
    return 0 if text.isascii() else len(CJK_CHARACTER.findall(text))


def simplify(text: str) -> str:
    """Return a text with simplified in place of traditional Chinese characters; its length stays.

    >>> simplify("請問如何設定？")
    '请问如何设定？'
    """
    return text if text.isascii() else text.translate(_load_simplified_characters())


def split_simplified(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the parts of a text, as written, between the matches of a pattern in simplified Chinese."""
    parts = []
    end = 0
    for match in pattern.finditer(simplify(text)):
        parts.append(text[end : match.start()])
        end = match.end()
    return [*parts, text[end:]]


@cache
def _load_simplified_characters() -> Mapping[int, str]:
    lines = resources.files(__package__).joinpath(_TRADITIONAL_FILE).read_text("utf-8").splitlines()
    return {ord(pair[0]): pair[1] for line in lines if not line.startswith("#") for pair in line.split()}


def lexical_tokens(text: str) -> str:
    """Return the tokens of a passage, space-joined: lower-case word characters only, with repetitions.

    >>> lexical_tokens("Running read_file() 向量檢索")
    'run readfil read file 向量 量检 检索'
    """
    return simplify(" ".join(_tokenize(text)))


def query_tokens(text: str, limit: int = 64) -> str:
    """Return the tokens of the first `limit` distinct words of a query, space-joined: all that a search asks for.

    Empty if it has only stop words.
    """
    return " ".join(chain.from_iterable(query_words(text, limit)))


def query_words(text: str, limit: int = 64) -> list[tuple[str, ...]]:
    """Return the first `limit` distinct words of a query: each as the tokens by which stores may know it.

    Chinese that is written otherwise than simplified has two: who counts or weighs words counts such a word once.

    >>> query_words("設定 proxy")
    [('设定', '設定'), ('proxi',)]
    """
    words: dict[str, tuple[str, ...]] = {}
    for token in chain.from_iterable(map(str.split, _tokenize(text))):
        simplified_token = simplify(token)
        if simplified_token not in words and len(words) == limit:
            break
        known_tokens = words.setdefault(simplified_token, (simplified_token,))
        if token not in known_tokens:
            words[simplified_token] = (*known_tokens, token)
    return list(words.values())


def distinct_words(text: str, limit: int = 64) -> frozenset[str]:
    """Return the first `limit` distinct words of a text, each once however it is written: to compare two texts."""
    return frozenset(tokens[0] for tokens in query_words(text, limit))


def weigh_words(words: Iterable[tuple[str, ...]], weights: Mapping[str, float], default: float) -> list[float]:
    """Return the weight of each word of a query: that of its most frequent token, the lowest of them.

    `default` is the weight of tokens without one.
    """
    return [min(weights.get(token, default) for token in tokens) for tokens in words]


def _tokenize(text: str) -> Iterator[str]:
    """Yield the tokens of each run, space-joined."""
    text = ENCODED_DATA.sub(" ", text)
    if not text.isascii():
        text = NON_ASCII.sub(_fold_accents, text)
    for run in RUNS.findall(text):
        tokens = " ".join(cut_into_pairs(run)) if CJK_CHARACTER.match(run) else _tokenize_identifier(run)
        if tokens:
            yield tokens


def _fold_accents(match: re.Match[str]) -> str:
    """Decompose compatibility forms, drop what is not spoken, and compose the rest (Hangul, kana)."""
    decomposed = unicodedata.normalize("NFKD", match[0])
    base_characters = "".join(
        c
        for c in decomposed
        if c not in INVISIBLE_IN_WORDS and (not unicodedata.category(c).startswith("M") or c in VOICING_MARKS)
    )
    return unicodedata.normalize("NFC", base_characters).translate(LETTER_FOLDING)


# A text repeats its words, so the cache holds most of them.
@lru_cache(maxsize=32_768)
def _tokenize_identifier(run: str) -> str:
    """Return the tokens of words joined by underscores, dots or hyphens: the whole, and each word."""
    parts = SEPARATORS.split(run)
    words = [word for part in parts for word in _split_word(part)]
    if 1 < len(parts) <= MAX_PARTS:
        words.insert(0, _casefold("".join(parts)))
    stop_words = get_words("en", "function_words", "grammar_words", "index_forms")
    return " ".join(stem(word) for word in words if len(word) <= MAX_TOKEN_LENGTH and word not in stop_words)


def _split_word(part: str) -> list[str]:
    """Return a word and its parts of more than one letter, split by case and digits."""
    word = _casefold(part)
    if len(word) > MAX_TOKEN_LENGTH:
        return []
    subwords = [subword.lower() for subword in CAMEL_CASE_PART.findall(part)] if part.isascii() else []
    if len(subwords) == 1 and (match := WORD_NUMBER.fullmatch(word)):
        subwords = list(match.groups())
    return [word] + [subword for subword in subwords if len(subword) > 1 or subword.isdigit()] * (len(subwords) > 1)


def _casefold(word: str) -> str:
    # Case folding turns Cherokee into capitals; lower-casing keeps two forms of the Greek sigma.
    return word.casefold().lower()


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer, rounded up."""
    return math.ceil(measure_tokens(text))


def measure_tokens(text: str) -> float:
    """Return about how many tokens a text has: one per CJK character, one per four other characters."""
    cjk_count = count_cjk(text)
    return cjk_count + (len(text) - cjk_count) / 4
