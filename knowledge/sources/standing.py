"""Standing queries: what a live source answers to them is kept as documents, for a while after it was last seen."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from core.errors import SourceError
from core.settings import LiveSource, SourceSettings, StandingSource
from core.types import Passage
from knowledge.live import Live, open_live
from knowledge.live.http_api import split_date
from knowledge.ports import Document, Listing
from knowledge.web.client import line_of

RECORD = "results.json"
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Result:
    """One result: a text at a place. `seen` is when it was last found, in seconds since 1970.

    `dated` is the line in which the service then told its age. `queries` are those that it answers as far as is known:
    none when each of them found another text at this place.
    """

    title: str
    text: str
    url: str
    dated: str
    seen: float
    queries: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it was found: its address, or its title where it has none."""
        return self.url or self.title

    @property
    def times(self) -> str:
        """Say when it was last found, and how old it was then as far as that is known."""
        found = time.strftime("(found %Y-%m-%d %H:%M UTC)", time.gmtime(self.seen))
        return f"{self.dated}\n{found}" if self.dated else found


@dataclass(frozen=True, slots=True)
class Record:
    """All results by path, and when each query was last answered, in seconds since 1970."""

    results: Mapping[str, Result] = field(default_factory=dict)
    asked: Mapping[str, float] = field(default_factory=dict)

    def fresh(self, keep_hours: float, now: float) -> frozenset[str]:
        """Return the paths of the results that may be shown: seen within so many hours."""
        oldest = now - keep_hours * HOUR_S
        return frozenset(path for path, one in self.results.items() if one.seen > oldest)

    def standing(self, queries: Collection[str], keep_hours: float, now: float) -> frozenset[str]:
        """Return the paths of the fresh results that answer one of these queries."""
        fresh = self.fresh(keep_hours, now)
        return frozenset(path for path in fresh if not set(queries).isdisjoint(self.results[path].queries))

    def answered(self, query: str, passages: Sequence[Passage], now: float) -> Record:
        """Return the record with what a query found. A result with another text than at the last time replaces it."""
        found = {path_of(passage): _result(passage, query, now) for passage in passages}
        results = dict(self.results)
        before = Counter(one.place for one in results.values() if query in one.queries)
        places = Counter(one.place for one in found.values())
        for path, one in results.items():
            # A place with several texts, such as a document of a retrieval service: nobody knows which replaced which.
            single = before[one.place] == places[one.place] == 1
            if query in one.queries and path not in found and single:
                results[path] = replace(one, queries=tuple(other for other in one.queries if other != query))
        for path, one in found.items():
            before_now = results[path].queries if path in results else ()
            results[path] = replace(one, queries=(*(other for other in before_now if other != query), query))
        return Record(results, {**self.asked, query: now})

    def without(self, oldest: float) -> Record:
        """Return the record without what was last seen or asked before a time."""
        return Record(
            {path: one for path, one in self.results.items() if one.seen > oldest},
            {query: when for query, when in self.asked.items() if when > oldest},
        )


def path_of(passage: Passage) -> str:
    """Return the path under which a result is stored: its address and a hash of what it says."""
    # Without its date: services say "2 hours ago", and that alone makes no other result.
    text, _ = split_date(passage.text)
    said = hashlib.sha256(f"{passage.url}\n{passage.title}\n{text}".encode()).hexdigest()[:12]
    return f"{(passage.url or passage.title)[:400]} {said}"


def load(folder: Path) -> Record:
    """Read the record in a folder. An empty one stands for none, and for a damaged one: all is asked anew then."""
    try:
        stored = json.loads((folder / RECORD).read_text("utf-8"))
        results = {path: _read(one) for path, one in stored["results"].items()}
        return Record(results, {str(query): float(when) for query, when in stored["asked"].items()})
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, AttributeError):
        return Record()
    except OSError as fault:
        raise SourceError(f"{folder / RECORD} cannot be read: {fault.strerror}") from fault


def save(folder: Path, record: Record) -> None:
    """Replace the record in a folder, in one step. Raises `SourceError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{RECORD}.new"
        fresh.write_text(json.dumps(asdict(record)), "utf-8")
        os.replace(fresh, folder / RECORD)
    except OSError as fault:
        raise SourceError(f"{folder / RECORD} cannot be written: {fault.strerror}") from fault


def state_of(folder: Path) -> tuple[int, int]:
    """Return what differs as soon as another record lies in a folder; zeros for none."""
    try:
        found = (folder / RECORD).stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def _result(passage: Passage, query: str, now: float) -> Result:
    text, dated = split_date(passage.text)
    return Result(passage.title, text or passage.title, passage.url, dated, now, (query,))


def _read(stored: Mapping[str, Any]) -> Result:
    return Result(
        title=str(stored["title"]),
        text=str(stored["text"]),
        url=str(stored["url"]),
        dated=str(stored["dated"]),
        seen=float(stored["seen"]),
        queries=tuple(map(str, stored["queries"])),
    )


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
