"""The library as `/sources on|off|scale` has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.ports import Library
from core.settings import Settings
from core.storage.overrides import Steering
from core.types import AgentScore, Passage


class SteeredLibrary:
    """Implements `core.ports.Library` over another one: leaves out sources that are off, and weighs the others."""

    def __init__(self, library: Library, settings: Settings, steering: Steering) -> None:
        self._library = library
        self._steering = steering
        self._sources = {name: agent.sources for name, agent in settings.retrieval_agents().items()}

    async def route(self, query: str) -> Sequence[AgentScore]:
        """Return the agents to ask, best first, without those whose sources are all off."""
        await self._steering.load()
        found = await self._library.route(query)
        return [one for one in found if not self._silent(one.name)]

    async def search(self, agent: str, query: str, limit: int, *, dense: str = "") -> Sequence[Passage]:
        """Return at most `limit` passages of an agent's sources, best first, scores weighed (1 at most)."""
        steering = self._steering
        await steering.load()
        if self._silent(agent):
            return []
        if not steering.steers_sources:
            return await self._library.search(agent, query, limit, dense=dense)
        # What is left out or weighed down makes room for what would have come after it.
        found = await self._library.search(agent, query, 2 * limit, dense=dense)
        weighed = [(one.score * steering.scale(one.source), one) for one in found if not steering.is_off(one.source)]
        best = sorted(weighed, key=lambda pair: -pair[0])[:limit]
        return [replace(one, score=min(1.0, score)) for score, one in best]

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return how close each text is to the query."""
        return await self._library.similarity(query, texts)

    def _silent(self, agent: str) -> bool:
        sources = self._sources.get(agent, ())
        return bool(sources) and all(map(self._steering.is_off, sources))
