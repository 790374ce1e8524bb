"""Live sources beside the store: asked at once, their results scored so that they compare with stored passages."""

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
from core.observability.logs import logger
from core.observability.recorder import LiveOutcome, Meter, Unmetered
from core.runtime.tasks import task_group
from core.settings import LiveSource, SourceSettings, StandingSource
from core.text.tokens import query_tokens
from core.types import Passage
from knowledge.live import Live, open_live


def without_twins(stored: Sequence[Passage], live: Sequence[Passage], standing: Mapping[str, str]) -> list[Passage]:
    """Return stored and live passages, those of a page that is among both from one side only: the more similar one.

    `standing` names the live source of each source of standing queries. A result without an address goes by its title.
    Passages of one side are never told to be twins: they are pieces of a document.
    """
    sides: dict[tuple[str, str], dict[bool, list[Passage]]] = defaultdict(lambda: {True: [], False: []})
    others = []
    asked = set(standing.values())
    for passage in (*stored, *live):
        source = standing.get(passage.source, passage.source)
        if source in asked:
            sides[source, _page(passage)][passage.source in standing].append(passage)
        else:
            others.append(passage)
    for side in sides.values():
        others += side[_best(side[True]) >= _best(side[False])]
    return others


def _best(passages: Sequence[Passage]) -> float:
    return max((passage.similarity for passage in passages), default=-2.0)


def _page(passage: Passage) -> str:
    """Return what is the same for two addresses of one page: host in lower case, no fragment, no slash at the end."""
    if not passage.url:
        return passage.title
    try:
        parts = urlsplit(passage.url)
    except ValueError:
        return passage.url
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}"


# What a word of middling rarity adds to a passage's BM25 score in a collection of some thousand passages. A live result
# belongs to no collection that we could count in.
TYPICAL_WEIGHT = 3.0

Similarity = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]


class LiveSources:
    """The configured live sources. `similarity` gives the cosines of texts with a query.

    `data_dir` is where their requests are counted. Beside stored passages they are waited for `patience_s` seconds at
    most (None: as long as each source's own limit). `meter` counts how they answer.
    """

    def __init__(
        self,
        sources: Mapping[str, SourceSettings],
        similarity: Similarity,
        *,
        data_dir: Path | None = None,
        patience_s: float | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._settings = {name: one for name, one in sources.items() if isinstance(one, LiveSource)}
        self._sources = {name: open_live(name, sources[name], data_dir) for name in self._settings}
        self._standing = {name: one.of for name, one in sources.items() if isinstance(one, StandingSource)}
        self._similarity = similarity
        self._patience_s = patience_s
        self._meter = meter or Unmetered()

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, source: str) -> bool:
        return source in self._sources

    async def beside(
        self, sources: Collection[str], query: str, stored: Coroutine[Any, Any, Sequence[Passage]]
    ) -> list[Passage]:
        """Return what is stored, and what the live ones of the sources find meanwhile.

        What is stored is never lost to them: one that fails or takes too long is left out, and the log says so. Those
        that are asked when needed are asked only where no stored passage is similar enough to the query. A page that
        standing queries have found, too, comes once.
        """
        asked = [name for name in dict.fromkeys(sources) if name in self._sources]
        always = [name for name in asked if self._settings[name].ask == "always"]
        ends = None if self._patience_s is None else asyncio.get_running_loop().time() + self._patience_s
        async with task_group() as tasks:
            asking = tasks.create_task(self._in_time(always, query, ends))
            kept = await stored
            best = max((passage.similarity for passage in kept), default=-1.0)
            needed = [name for name in asked if name not in always and best < self._settings[name].enough]
            found = [*await self._in_time(needed, query, ends), *await asking]
        return without_twins(kept, found, self._standing)

    async def _in_time(self, names: Collection[str], query: str, ends: float | None) -> list[Passage]:
        outcomes = await asyncio.gather(*(self._found_in_time(name, query, ends) for name in names))
        return [passage for outcome in outcomes for passage in outcome]

    async def _found_in_time(self, name: str, query: str, ends: float | None) -> list[Passage]:
        try:
            async with asyncio.timeout_at(ends):
                return await self.search([name], query)
        except TimeoutError:
            logger(__name__).warning("live.cut", source=name, patience_s=self._patience_s)
            return []
        except SourceError:
            # `search` has logged it; beside other sources that is nothing found.
            return []

    async def search(self, sources: Collection[str], query: str) -> list[Passage]:
        """Ask those of the sources that are live, all at once, and return what they found with both scores.

        One that fails is logged and left out; when all of several fail, or the only one, the first failure leaves.
        Raises `SourceError`.
        """
        asked = [self._sources[name] for name in dict.fromkeys(sources) if name in self._sources]
        if not asked:
            return []
        outcomes = await asyncio.gather(*(self._asked(one, query) for one in asked), return_exceptions=True)
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

    async def _asked(self, source: Live, query: str) -> Sequence[Passage]:
        """Ask one source, and count how that ended."""
        started = time.monotonic()
        outcome: LiveOutcome = "cut"
        try:
            found = await source.search(query)
            outcome = "answered"
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._meter.asked(source.name, outcome, time.monotonic() - started)
        return found

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
