"""Live sources beside the store: queried at the same time, with scores that compare to those of stored passages."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from core.errors import SourceError
from core.language.tokens import distinct_words
from core.observability.logs import get_logger
from core.observability.metrics import LiveCallOutcome, MetricsRecorder
from core.runtime.tasks import task_group
from core.settings import LiveSource, SourceSettings, StandingSource
from core.types import Passage
from knowledge.live import LiveRetriever, open_live_source

_log = get_logger(__name__)

# What a word of medium rarity adds to a BM25 score in a collection of some thousand passages. A live result belongs
# to no collection that we could count.
TYPICAL_TERM_WEIGHT = 3.0
# How much of a live result's score is what its service says of it, and how much is what we see in its text. A service
# knows more than its excerpt shows, such as how many people use a page; but its scale and its purpose are its own.
RATING_SHARE = 0.5


def deduplicate(
    stored_passages: Sequence[Passage], live_passages: Sequence[Passage], standing_to_live: Mapping[str, str]
) -> list[Passage]:
    """Return stored and live passages. A page that is in both comes from one side only: the more similar one.

    `standing_to_live` names the live source of each source of standing queries. A result without an address goes by
    its title. Passages of one side are never duplicates: they are pieces of a document.
    """
    groups: dict[tuple[str, str], dict[bool, list[Passage]]] = defaultdict(lambda: {True: [], False: []})
    passages = []
    live_sources = set(standing_to_live.values())
    for passage in (*stored_passages, *live_passages):
        source = standing_to_live.get(passage.source, passage.source)
        if source in live_sources:
            groups[source, _page_key(passage)][passage.source in standing_to_live].append(passage)
        else:
            passages.append(passage)
    for group in groups.values():
        passages += group[_best_similarity(group[True]) >= _best_similarity(group[False])]
    return passages


def _best_similarity(passages: Sequence[Passage]) -> float:
    return max((passage.similarity for passage in passages), default=-2.0)


def _page_key(passage: Passage) -> str:
    """Return a canonical address of a page: host in lower case, no fragment, no slash at the end."""
    if not passage.url:
        return passage.title
    try:
        parts = urlsplit(passage.url)
    except ValueError:
        return passage.url
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}"


Similarity = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]


class LiveSources:
    """The configured live sources. `similarity` gives the cosines of texts with a query.

    `data_dir` is where their requests are counted. Beside stored passages we wait at most `patience_s` seconds for
    them (None: as long as each source's own limit). `metrics_recorder` counts how they answer.
    """

    def __init__(
        self,
        sources: Mapping[str, SourceSettings],
        similarity: Similarity,
        *,
        data_dir: Path | None = None,
        timeout_s: float | None = None,
        metrics_recorder: MetricsRecorder | None = None,
    ) -> None:
        self._settings = {name: settings for name, settings in sources.items() if isinstance(settings, LiveSource)}
        self._sources = {name: open_live_source(name, sources[name], data_dir) for name in self._settings}
        self._standing_to_live = {
            name: settings.of for name, settings in sources.items() if isinstance(settings, StandingSource)
        }
        self._similarity = similarity
        self._timeout_s = timeout_s
        self._metrics_recorder = metrics_recorder or MetricsRecorder()

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, source: str) -> bool:
        return source in self._sources

    async def search_with_stored(
        self, sources: Collection[str], query: str, stored_search: Coroutine[Any, Any, Sequence[Passage]]
    ) -> list[Passage]:
        """Return the stored passages together with the results of the live sources.

        A live source that fails or takes too long is left out, and the log says so. Sources that are queried when
        needed are queried only if no stored passage is similar enough. A page that standing queries have found, too,
        comes once.
        """
        names = [name for name in dict.fromkeys(sources) if name in self._sources]
        always_names = [name for name in names if self._settings[name].ask == "always"]
        deadline = None if self._timeout_s is None else asyncio.get_running_loop().time() + self._timeout_s
        async with task_group() as tasks:
            always_task = tasks.create_task(self._search_all_until(always_names, query, deadline))
            stored_passages = await stored_search
            best_similarity = max((passage.similarity for passage in stored_passages), default=-1.0)
            on_demand_names = [
                name for name in names if name not in always_names and best_similarity < self._settings[name].enough
            ]
            live_passages = [*await self._search_all_until(on_demand_names, query, deadline), *await always_task]
        return deduplicate(stored_passages, live_passages, self._standing_to_live)

    async def _search_all_until(self, names: Collection[str], query: str, deadline: float | None) -> list[Passage]:
        results = await asyncio.gather(*(self._search_until(name, query, deadline) for name in names))
        return [passage for passages in results for passage in passages]

    async def _search_until(self, name: str, query: str, deadline: float | None) -> list[Passage]:
        try:
            async with asyncio.timeout_at(deadline):
                return await self.search([name], query)
        except TimeoutError:
            _log.warning("live.timed_out", source=name, patience_s=self._timeout_s)
            return []
        except SourceError:
            # `search` has logged it; beside other sources it counts as no results.
            return []

    async def search(self, sources: Collection[str], query: str) -> list[Passage]:
        """Query the live ones among the sources, all at once, and return their results with both scores.

        A source that fails is logged and left out; when all fail, the first error is raised.
        Raises `SourceError`.
        """
        retrievers = [self._sources[name] for name in dict.fromkeys(sources) if name in self._sources]
        if not retrievers:
            return []
        outcomes = await asyncio.gather(
            *(self._search_source(retriever, query) for retriever in retrievers), return_exceptions=True
        )
        passages: list[Passage] = []
        errors: list[SourceError] = []
        for retriever, outcome in zip(retrievers, outcomes, strict=True):
            if isinstance(outcome, SourceError):
                errors.append(outcome)
                _log.warning("live.failed", source=retriever.name, error=str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                passages += outcome
        if len(errors) == len(retrievers):
            raise errors[0]
        return passages

    async def _search_source(self, retriever: LiveRetriever, query: str) -> Sequence[Passage]:
        """Ask one source, and count how that ended."""
        started_at = time.monotonic()
        outcome: LiveCallOutcome = "cancelled"
        try:
            passages = await retriever.search(query)
            outcome = "answered"
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._metrics_recorder.record_live_call(retriever.name, outcome, time.monotonic() - started_at)
        return await self._with_scores(retriever, query, passages)

    async def close(self) -> None:
        """Let go of all connections. Idempotent."""
        for retriever in self._sources.values():
            await retriever.close()

    async def _with_scores(self, retriever: LiveRetriever, query: str, passages: Sequence[Passage]) -> list[Passage]:
        """Return the results of one source with scores that compare to those of stored passages.

        What the service says of them, times the factor of its base, decides their order as much as their texts do. It
        is relative to the best text, so that no service lifts its results above the passages of other sources.
        """
        if not passages:
            return []
        texts = [f"{passage.title}\n{passage.text}" for passage in passages]
        similarities = await self._similarity(query, texts)
        query_terms = distinct_words(query)
        shares = [len(query_terms & distinct_words(text)) / max(1, len(query_terms)) for text in texts]
        best_share = max(shares)
        best_similarity = max(0.0, *similarities)
        rated_passages = []
        for passage, similarity, share in zip(passages, similarities, shares, strict=True):
            factor = retriever.get_factor(passage)
            rated_share = _mix(factor * share, passage.score * best_share)
            rated_passages.append(
                replace(
                    passage,
                    similarity=_mix(factor * similarity, passage.score * best_similarity),
                    lexical=TYPICAL_TERM_WEIGHT * rated_share * len(query_terms),
                    lexical_share=rated_share,
                )
            )
        return rated_passages


def _mix(own_score: float, rating: float) -> float:
    return (1 - RATING_SHARE) * own_score + RATING_SHARE * rating
