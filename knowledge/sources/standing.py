"""Standing queries: what a live source answers to them is kept as documents, for a while after it was last seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path

from core.errors import SourceError
from core.settings import LiveSource, SourceSettings, StandingSource
from core.types import Passage
from knowledge.live import Live, open_live
from knowledge.ports import Document, Listing
from knowledge.sources.standing_record import HOUR_S, Record, load, save
from knowledge.web.replies import line_of

MOST_QUERIES = 1000
MOST_CHARS = 400
# Queries asked at once: a service that people's questions go to as well must not be flooded.
AT_ONCE = 4
# How much longer than it is shown a result stays on record, so that a refresh still knows of what it has to delete.
RECORD_S = 7 * 24 * HOUR_S


def folder_of(data_dir: Path, name: str) -> Path:
    """Return where a source of standing queries keeps its record."""
    return data_dir.expanduser() / "standing" / name


class StandingQueries:
    """The standing queries of one live source, whose settings are `live`. The record is kept in `folder_of` it."""

    def __init__(
        self,
        name: str,
        settings: StandingSource,
        live: SourceSettings | None,
        data_dir: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(live, LiveSource):
            raise SourceError(f"source {name}: of: {settings.of} is no source that is asked at question time")
        self.name = name
        self._settings = settings
        # In a refresh nobody waits, and an earlier answer is no news.
        changes = {"limit": settings.limit, "timeout_s": settings.timeout_s, "cache_s": 0}
        self._live: SourceSettings = live.model_copy(update=changes)
        self._data_dir = data_dir
        self._folder = folder_of(data_dir, name)
        self._clock = clock

    async def listing(self) -> Listing:
        """Ask all queries, and list their results with those of earlier times that are not too old.

        A query that fails keeps its earlier results; `stale` says why. Raises `SourceError` when nothing is known, or
        the file of queries cannot be read.
        """
        queries = await asyncio.to_thread(self._queries)
        record = await asyncio.to_thread(load, self._folder)
        live = open_live(self._settings.of, self._live, self._data_dir)
        try:
            record, failures = await self._asked(live, queries, record)
        finally:
            await live.close()
        now = self._clock()
        record = record.without(now - self._settings.keep_hours * HOUR_S - RECORD_S)
        stale = f"{len(failures)} of {len(queries)} queries failed: {failures[0]}" if failures else ""
        if not record.results:
            reason = stale or f"{live.where} found nothing for {len(queries)} queries"
            raise SourceError(f"source {self.name}: {reason}")
        # Before the passages are written: what is not on record is not shown.
        await asyncio.to_thread(save, self._folder, record)
        paths = record.standing(queries, self._settings.keep_hours, now)
        return Listing({path: path.rpartition(" ")[2] for path in paths}, stale=stale)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield results as they were last found."""
        results = (await asyncio.to_thread(load, self._folder)).results
        for path in paths:
            result = results.get(path)
            if path in listing.fingerprints and result is not None:
                # Without times, which would change with each refresh: who searches puts them in.
                yield Document(path, result.text, "web", result.title, result.url)

    async def _asked(self, live: Live, queries: Sequence[str], record: Record) -> tuple[Record, Sequence[SourceError]]:
        """Return the record with the new answers, and why queries failed; after a whole row of failures the rest do.

        Those come first that were not answered for the longest time: so none is always the one cut off by a limit.
        """
        failures: list[SourceError] = []
        due = sorted(queries, key=lambda query: record.asked.get(query, 0.0))
        for start in range(0, len(due), AT_ONCE):
            row = due[start : start + AT_ONCE]
            outcomes = await asyncio.gather(*(self._outcome(live, query) for query in row))
            failed = [outcome for outcome in outcomes if isinstance(outcome, SourceError)]
            failures += failed
            for query, outcome in zip(row, outcomes, strict=True):
                if not isinstance(outcome, SourceError):
                    record = record.answered(query, outcome, self._clock())
            if len(failed) == len(row):
                return record, [*failures, *failed[:1] * (len(due) - start - len(row))]
        return record, failures

    async def _outcome(self, live: Live, query: str) -> Sequence[Passage] | SourceError:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await live.search(query)
        except SourceError as fault:
            return fault
        except TimeoutError:
            return SourceError(f"{live.where} did not answer within {self._settings.timeout_s:g} s")

    def _queries(self) -> Sequence[str]:
        """Return all queries, each once. Blocking. Raises `SourceError`."""
        lines: Sequence[str] = ()
        file = self._settings.queries_file
        if file:
            try:
                lines = file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as fault:
                reason = getattr(fault, "strerror", None) or "it is no UTF-8 text"
                raise SourceError(f"source {self.name}: {file} cannot be read: {reason}") from fault
        told = [line_of(line, MOST_CHARS) for line in lines if not line.lstrip().startswith("#")]
        queries = list(dict.fromkeys(filter(None, (*map(str.strip, self._settings.queries), *told))))
        if not 0 < len(queries) <= MOST_QUERIES:
            raise SourceError(f"source {self.name}: {len(queries)} queries; there may be 1 to {MOST_QUERIES}")
        return queries
