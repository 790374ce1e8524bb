"""Recognizes messages that are only polite, or ask only about the bot itself. English and Chinese."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Literal

from core.language.lexicon import get_pattern
from core.language.tokens import simplify

Courtesy = Literal["help", "identity", "thanks", "greeting", "farewell"]

MAX_CHARS = 80
_KINDS: tuple[Courtesy, ...] = ("help", "identity", "thanks", "greeting", "farewell")
# Signs alone that thank or agree, with the modifiers of emoji.
_APPLAUSE = re.compile("[\\s\\u200d\\ufe0f\U0001f3fb-\U0001f3ff👍🙏👌👏❤💯🎉🫡]+")


@cache
def _get_patterns() -> Mapping[Courtesy, re.Pattern[str]]:
    greeting = _join("greeting")
    endings = rf"(?: (?:{get_pattern('en', 'courtesy_endings')})|{get_pattern('zh', 'courtesy_endings')})*"
    return {
        # Twice, because a comma between two is often left out: "thx that fixed it".
        kind: re.compile(
            rf"(?:(?:{greeting}){endings} ?)?(?:{_join(kind)}){endings}(?: (?:{_join(kind)}){endings})?", re.IGNORECASE
        )
        for kind in _KINDS
    }


def _join(name: str) -> str:
    return "|".join((get_pattern("en", name), get_pattern("zh", name)))


def find_courtesy(text: str) -> Courtesy | None:
    """Return what a message is that only asks about the bot or is polite; None as soon as it says anything else.

    >>> find_courtesy("Hi there, what can you do?"), find_courtesy("谢谢！"), find_courtesy("Hi, how do I install it?")
    ('help', 'thanks', None)
    """
    if len(text) > MAX_CHARS:
        return None
    if _APPLAUSE.fullmatch(text.strip()):
        return "thanks"
    plain_text = simplify(unicodedata.normalize("NFKC", text)).replace("’", "'")
    clauses = [" ".join(clause.split()) for clause in re.split(r"[^\w\s']+", plain_text)]
    kinds = [_classify(clause) for clause in clauses if clause]
    # The clause that asks for most decides: "Hi! Thanks. Who are you?"
    return None if None in kinds else next((kind for kind in _KINDS if kind in kinds), None)


def _classify(clause: str) -> Courtesy | None:
    return next((kind for kind, pattern in _get_patterns().items() if pattern.fullmatch(clause)), None)
