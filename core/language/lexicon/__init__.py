"""The words and phrases that the rules know, as data: a file per language with named lists."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal


@cache
def get_words(language: Literal["en", "zh"], *names: str) -> frozenset[str]:
    """Return the words of one or more lists of a language.

    >>> "the" in get_words("en", "function_words", "query_words")
    True
    """
    lists = _load(language)
    return frozenset(word for name in names for word in lists[name].split())


@cache
def get_pattern(language: Literal["en", "zh"], name: str) -> str:
    """Return the regular expression that one of the phrases of a list matches."""
    return "|".join(_load(language)[name].split("\n")[:-1])


@cache
def _load(language: str) -> Mapping[str, str]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{language}.toml").read_text("utf-8"))
