"""Chinese questions in English words, without a model: what searches English documentation when nothing can translate.

The terms are those of software (`chinese_terms.txt`). The result is no sentence, but the words that a search needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from core.language.tokens import RUNS, count_cjk, simplify

_TERMS_FILE = "chinese_terms.txt"


@dataclass(frozen=True, slots=True)
class TermTranslation:
    """The English words for a Chinese text, in its order, with its Latin words; and the share of it that is known.

    `coverage` counts the characters of known terms, without the words that only ask, point or join.
    """

    text: str
    coverage: float


def translate_terms(text: str) -> TermTranslation:
    """Return the known Chinese terms of a text in English, beside its Latin words.

    >>> translate_terms("scrapy 怎么设置代理？")
    TermTranslation(text='scrapy settings proxy', coverage=1.0)
    """
    terms, pattern = _load_terms()
    words: list[str] = []
    known_count = 0
    unknown_count = 0
    for run in RUNS.findall(simplify(text)):
        if not count_cjk(run):
            words.append(run)
            continue
        for match in pattern.finditer(run):
            translation = terms.get(match[0])
            if translation:
                words.append(translation)
                known_count += len(match[0])
            elif translation is None:
                unknown_count += 1
    coverage = known_count / (known_count + unknown_count) if known_count else 0.0
    return TermTranslation(" ".join(dict.fromkeys(words)), coverage)


@cache
def _load_terms() -> tuple[Mapping[str, str], re.Pattern[str]]:
    """Return the translations by term, empty for words without content, and a pattern that finds the longest term."""
    lines = resources.files(__package__).joinpath(_TERMS_FILE).read_text("utf-8").splitlines()
    terms = {
        term: translation.strip()
        for term, _, translation in (line.partition(" ") for line in lines if line and not line.startswith("#"))
    }
    by_length = sorted(terms, key=lambda term: -len(term))
    return terms, re.compile("|".join([*map(re.escape, by_length), "."]), re.DOTALL)
