"""All knowledge as the agents see it: routing (KIMAs 3.3.2), search and similarity over one store and one embedder."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy

from core.errors import EmbeddingError, StoreError, UsageError
from core.evidence.ranking import fuse, score_passages
from core.language.follow_ups import strip_chinese_function_words
from core.language.tokens import distinct_words, query_tokens, query_words, weigh_words
from core.observability.logs import get_logger
from core.observability.metrics import MetricsRecorder
from core.ports import WordMatch
from core.settings import Settings
from core.settings.audience import Audiences
from core.types import AgentScore, Passage
from knowledge.live.search import LiveSources
from knowledge.ports import Embedder, Store, Vectors
from knowledge.retrieval.agent_index import AgentIndexEntry, MixIn, embed_mix_in, index_agent, no_mix_in
from knowledge.retrieval.expiry_filter import ExpiryFilteringStore, SourceVersions
from knowledge.retrieval.grouping import TextGrouper
from knowledge.retrieval.known_words import count_known_words
from knowledge.retrieval.query_embedder import EMBEDDER_COOLDOWN_S, QueryEmbedder
from knowledge.retrieval.routing import AgentIndex, drop_weak, select_agents
from knowledge.retrieval.unfilled import UnfilledPassages

_log = get_logger(__name__)

# The share of a search's time that live sources may take. If they took all of it, stored passages would be lost, too.
LIVE_TIME_SHARE = 0.8
# Passages from the dense and from the lexical search before the two are merged.
CANDIDATES = 100
# BM25's k1 + 1: what a word that is repeated without end adds, as a multiple of its IDF.
MAX_TERM_FREQUENCY_WEIGHT = 2.2
# A token that no text has: its weight is that of every unknown word.
UNKNOWN_WORD = "\x00"
# How far above the threshold a passage must score for its agent to be asked although no centroid is near the query.
# With this default, 5% of the unrelated questions and 97% of the related ones score higher (tests/lab/quality).
PASSAGE_MARGIN = 0.05
# The least share of the best agent's words: with 0.7, two of 35 Chinese questions lose their page (docs/decisions.md).
MIN_SHARE_BY_WORDS = 0.6
# How long the start waits for the vectors of descriptions, and how often they are tried again, in seconds.
MIX_IN_TIMEOUT_S = 10.0
MIX_IN_RETRY_S = 30.0


class KnowledgeLibrary:
    """Implements `core.ports.Library`. Call `load` before the first question, and `reload` after every refresh.

    `audiences` are those that taught answers are chosen for, where the settings do not say it; `get_audiences` returns
    those of now.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        embedder: Embedder,
        audiences: Audiences | None = None,
        get_audiences: Callable[[], Audiences] = Audiences,
        *,
        metrics_recorder: MetricsRecorder | None = None,
        embedder_cooldown_s: float = EMBEDDER_COOLDOWN_S,
    ) -> None:
        self._agents = settings.retrieval_agents()
        self._search_settings = settings.knowledge.search
        self._routing_settings = settings.knowledge.routing
        audiences = audiences or Audiences.from_settings(settings)
        self._store = ExpiryFilteringStore(
            store, settings.sources, settings.data_dir, audiences, get_audiences=get_audiences
        )
        # An answer from what is no longer shown must not be reused.
        self.get_versions = SourceVersions(self._store).get_versions
        self._embedder = embedder
        self._query_embedder = QueryEmbedder(
            embedder, settings.knowledge.embedding.query_timeout_s, cooldown_s=embedder_cooldown_s
        )
        self._grouper = TextGrouper(embedder)
        self._unfilled_passages = UnfilledPassages(
            embedder, settings.knowledge.embedding.query_timeout_s, embedder_cooldown_s
        )
        self._live_sources = LiveSources(
            settings.sources,
            self.similarity,
            data_dir=settings.data_dir,
            timeout_s=LIVE_TIME_SHARE * settings.budget.search * settings.budget.deadline_s,
            metrics_recorder=metrics_recorder,
        )
        self._live_agents = [
            name
            for name, agent in self._agents.items()
            if all(source in self._live_sources for source in agent.sources)
        ]
        self._settings = settings
        self._index_entries: Mapping[str, AgentIndexEntry] = {}
        # What was left out of each agent's sources when its entry was made.
        self._restrictions: Mapping[str, object] = {}
        # Of which all others are views.
        self._whole = self
        self._reloading: asyncio.Task[None] | None = None
        self._mix_ins: Mapping[str, MixIn] | None = None
        self._load_lock = asyncio.Lock()
        self._retry: asyncio.Task[None] | None = None
        # The sources whose words are counted; None: all of them.
        self._counted_sources: Collection[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether no source had a passage at the last `load`."""
        return not self.passage_count

    @property
    def passage_count(self) -> int:
        """Return how many stored passages the agents had at the last `load`."""
        return sum(entry.passage_count for entry in self._index_entries.values())

    @property
    def unfilled_count(self) -> int:
        """Return how many of them had no vector yet, so that only words find them."""
        return sum(entry.unfilled_count for entry in self._index_entries.values())

    def restricted_to(self, sources: Collection[str]) -> KnowledgeLibrary:
        """Return a view of this library, as of its last `load`, that knows these sources alone."""
        view = copy(self)
        visible_names = set(sources)
        view._agents = {name: agent for name, agent in self._agents.items() if visible_names.issuperset(agent.sources)}
        view._index_entries = {name: entry for name, entry in self._index_entries.items() if name in view._agents}
        view._live_agents = [name for name in self._live_agents if name in view._agents]
        view._counted_sources = visible_names
        return view

    async def load(self, sources: Collection[str] = ()) -> None:
        """Compute what routing compares questions with: the centroids of every agent's vectors, and its mix-in text.

        With `sources`, only for the agents that own one of them. Meanwhile questions are routed by the previous index.
        While the embedding model fails, the mix-in text does not count. Raises `StoreError`; then the previous index
        stays.
        """
        # One at a time: a slower, earlier load must not overwrite a newer one.
        async with self._load_lock:
            if self._mix_ins is None and self._retry is None:
                self._mix_ins = await self._embed_mix_ins(MIX_IN_TIMEOUT_S)
            index_entries = dict(self._index_entries)
            restrictions = dict(self._restrictions)
            for name, agent in self._agents.items():
                if not sources or name not in index_entries or not set(sources).isdisjoint(agent.sources):
                    mix_in = self._mix_ins[name] if self._mix_ins else no_mix_in(self._embedder)
                    # Of two states that it is made under, the earlier one: then it is made again.
                    restrictions[name] = await self._store.read_restriction(agent.sources)
                    index_entries[name] = await index_agent(name, agent, mix_in, self._settings, self._store)
            self._index_entries, self._restrictions = index_entries, restrictions
            self._store.forget_searches()
        if self._mix_ins is None and self._retry is None:
            self._retry = asyncio.create_task(self._load_when_possible())

    async def _embed_mix_ins(self, timeout_s: float | None) -> Mapping[str, MixIn] | None:
        """Embed what is mixed in for each agent; None where the embedding model fails."""
        try:
            async with asyncio.timeout(timeout_s):
                return {name: await embed_mix_in(agent, self._embedder) for name, agent in self._agents.items()}
        except (EmbeddingError, TimeoutError) as error:
            reason = str(error) or f"not in {timeout_s} s"
            _log.error("library.without_mix_ins", error=reason, retry_s=MIX_IN_RETRY_S)
            return None

    async def _load_when_possible(self) -> None:
        """Load again as soon as the embedding model works."""
        while self._mix_ins is None:
            await asyncio.sleep(MIX_IN_RETRY_S)
            self._mix_ins = await self._embed_mix_ins(None)
        # Where it fails, the reload after the next refresh uses them.
        await self._try_to_load(())

    def languages(self) -> Mapping[str, Sequence[str]]:
        """Return the languages of each agent's sources, as of the last `load`."""
        return {name: entry.languages for name, entry in self._index_entries.items() if entry.languages}

    def empty_sources(self) -> Collection[str]:
        """Return the sources without a stored passage, as of the last `load`."""
        return {source for entry in self._index_entries.values() for source in entry.empty_sources}

    def titles(self) -> Mapping[str, Sequence[str]]:
        """Return titles of the documents most typical of each agent, as of the last `load`.

        None of an agent of whose sources something else is left out by now: they are loaded again.
        """
        return {name: entry.titles for name, entry in self._get_tellable_entries().items() if entry.titles}

    def modules(self) -> Mapping[str, Collection[str]]:
        """Return the modules of the agents' Python packages, as `titles` does."""
        modules: dict[str, set[str]] = {}
        for entry in self._get_tellable_entries().values():
            for package, names in entry.modules.items():
                modules.setdefault(package, set()).update(names)
        return modules

    def _get_tellable_entries(self) -> Mapping[str, AgentIndexEntry]:
        """Return the entries of the agents of whose sources nothing else is left out than when they were made."""
        entries = {
            name: entry
            for name, entry in self._index_entries.items()
            if self._restrictions[name] == self._store.get_restriction(self._agents[name].sources)
        }
        if len(entries) < len(self._index_entries):
            self._whole._load_restricted()
        return entries

    def _load_restricted(self) -> None:
        """Load the agents again of whose sources something else is left out by now; the next question uses it."""
        if self._reloading is not None and not self._reloading.done():
            return
        changed = {
            source
            for name, restriction in self._restrictions.items()
            for source in self._agents[name].sources
            if restriction != self._store.get_restriction(self._agents[name].sources)
        }
        if changed:
            self._reloading = asyncio.create_task(self._try_to_load(changed))

    async def _try_to_load(self, sources: Collection[str]) -> None:
        try:
            await self.load(sources)
        except StoreError as error:
            # Until then nothing is told of their documents.
            _log.error("library.not_loaded", error=str(error))

    async def reload(self, sources: Collection[str] = ()) -> None:
        """Load again after these sources (all when none is named) were refreshed; the next question uses it."""
        await self.load(sources)

    async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
        """Return the agents to ask, best first; all, where routing is off.

        A query that the embedder hardly knows is routed by words instead.

        Where no agent is well above the threshold, those with a passage near the query are asked, too. Where none of
        those with passages is left, `at_least_one` asks the one with the best passage all the same. An agent with
        live sources and without passages is always asked, unless it has a mix-in. When words decide, the best of those
        with live sources only is asked even then.
        """
        if not self._routing_settings.enabled:
            return [AgentScore(name, 1.0) for name in self._agents]
        indexes = self._get_indexes()
        if not indexes and await self._store.filled(self._get_stored_sources()):
            # Another process has filled the store a moment ago.
            await self.load()
            indexes = self._get_indexes()
        indexed_names = {index.name for index in indexes}
        live_scores = [
            AgentScore(name, 0.0) for name in self._agents if name not in indexed_names and self._has_live_source(name)
        ]
        if not indexes:
            return live_scores
        vector = await self._query_embedder.embed(query)
        if vector is None:
            lexical_scores = await self._route_lexically(query, indexes, at_least_one=at_least_one)
            return [*lexical_scores, *(score for score in live_scores if score.name not in self._live_agents)]
        dense_scores = select_agents(
            vector, indexes, limit=self._routing_settings.agents, threshold=self._routing_settings.threshold
        )
        confirmed_scores = await self._confirm_by_passages(
            query, vector, indexes, dense_scores, at_least_one=at_least_one
        )
        return [*confirmed_scores, *live_scores]

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        """Return at most `limit` passages of an agent's sources by weighted hybrid search, best first.

        `dense_query` is embedded instead of the query, which is then searched by words only. Raises `UsageError` for
        an unknown agent.
        """
        if agent not in self._agents:
            agent_names = ", ".join(sorted(self._agents)) or "none are configured"
            raise UsageError(f"no agent is named {agent!r}; the agents are: {agent_names}")
        vector = await self._query_embedder.embed(dense_query or query)
        candidates = max(CANDIDATES, limit)
        sources = self._agents[agent].sources
        passages = await self._retrieve(query, vector, sources, candidates)
        lexical_shares = await self._lexical_shares(passages, query)
        return fuse(passages, self._search_settings.alpha, limit, lexical_shares)

    async def _lexical_shares(self, passages: Sequence[Passage], query: str) -> Sequence[float]:
        """Return the BM25 score of each passage as a share of the highest that the query's words can reach.

        So scores of different queries can be compared.
        """
        max_score = await self._max_bm25(query)
        return [passage.lexical_share or min(1.0, passage.lexical / max_score) for passage in passages]

    async def _max_bm25(self, query: str) -> float:
        """Return the highest BM25 score that a query's words can reach; those in no passage count half.

        Such words show that a part of the query is unknown here, but they cannot distinguish passages.
        """
        tokens = f"{query_tokens(query)} {UNKNOWN_WORD}"
        weights = await self._store.term_weights(tokens, self._counted_sources)
        # Without counts a word is taken to be in the square root of all passages: half of the largest weight.
        typical_weight = math.log1p(math.sqrt(self.passage_count))
        unknown_weight = weights.get(UNKNOWN_WORD, math.inf)
        mass = sum(
            0.5 * weight if weight >= unknown_weight else weight
            for weight in weigh_words(query_words(query), weights, typical_weight)
        )
        return MAX_TERM_FREQUENCY_WEIGHT * mass or 1.0

    async def match_words(self, query: str, limit: int) -> WordMatch:
        """Search the stored sources of all agents by words alone."""
        tokens = query_tokens(query)
        passages = await self._store.search(tokens, None, self._get_stored_sources(), limit)
        weights = dict(await self._store.term_weights(f"{tokens} {UNKNOWN_WORD}", self._counted_sources))
        passage_count = self.passage_count
        # As BM25 weighs a word that is in none of the passages.
        unknown_weight = weights.pop(UNKNOWN_WORD, math.log1p((passage_count + 0.5) / 0.5)) if passage_count else 0.0
        best = sorted(passages, key=lambda passage: -passage.lexical)[:limit]
        return WordMatch(tuple(best), weights, unknown_weight)

    def _get_indexes(self) -> list[AgentIndex]:
        return [entry.index for entry in self._index_entries.values() if entry.index]

    def _get_stored_sources(self) -> list[str]:
        sources = {source for agent in self._agents.values() for source in agent.sources}
        return [source for source in sources if source not in self._live_sources]

    async def _retrieve(
        self, query: str, vector: Vectors | None, sources: Sequence[str], candidates: int
    ) -> Sequence[Passage]:
        """Search the stored sources and query the live ones; when live sources fail or are slow, the stored ones are
        enough.
        """
        stored_sources = [source for source in sources if source not in self._live_sources]
        if len(stored_sources) == len(sources):
            return await self._search_stored(query, vector, stored_sources, candidates)
        if not stored_sources:
            return await self._live_sources.search(sources, query)
        return await self._live_sources.search_with_stored(
            sources, query, self._search_stored(query, vector, stored_sources, candidates)
        )

    async def _search_stored(
        self, query: str, vector: Vectors | None, sources: Collection[str], candidates: int
    ) -> Sequence[Passage]:
        """Search the store; passages that have no vector yet get a similarity as well."""
        passages = await self._store.search(query_tokens(query), vector, sources, candidates)
        if vector is None or all(passage.similarity for passage in passages):
            return passages
        lexical_shares = await self._lexical_shares(passages, query)
        return await self._unfilled_passages.add_similarities(passages, lexical_shares, vector)

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of each text with the query, or its share of common words when there are no vectors."""
        vector = await self._query_embedder.embed(query) if texts else None
        if vector is None:
            return _word_overlap(query, texts)
        try:
            similarities: list[float] = (await self._embedder.embed(texts) @ vector).clip(-1, 1).tolist()
        except EmbeddingError as error:
            _log.warning("texts.not_embedded", error=str(error))
            return _word_overlap(query, texts)
        return similarities

    async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return the groups of texts of one meaning (`TextGrouper`)."""
        return await self._grouper.group(texts)

    async def term_weights(self, query: str) -> Mapping[str, float]:
        """Return the IDF of each token of a query over all stored passages; empty where the store cannot count.

        A word that no passage contains weighs nothing.
        """
        tokens = f"{query_tokens(query)} {UNKNOWN_WORD}"
        weights = dict(await self._store.term_weights(tokens, self._counted_sources))
        unknown_weight = weights.pop(UNKNOWN_WORD, math.inf)
        return {token: weight if weight < unknown_weight else 0.0 for token, weight in weights.items()}

    async def read_page(self, source: str, path: str) -> Sequence[Passage]:
        """Return the passages of a stored document in order; none where it may not be shown. Raises `StoreError`."""
        return await self._store.read_page(source, path) if source in self._get_stored_sources() else ()

    async def count_words(self, words: Collection[str]) -> Mapping[str, int]:
        """Return which of many words stored passages have, and in how many of those that were read for it."""
        return await count_known_words(words, self._store, self._get_stored_sources())

    def stop_loading(self) -> None:
        """Load no more: only answers in progress still need this library."""
        for loading in (self._retry, self._reloading):
            if loading:
                loading.cancel()

    async def close(self) -> None:
        """Cancel embeddings that nobody waits for, close the live sources' connections, forget the rest. Idempotent."""
        self.stop_loading()
        tasks = [loading for loading in (self._retry, self._reloading) if loading]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._live_sources.close()
        await self._query_embedder.close()
        self._index_entries = {}
        self._store.forget_searches()

    async def _route_lexically(
        self, query: str, indexes: Sequence[AgentIndex], *, at_least_one: bool
    ) -> Sequence[AgentScore]:
        """Order agents by the best lexical share of a passage; those without come last, in the configured order.

        With a threshold above 0 the latter are not asked, for a search by words would find nothing there, nor are those
        with far fewer of the query's words than the best.
        """
        sources = {source for index in indexes for source in self._agents[index.name].sources}
        # 怎么 and 什么 are in every text: they say nothing about which agent to ask.
        tokens = query_tokens(strip_chinese_function_words(query)) or query_tokens(query)
        passages = await self._store.search(tokens, None, sources, CANDIDATES)
        best_scores: dict[str, float] = {}
        for passage, share in zip(passages, await self._lexical_shares(passages, query), strict=True):
            best_scores[passage.source] = max(best_scores.get(passage.source, 0.0), share)
        scores = [
            AgentScore(index.name, max(best_scores.get(source, 0.0) for source in self._agents[index.name].sources))
            for index in indexes
            if index.name not in self._live_agents
        ]
        if self._routing_settings.threshold > 0:
            min_score = MIN_SHARE_BY_WORDS * max((score.score for score in scores), default=0.0)
            matching_scores = [
                score for score in scores if score.score >= min_score > 0 or self._has_live_source(score.name)
            ]
            scores = matching_scores or scores[: int(at_least_one)]
        top_scores = sorted(scores, key=lambda score: -score.score)[: self._routing_settings.agents]
        return [*top_scores, *self._match_live(query)]

    def _match_live(self, query: str) -> Sequence[AgentScore]:
        """Return the agents with live sources alone, without those whose mix-in shares far fewer words than another's.

        No passage can be compared with the query; each of their searches may cost money.
        """
        shares = {
            name: max(_word_overlap(query, [text for texts in self._agents[name].mix_ins().values() for text in texts]))
            for name in self._live_agents
            if any(self._agents[name].mix_ins().values())
        }
        ranking = sorted(shares.items(), key=lambda item: -item[1])
        matching = drop_weak([AgentScore(name, share) for name, share in ranking], {})
        names = {score.name for score in matching}
        return [AgentScore(name, 0.0) for name in self._live_agents if name in names or name not in shares]

    async def _confirm_by_passages(
        self,
        query: str,
        vector: Vectors,
        indexes: Sequence[AgentIndex],
        agents: Sequence[AgentScore],
        *,
        at_least_one: bool,
    ) -> Sequence[AgentScore]:
        """Return the agents whose best passages are near the query, of all where a centroid or a passage is near it.

        The query may ask for a detail, and an agent may be near what another one answers: the few centroids of a short
        list of questions are its passages, those of a manual are averages. With a threshold of 0 or less, which asks
        all, none is dropped. An agent with live sources, whose searches may cost, is not added by a far passage.
        """
        limit = self._routing_settings.agents
        threshold = self._routing_settings.threshold
        if len(agents) == min(limit, len(indexes)) and (len(indexes) < 2 or threshold <= 0):
            return agents
        best_scores = await self._score_best_passages(query, vector, [index.name for index in indexes])
        scores = sorted(best_scores.values(), key=lambda score: -score.score)
        near_score = threshold + PASSAGE_MARGIN
        if not agents and (not scores or scores[0].score < near_score):
            return scores[: int(at_least_one)]
        asked_names = {agent.name for agent in agents}
        near_agents = [
            *agents,
            *(
                score
                for score in scores
                if score.name not in asked_names
                and (score.score >= near_score or not self._has_live_source(score.name))
            ),
        ]
        if threshold > 0:
            passage_scores = {
                index.name: best_scores[index.name].score
                for index in indexes
                if index.name in best_scores and len(index.centroids) and not self._has_live_source(index.name)
            }
            near_agents = drop_weak(near_agents, passage_scores)
        if self.unfilled_count:
            near_agents.sort(key=lambda score: -score.score)
        return near_agents[:limit]

    async def _score_best_passages(self, query: str, vector: Vectors, names: Sequence[str]) -> Mapping[str, AgentScore]:
        """Return the score of the best passage of each of these agents, 0 without any: their own search, over all."""
        sources = {source for name in names for source in self._agents[name].sources}
        passages = await self._search_stored(query, vector, sources, CANDIDATES)
        best_scores = dict.fromkeys(sources, 0.0)
        lexical_shares = await self._lexical_shares(passages, query)
        for score, _, passage in score_passages(passages, self._search_settings.alpha, lexical_shares):
            best_scores[passage.source] = max(best_scores[passage.source], min(1.0, score))
        return {
            name: AgentScore(name, max(best_scores[source] for source in self._agents[name].sources)) for name in names
        }

    def _has_live_source(self, name: str) -> bool:
        return any(source in self._live_sources for source in self._agents[name].sources)


def _word_overlap(query: str, texts: Sequence[str]) -> list[float]:
    words = distinct_words(query)
    return [len(words & distinct_words(text)) / len(words) if words else 0.0 for text in texts]
