"""What a service repeats of what it was told: its words stand in the log, in the journal and in what chats are told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.language.tokens import CJK_CHARACTERS

# As many words that follow each other are somebody's; each of them alone is anybody's.
REPEATED_WORDS = 3
CUT = "…"
# What of a request people and documents have said.
_TOLD_KEYS = ("messages", "input", "content", "text")
_WORD = re.compile(rf"[{CJK_CHARACTERS}]|[^\W{CJK_CHARACTERS}]+")


def cut_repeated(words: str, request: Mapping[str, Any]) -> str:
    """Return what a service says of a request, with a mark in place of all that the request has said.

    >>> cut_repeated("input 'The key is blue' is too long", {"input": "Ann: the key is blue!"})
    "input '…' is too long"
    """
    told = [match[0].casefold() for text in _iter_texts(request) for match in _WORD.finditer(text)]
    phrases = set(zip(*(told[start:] for start in range(REPEATED_WORDS)), strict=False))
    found = list(_WORD.finditer(words))
    said = [match[0].casefold() for match in found]
    pieces = list[str]()
    end = -1
    for index in range(len(said)):
        if tuple(said[index : index + REPEATED_WORDS]) in phrases:
            if found[index].start() > end:
                pieces += [words[max(end, 0) : found[index].start()], CUT]
            end = found[index + REPEATED_WORDS - 1].end()
    return "".join([*pieces, words[max(end, 0) :]])


def _iter_texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() | tuple():
            for item in value:
                yield from _iter_texts(item)
        case Mapping():
            for key in _TOLD_KEYS:
                yield from _iter_texts(value.get(key))
