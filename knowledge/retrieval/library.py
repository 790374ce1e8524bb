"""All knowledge, seen from the agents: routing (KIMAs 3.2.2), search and similarity over one store and one embedder."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from core.errors import EmbeddingError, UsageError
from core.grounding.fusion import fuse
from core.observability.logs import logger
from core.observability.recorder import Meter
from core.settings import Settings
from core.text.tokens import query_tokens
from core.types import AgentScore, Passage
from knowledge.live.search import LiveSources
from knowledge.ports import Embedder, Store, Vectors
from knowledge.retrieval.agent_index import Indexed, MixIn, embed_mix_in, index_agent
from knowledge.retrieval.expiry_filter import Unexpired
from knowledge.retrieval.routing import AgentIndex, choose

# Below this share of known tokens a text's vector means little: only words count then.
KNOWN_SHARE = 0.5
QUERIES_KEPT = 256
# What live sources may take of the time for one search, at whose end the stored passages would be lost with them.
LIVE_SHARE = 0.8
# How long a failing embedder is left alone.
UNAVAILABLE_S = 10.0


class KnowledgeLibrary:
    """Implements `core.ports.Library`. Call `load` before the first question, and `reload` after every refresh."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        embedder: Embedder,
        *,
        meter: Meter | None = None,
        unavailable_s: float = UNAVAILABLE_S,
    ) -> None:
        self._agents = settings.retrieval_agents()
        self._search = settings.knowledge.search
        self._routing = settings.knowledge.routing
        self._unavailable_s = unavailable_s
        self._unavailable_until = 0.0
        self._query_timeout_s = settings.knowledge.embedding.query_timeout_s
        self._store = Unexpired(store, settings.sources, settings.data_dir)
        self._embedder = embedder
        self._live = LiveSources(
            settings.sources,
            self.similarity,
            data_dir=settings.data_dir,
            patience_s=LIVE_SHARE * settings.budget.search * settings.budget.deadline_s,
            meter=meter,
        )
        self._live_agents = [
            name for name, agent in self._agents.items() if all(source in self._live for source in agent.sources)
        ]
        self._settings = settings
        self._indexed: Mapping[str, Indexed] = {}
        self._mix_ins: Mapping[str, MixIn] | None = None
        self._loading = asyncio.Lock()
        self._queries: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    @property
    def empty(self) -> bool:
        """Tell whether no source of any agent held a passage at the last `load`, and none is live."""
        return not self._live and not any(one.passages for one in self._indexed.values())

    async def load(self, sources: Collection[str] = ()) -> None:
        """Compute what routing compares questions with: centroids of every agent's vectors, and its mix-in.

        With `sources` only for the agents that own one of them. Questions asked meanwhile are routed by what was
        loaded before. Raises `StoreError`, `EmbeddingError`; then all stays as it was.
        """
        # One at a time, or a slower one that began earlier would bring back what was.
        async with self._loading:
            if self._mix_ins is None:
                self._mix_ins = {name: await embed_mix_in(one, self._embedder) for name, one in self._agents.items()}
            indexed = dict(self._indexed)
            for name, agent in self._agents.items():
                if not sources or name not in indexed or not set(sources).isdisjoint(agent.sources):
                    mix_in = self._mix_ins[name]
                    indexed[name] = await index_agent(name, agent, mix_in, self._settings, self._store)
            self._indexed = indexed

    async def reload(self, sources: Collection[str] = ()) -> None:
        """Do as `load` after these sources (all when none is named) were refreshed; the next question sees it."""
        await self.load(sources)

    async def route(self, query: str) -> Sequence[AgentScore]:
        """Return the agents to ask, best first. A query that the embedder hardly knows goes by words instead.

        An agent with live sources that has no passages to be known by is asked every time, unless it has a mix-in; one
        with live sources only is so with one, too, where words have to do.
        """
        indexes = [one.index for one in self._indexed.values() if one.index]
        known = {one.name for one in indexes}
        unknown = [AgentScore(name, 0.0) for name in self._agents if name not in known and self._asks_live(name)]
        if not indexes:
            return unknown
        vector = await self._vector_if_any(query)
        if vector is None:
            by_words = await self._route_by_words(query, indexes)
            return [*by_words, *(one for one in unknown if one.name not in self._live_agents)]
        chosen = choose(vector, indexes, limit=self._routing.agents, threshold=self._routing.threshold)
        return [*chosen, *unknown]

    async def search(self, agent: str, query: str, limit: int, *, dense: str = "") -> Sequence[Passage]:
        """Return at most `limit` passages of an agent's sources by weighted hybrid search, best first.

        `dense` is embedded in place of the query, which then gives the words alone. Raises `UsageError` for an unknown
        agent.
        """
        if agent not in self._agents:
            known = ", ".join(sorted(self._agents)) or "none are configured"
            raise UsageError(f"no agent is named {agent!r}; the agents are: {known}")
        vector = await self._vector_if_any(dense or query)
        candidates = max(self._search.candidates, limit)
        sources = self._agents[agent].sources
        found = await self._found(query, vector, sources, candidates)
        return fuse(found, 0.0 if vector is None else self._search.alpha, limit)

    async def _found(
        self, query: str, vector: Vectors | None, sources: Sequence[str], candidates: int
    ) -> Sequence[Passage]:
        """Search what is stored and ask what is live; when live sources fail or are slow, the stored ones count."""
        stored = [source for source in sources if source not in self._live]
        if len(stored) == len(sources):
            return await self._store.search(query_tokens(query), vector, stored, candidates)
        if not stored:
            return await self._live.search(sources, query)
        return await self._live.beside(
            sources, query, self._store.search(query_tokens(query), vector, stored, candidates)
        )

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of each text with the query; its share of the words where there are no vectors to go by."""
        vector = await self._vector_if_any(query) if texts else None
        if vector is None:
            return _shared_words(query, texts)
        try:
            similarities: list[float] = (await self._embedder.embed(texts) @ vector).clip(-1, 1).tolist()
        except EmbeddingError as fault:
            logger(__name__).warning("texts.not_embedded", error=str(fault))
            return _shared_words(query, texts)
        return similarities

    async def close(self) -> None:
        """Give up the embeddings that nobody waits for any more, and the live sources' connections. Idempotent."""
        await self._live.close()
        tasks = list(self._queries.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._queries.clear()

    async def _vector_if_any(self, query: str) -> Vectors | None:
        """Return the query's vector, or None where words alone have to do: it means little, or cannot be had."""
        if not self._understood(query):
            return None
        if time.monotonic() < self._unavailable_until:
            return None
        try:
            async with asyncio.timeout(self._query_timeout_s):
                return await self._vector(query)
        except (EmbeddingError, TimeoutError) as fault:
            # Whoever comes next must not wait for it again.
            self._unavailable_until = time.monotonic() + self._unavailable_s
            logger(__name__).warning("query.not_embedded", error=str(fault) or f"not in {self._query_timeout_s} s")
            return None

    def _understood(self, query: str) -> bool:
        return self._embedder.known_share(query) >= KNOWN_SHARE

    async def _route_by_words(self, query: str, indexes: Sequence[AgentIndex]) -> Sequence[AgentScore]:
        """Order agents by their best passage for the query's words; those without any come last, as configured.

        With a threshold above 0 these are not asked: a search by words would find nothing there.
        """
        sources = {source for index in indexes for source in self._agents[index.name].sources}
        found = await self._store.search(query_tokens(query), None, sources, self._search.candidates)
        best: dict[str, float] = {}
        for passage in found:
            best[passage.source] = max(best.get(passage.source, 0.0), passage.lexical)
        highest = max(best.values(), default=0.0) or 1.0
        scores = [
            AgentScore(index.name, max(best.get(source, 0.0) for source in self._agents[index.name].sources) / highest)
            for index in indexes
            if index.name not in self._live_agents
        ]
        if self._routing.threshold > 0:
            scores = [one for one in scores if one.score > 0 or self._asks_live(one.name)]
        chosen = sorted(scores, key=lambda score: -score.score)[: self._routing.agents]
        return [*chosen, *(AgentScore(name, 0.0) for name in self._live_agents)]

    def _asks_live(self, name: str) -> bool:
        return any(source in self._live for source in self._agents[name].sources)

    async def _vector(self, query: str) -> Vectors:
        """Return the query's vector. Who asks for the same query meanwhile or later shares one embedding.

        The embedding belongs to no asker: one that is cancelled does not take it from the others.
        """
        task = self._queries.get(query)
        if task is None:
            task = asyncio.create_task(self._embed_query(query))
            self._queries[query] = task
            task.add_done_callback(lambda done: self._keep_only_good(query, done))
            if len(self._queries) > QUERIES_KEPT:
                self._queries.popitem(last=False)
        else:
            self._queries.move_to_end(query)
        return await asyncio.shield(task)

    async def _embed_query(self, query: str) -> Vectors:
        vector: Vectors = (await self._embedder.embed([query]))[0]
        if not np.isfinite(vector).all():
            raise EmbeddingError("the query's vector is no number")
        return vector

    def _keep_only_good(self, query: str, task: asyncio.Task[Vectors]) -> None:
        # Asking for the exception also marks it as seen: the askers may all be gone.
        failed = task.cancelled() or task.exception() is not None
        if failed and self._queries.get(query) is task:
            del self._queries[query]


def _shared_words(query: str, texts: Sequence[str]) -> list[float]:
    wanted = set(query_tokens(query).split())
    return [len(wanted & set(query_tokens(text).split())) / len(wanted) if wanted else 0.0 for text in texts]
