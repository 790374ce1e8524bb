"""The library as `/sources on|off|scale` and `/faq reject` have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace

from core.evidence.ranking import weigh
from core.ports import Library, WordMatch
from core.settings import Settings
from core.storage.lessons import TaughtAnswerRepository
from core.storage.overrides import RuntimeOverrides
from core.types import AgentScore, Passage


class OverriddenLibrary:
    """Implements `core.ports.Library` over another one: leaves out sources that are off, and weighs the others.

    Taught answers that are approved no more are left out at once: the next refresh may take a while.
    """

    def __init__(self, library: Library, overrides: RuntimeOverrides, settings: Settings) -> None:
        self._library = library
        self._overrides = overrides
        self._lessons = TaughtAnswerRepository(overrides.database)
        self._sources = {name: agent.sources for name, agent in settings.retrieval_agents().items()}
        self._learned = {name for name, source in settings.sources.items() if source.kind == "learned"}

    def follow(self, other: OverriddenLibrary) -> None:
        """Know from now on what another one knows, for those who keep this one longer than an answer takes."""
        self._library = other._library
        self._sources = other._sources
        self._learned = other._learned

    def restricted_to(self, sources: Collection[str]) -> OverriddenLibrary:
        """Restrict the wrapped library."""
        restricted_library = copy(self)
        restricted_library._library = self._library.restricted_to(sources)
        restricted_library._sources = {name: own for name, own in self._sources.items() if set(sources).issuperset(own)}
        return restricted_library

    @property
    def is_empty(self) -> bool:
        """Return whether the wrapped library has no passage. What is off counts: it was read."""
        return self._library.is_empty

    async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
        """Return the agents to ask, best first, without those whose sources are all off."""
        await self._overrides.load()
        library = self._library
        if self._overrides.has_source_overrides:
            # What is off takes the place of no other one.
            enabled = [sources for name, sources in self._sources.items() if not self._is_disabled(name)]
            library = library.restricted_to({source for sources in enabled for source in sources})
        scores = await library.route(query, at_least_one=at_least_one)
        # One that is off may share its sources with another one.
        enabled_scores = [agent_score for agent_score in scores if not self._is_disabled(agent_score.name)]
        if enabled_scores or not at_least_one:
            return enabled_scores
        # Nobody knows which of the others is the next.
        return [AgentScore(name, 0.0) for name in self._sources if not self._is_disabled(name)]

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        """Return at most `limit` passages of an agent's sources, best first, scores weighed (1 at most)."""
        overrides = self._overrides
        await overrides.load()
        if self._is_disabled(agent):
            return []
        if not overrides.has_source_overrides:
            return await self._drop_rejected(await self._library.search(agent, query, limit, dense_query=dense_query))
        # Passages that are left out or weighed down make room for the next ones.
        found = await self._library.search(agent, query, 2 * limit, dense_query=dense_query)
        passages = await self._drop_rejected(found)
        used_passages = [passage for passage in passages if not overrides.is_off(passage.source)]
        return weigh(used_passages, [overrides.scale(passage.source) for passage in used_passages])[:limit]

    async def match_words(self, query: str, limit: int) -> WordMatch:
        """Return the match of the library, without passages of sources that are off."""
        await self._overrides.load()
        has_overrides = self._overrides.has_source_overrides
        match = await self._library.match_words(query, 4 * limit if has_overrides else limit)
        told_passages = await self._drop_rejected(match.passages)
        passages = [passage for passage in told_passages if not self._overrides.is_off(passage.source)]
        return replace(match, passages=tuple(passages[:limit]))

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return how close each text is to the query."""
        return await self._library.similarity(query, texts)

    async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return the groups of the wrapped library."""
        return await self._library.group(texts)

    def languages(self) -> Mapping[str, Sequence[str]]:
        """Return the languages of the agents whose sources are not all off."""
        return {name: codes for name, codes in self._library.languages().items() if not self._is_disabled(name)}

    def empty_sources(self) -> Collection[str]:
        """Return the empty sources of the wrapped library."""
        return self._library.empty_sources()

    def titles(self) -> Mapping[str, Sequence[str]]:
        """Return the titles of the agents whose sources are not all off."""
        return {name: titles for name, titles in self._library.titles().items() if not self._is_disabled(name)}

    def modules(self) -> Mapping[str, Collection[str]]:
        """Return the modules that the wrapped library knows."""
        return self._library.modules()

    async def term_weights(self, query: str) -> Mapping[str, float]:
        """Return the weights of the wrapped library."""
        return await self._library.term_weights(query)

    async def read_page(self, source: str, path: str) -> Sequence[Passage]:
        """Return the passages of the wrapped library."""
        return await self._drop_rejected(await self._library.read_page(source, path))

    async def count_words(self, words: Collection[str]) -> Mapping[str, int]:
        """Return the counts of the wrapped library."""
        return await self._library.count_words(words)

    async def _drop_rejected(self, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return passages without those of taught answers that are approved no more."""
        if self._learned.isdisjoint(passage.source for passage in passages):
            return passages
        names = tuple(await self._lessons.list_document_names())
        return [
            passage for passage in passages if passage.source not in self._learned or passage.path.startswith(names)
        ]

    def _is_disabled(self, agent: str) -> bool:
        sources = self._sources.get(agent, ())
        return bool(sources) and all(map(self._overrides.is_off, sources))
