"""A store as questions see it: without the results of standing queries whose time is over.

A refresh deletes them. Until it comes, and when it has failed for days, they must not be shown either: so what may be
shown is decided anew at each search, by the record that the refresh keeps beside the store. The record also says when a
result was last found, which is put below its text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from core.errors import SourceError
from core.observability.logs import logger
from core.settings import SourceSettings, StandingSource
from core.types import Passage
from knowledge.ports import Held, Row, Store, Vectors
from knowledge.sources.standing import Record, Result, folder_of, load, state_of


class Unexpired:
    """Implements `Store` over another one, which it does not own: its `close` does nothing."""

    def __init__(
        self,
        store: Store,
        sources: Mapping[str, SourceSettings],
        data_dir: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._standing = {name: one for name, one in sources.items() if isinstance(one, StandingSource)}
        self._folders = {name: folder_of(data_dir, name) for name in self._standing}
        self._clock = clock
        self._records: dict[str, tuple[tuple[int, int], Record]] = {}

    async def manifest(self, source: str) -> Mapping[str, Held]:
        """Return what may be shown of a source, by path."""
        held = await self._store.manifest(source)
        if source not in self._standing:
            return held
        shown = await self._shown(source)
        return {path: one for path, one in held.items() if path in shown}

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Search as the store does. A source of which nothing may be shown takes no place from the others."""
        shown = {source: await self._shown(source) for source in sources if source in self._standing}
        if not shown:
            return await self._store.search(tokens, vector, sources, limit)
        asked = [source for source in sources if shown.get(source, True)]
        found = await self._store.search(tokens, vector, asked, limit) if asked else ()
        return [
            _with_times(one, shown[one.source][one.path]) if one.source in shown else one
            for one in found
            if one.source not in shown or one.path in shown[one.source]
        ]

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source, expired ones too: they say what it is about."""
        return await self._store.vectors(source)

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[Row], empty: Mapping[str, str] | None = None
    ) -> None:
        """Do as the store does."""
        await self._store.replace(source, paths, rows, empty)

    async def optimise(self) -> None:
        """Do as the store does."""
        await self._store.optimise()

    async def close(self) -> None:
        """Leave the store open: who opened it closes it."""

    async def _shown(self, source: str) -> Mapping[str, Result]:
        """Return the results of a standing source that may be shown, by path: none without a record to be read."""
        folder, known = self._folders[source], self._records.get(source)
        try:
            state, record = await asyncio.to_thread(_read, folder, known)
        except SourceError as fault:
            logger(__name__).warning("standing.hidden", source=source, error=str(fault))
            return {}
        self._records[source] = state, record
        paths = record.fresh(self._standing[source].keep_hours, self._clock())
        return {path: record.results[path] for path in paths}


def _with_times(passage: Passage, result: Result) -> Passage:
    return replace(passage, text=f"{passage.text}\n{result.times}")


def _read(folder: Path, known: tuple[tuple[int, int], Record] | None) -> tuple[tuple[int, int], Record]:
    # Looked at before it is read: a record that comes in between is read again at the next search.
    state = state_of(folder)
    return known if known and known[0] == state else (state, load(folder))
