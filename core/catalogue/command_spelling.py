"""Spells the commands in the texts as a platform expects them: what people copy has to work there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import lru_cache

from core.catalogue.en import English

# Returns how a command is given, as Markdown; its usage begins with its name: `mode [off|auto]`.
Spell = Callable[[str], str]

# A command in a text, which is the same everywhere: "`/resume` ends it".
_COMMAND = re.compile(r"`/([a-z][^`\n]*)`")


def spell_with_slash(usage: str) -> str:
    """Spell a command where nothing else is known: in the terminal, and on most platforms.

    >>> spell_with_slash("mode off")
    '`/mode off`'
    """
    return f"`/{usage}`"


def spell_texts(texts: English, spell: Spell) -> English:
    """Return texts with their commands spelled; they are templates of ours, so that nobody's words are changed.

    >>> from core.catalogue import ENGLISH
    >>> spell_texts(ENGLISH, "`/kimas {}`".format).show_whole_answer
    '`/kimas faq list NUMBER` shows one in full.'
    """
    spelled_texts = copy(texts)
    for name in _find_names(texts):
        value: str | Mapping[str, str] = getattr(texts, name)
        if isinstance(value, str):
            setattr(spelled_texts, name, _spell(value, spell))
        else:
            setattr(spelled_texts, name, {key: _spell(text, spell) for key, text in value.items()})
    return spelled_texts


@lru_cache(maxsize=8)
def _find_names(texts: English) -> tuple[str, ...]:
    """Return the names of the texts that have commands: one of twenty."""
    values = {name: getattr(texts, name) for name in dir(texts) if not name.startswith("_")}
    return tuple(name for name, value in values.items() if any(map(_COMMAND.search, _list_texts(value))))


def _list_texts(value: str | Mapping[str, str]) -> Iterable[str]:
    return (value,) if isinstance(value, str) else value.values()


def _spell(text: str, spell: Spell) -> str:
    return _COMMAND.sub(lambda match: spell(match[1]), text)
