"""Live sources beside the store: asked at once, their results scored so that they compare with stored passages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from core.errors import SourceError
from core.logs import logger
from core.settings import SourceSettings
from core.types import Passage
from knowledge.live import is_live, open_live
from knowledge.tokens import query_tokens

# What a word of middling rarity adds to a passage's BM25 score in a collection of some thousand passages. A live result
# belongs to no collection that we could count in.
TYPICAL_WEIGHT = 3.0

Similarity = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]


class LiveSources:
    """The configured live sources. `similarity` gives the cosines of texts with a query."""

    def __init__(self, sources: Mapping[str, SourceSettings], similarity: Similarity) -> None:
        self._sources = {name: open_live(name, settings) for name, settings in sources.items() if is_live(settings)}
        self._similarity = similarity

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, source: str) -> bool:
        return source in self._sources

    async def found(self, sources: Collection[str], query: str) -> list[Passage]:
        """Do as `search` beside other sources: when all fail, nothing was found, and the log says why."""
        try:
            return await self.search(sources, query)
        except SourceError:
            return []

    async def search(self, sources: Collection[str], query: str) -> list[Passage]:
        """Ask those of the sources that are live, all at once, and return what they found with both scores.

        One that fails is logged and left out; when all of several fail, or the only one, the first failure leaves.
        Raises `SourceError`.
        """
        asked = [self._sources[name] for name in dict.fromkeys(sources) if name in self._sources]
        if not asked:
            return []
        outcomes = await asyncio.gather(*(one.search(query) for one in asked), return_exceptions=True)
        found: list[Passage] = []
        failures: list[SourceError] = []
        for one, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, SourceError):
                failures.append(outcome)
                logger(__name__).warning("live.failed", source=one.name, error=str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                found += outcome
        if len(failures) == len(asked):
            raise failures[0]
        return await self._scored(query, found)

    async def close(self) -> None:
        """Let go of all connections. Idempotent."""
        for one in self._sources.values():
            await one.close()

    async def _scored(self, query: str, passages: Sequence[Passage]) -> list[Passage]:
        texts = [f"{passage.title}\n{passage.text}" for passage in passages]
        near = await self._similarity(query, texts)
        wanted = set(query_tokens(query).split())
        return [
            replace(
                passage,
                similarity=similarity,
                lexical=TYPICAL_WEIGHT * len(wanted & set(query_tokens(text).split())),
            )
            for passage, similarity, text in zip(passages, near, texts, strict=True)
        ]
