"""Which of many words the passages have: one search for all of them, and a look into what it finds."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from core.language.tokens import lexical_tokens
from core.types import Passage
from knowledge.ports import SearchableStore

# So many passages are read for the words that they have. Few of the words are in any.
READ_PASSAGES = 48
_WORD = re.compile(r"[a-z]+")


async def count_known_words(
    words: Collection[str], store: SearchableStore, sources: Collection[str]
) -> Mapping[str, int]:
    """Return which of these words, in lower case, passages of the sources have, and how many of those that were read.

    A store can tell of a few words only how often they occur; a search for hundreds takes hardly longer than for one.
    It knows their stems, which many other words have, too: so the passages that it finds are read. Raises `StoreError`.
    """
    tokens = await asyncio.to_thread(lexical_tokens, " ".join(words))
    passages = await store.search(" ".join(dict.fromkeys(tokens.split())), None, sources, READ_PASSAGES)
    return await asyncio.to_thread(_count, frozenset(words), passages)


def _count(words: Collection[str], passages: Sequence[Passage]) -> Mapping[str, int]:
    counts = Counter[str]()
    for passage in passages:
        counts.update(set(_WORD.findall(f"{passage.title}\n{passage.text}".lower())).intersection(words))
    return counts
