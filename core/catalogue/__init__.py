"""All texts that people read in chats: a file per language, named by its code, with the same keys as `en.py`."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from importlib import import_module

from core.catalogue.en import MESSAGES as ENGLISH, English as Messages

__all__ = ["ENGLISH", "Messages", "languages", "messages_for"]


@lru_cache(maxsize=1)
def languages() -> tuple[str, ...]:
    """Return the codes of the languages that have texts: the modules' names, but for parts of a language."""
    return tuple(module.name for module in pkgutil.iter_modules(__path__) if "_" not in module.name)


@lru_cache(maxsize=32)
def messages_for(language: str) -> Messages:
    """Return the texts in a language (a code of `detect_language`), or in English where there are none."""
    if language not in languages():
        return ENGLISH
    messages: Messages = import_module(f"{__name__}.{language}").MESSAGES
    return messages
