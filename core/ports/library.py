"""The knowledge that answers come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.types import AgentScore, Passage


@dataclass(frozen=True, slots=True)
class WordMatch:
    """How the words of a query match the stored passages.

    `passages` are the best by BM25, best first. `weights` has the IDF of each token, empty where the store cannot count
    words; `unknown_weight` is the IDF of a word that no passage contains, 0 where there are no passages. `translation`
    is what was matched where that is not the text itself.
    """

    passages: tuple[Passage, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    unknown_weight: float = 0.0
    translation: str = ""


class Library(Protocol):
    """All knowledge, as the agents see it."""

    @property
    def is_empty(self) -> bool:
        """Return whether no passage is stored yet. A live source may answer nevertheless."""
        ...

    def restricted_to(self, sources: Collection[str]) -> Library:
        """Return a library of these sources alone, for one question; agents of other sources are missing from it."""
        ...

    async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
        """Return the retrieval agents to ask, best first (KIMAs 3.3.2).

        `at_least_one` returns the best one where none is near the query.
        """
        ...

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        """Return at most `limit` passages of one agent's sources, best first.

        `dense_query`, if not empty, replaces the query in the dense search; the lexical search always uses the query.
        Raises `UsageError` for an unknown agent.
        """
        ...

    async def match_words(self, query: str, limit: int) -> WordMatch:
        """Return the `limit` best stored passages by BM25 alone, and the words' weights. Raises `StoreError`."""
        ...

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine similarity of each text with the query (-1 to 1), to select sentences."""
        ...

    async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return the places of the texts of each meaning, the most typical first, the largest group first.

        Texts that the embedding model hardly knows are grouped by their words, and all of them while it fails.
        """
        ...

    def languages(self) -> Mapping[str, Sequence[str]]:
        """Return the codes of the languages that each agent's sources are in, most frequent first, where known."""
        ...

    def empty_sources(self) -> Collection[str]:
        """Return the names of the sources of which no passage is stored. A live source may answer nevertheless."""
        ...

    def titles(self) -> Mapping[str, Sequence[str]]:
        """Return titles of the documents that are most typical of each agent's sources, where known."""
        ...

    def modules(self) -> Mapping[str, Collection[str]]:
        """Return the names of the modules of each Python package whose code the sources hold."""
        ...

    async def term_weights(self, query: str) -> Mapping[str, float]:
        """Return the IDF of each token of a query over all stored passages; empty where the store cannot count.

        A word that no passage contains weighs nothing.
        """
        ...

    async def read_page(self, source: str, path: str) -> Sequence[Passage]:
        """Return the passages of a stored document in order; none where it may not be shown. Raises `StoreError`."""
        ...

    async def count_words(self, words: Collection[str]) -> Mapping[str, int]:
        """Return which of many words, in lower case and as written, stored passages have, and in how many of the best.

        Raises `StoreError`.
        """
        ...
