"""Query rewriting without a language model: the fallback of every model rewrite (as in AgentKit)."""

from __future__ import annotations

import re
from functools import cache

from core.language.lexicon import get_pattern, get_words
from core.language.tokens import CJK_CHARACTER, CJK_CHARACTERS, cut_into_pairs, split_simplified

_LETTER = rf"(?:(?![{CJK_CHARACTERS}])\w)"
_WORD = re.compile(
    rf"[{CJK_CHARACTERS}]{{2,}}|(?!\d){_LETTER}(?:(?:{_LETTER}|[.\-])*{_LETTER})?|\d(?:[\d.a-zA-Z_]*[\da-zA-Z_])?"
)
# The same for lower-case text without other characters, in a third of the time.
_ASCII_WORD = re.compile(r"[a-z_](?:[\w.\-]*\w)?|\d(?:[\d.a-z_]*[\da-z_])?", re.ASCII)
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b", re.IGNORECASE)
# Chinese has no spaces: the particles between two noun phrases.
_CHINESE_PARTICLE = re.compile(
    r"的|了|吗|呢|吧|啊|是|在|和|与|及|或|把|被|对|从|到|中|里|如何|怎么样?|怎样|什么|为什么|哪些?|多少|有没有|是否|可以|能够?|应该|需要"
)


def content_words(text: str) -> list[str]:
    """Return the content words, lower-case, in order; runs of Chinese, kana and Hangul as pairs.

    >>> content_words("How do I configure the rate limit?")
    ['configure', 'rate', 'limit']
    """
    stop_words = _get_stop_words()
    if text.isascii():
        return [word for word in _ASCII_WORD.findall(text.lower()) if word not in stop_words]
    words: list[str] = []
    for word in _WORD.findall(text.lower()):
        if CJK_CHARACTER.match(word):
            words += cut_into_pairs(word)
        elif word not in stop_words:
            words.append(word)
    return words


def _get_stop_words() -> frozenset[str]:
    return get_words("en", "function_words", "grammar_words", "query_words")


@cache
def _get_polite_phrases() -> re.Pattern[str]:
    english = get_pattern("en", "polite_phrases")
    chinese = get_pattern("zh", "polite_phrases")
    return re.compile(rf"\b(?:{english})\b[,:]?|(?:{chinese})[，,。！!：:]?", re.IGNORECASE)


def strip_fillers(text: str) -> str:
    """Return a text without greetings, thanks and polite phrases; unchanged if nothing else would be left."""
    content = " ".join(" ".join(split_simplified(_get_polite_phrases(), text)).split()).lstrip(",.!;:，。！；： ")
    return content if content_words(content) else text


def extract_noun_phrases(text: str) -> list[str]:
    """Return the approximate noun phrases of a text: runs of content words, as written, without duplicates.

    A common word or punctuation ends a run. Identifiers keep their spelling; in Chinese, kana and Hangul particles
    separate the phrases.
    """
    stop_words = _get_stop_words()
    noun_phrases: list[str] = []
    phrase_words: list[str] = []
    end = 0
    text = _POSSESSIVE.sub("", text)
    for match in _WORD.finditer(text):
        is_separated = bool(text[end : match.start()].strip())
        end = match.end()
        if phrase_words and (is_separated or match[0].lower() in stop_words or CJK_CHARACTER.match(match[0])):
            noun_phrases.append(" ".join(phrase_words))
            phrase_words = []
        if CJK_CHARACTER.match(match[0]):
            noun_phrases += [part for part in _CHINESE_PARTICLE.split(match[0]) if len(part) > 1]
        elif match[0].lower() not in stop_words:
            phrase_words.append(match[0])
    noun_phrases += [" ".join(phrase_words)] if phrase_words else []
    unique_phrases: dict[str, str] = {}
    for phrase in noun_phrases:
        unique_phrases.setdefault(phrase.lower(), phrase)
    return list(unique_phrases.values())
