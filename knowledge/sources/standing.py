"""Standing queries: the results of a live source are stored as documents for a while after they were last found."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from core.errors import SourceError
from core.settings import LiveSource, SourceSettings, StandingSource
from core.types import Passage
from knowledge.live import LiveRetriever, open_live_source
from knowledge.live.mapping import split_date
from knowledge.ports import Document, Listing
from knowledge.sources.common.state_files import read_json, write_json
from knowledge.web.values import to_line

RECORD_FILE = "results.json"
HOUR_S = 3600

MAX_QUERIES = 1000
MAX_QUERY_CHARS = 400

# Concurrent queries: people's questions use the same service, so it must not be flooded.
MAX_CONCURRENT_QUERIES = 4

# How much longer than shown a result stays on record, so that a refresh still knows what to delete.
RECORD_TTL_S = 7 * 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class StandingResult:
    """One result: a text at a place. `found_at` is when it was last found, in seconds since 1970.

    `date_line` is the line in which the service then gave its age. `queries` are those that it is known to answer: none
    when each of them found another text at this place.
    """

    title: str
    text: str
    url: str
    date_line: str
    found_at: float
    queries: tuple[str, ...]

    @property
    def location(self) -> str:
        """Where it was found: its address, or its title where it has none."""
        return self.url or self.title

    @property
    def time_note(self) -> str:
        """Say when it was last found, and how old it was then as far as that is known."""
        found_line = time.strftime("(found %Y-%m-%d %H:%M UTC)", time.gmtime(self.found_at))
        return f"{self.date_line}\n{found_line}" if self.date_line else found_line


@dataclass(frozen=True, slots=True)
class StandingRecord:
    """All results by path, and when each query was last answered, in seconds since 1970."""

    results: Mapping[str, StandingResult] = field(default_factory=dict)
    answered_at: Mapping[str, float] = field(default_factory=dict)

    def fresh_paths(self, keep_hours: float, now: float) -> frozenset[str]:
        """Return the paths of the results that may be shown: found within so many hours."""
        cutoff = now - keep_hours * HOUR_S
        return frozenset(path for path, result in self.results.items() if result.found_at > cutoff)

    def fresh_paths_for(self, queries: Collection[str], keep_hours: float, now: float) -> frozenset[str]:
        """Return the paths of the fresh results that answer one of these queries."""
        fresh_paths = self.fresh_paths(keep_hours, now)
        return frozenset(path for path in fresh_paths if not set(queries).isdisjoint(self.results[path].queries))

    def with_answer(self, query: str, passages: Sequence[Passage], now: float) -> StandingRecord:
        """Return the record with what a query found. A result with another text than at the last time replaces it."""
        new_results = {to_path(passage): _to_result(passage, query, now) for passage in passages}
        results = dict(self.results)
        previous_counts = Counter(result.location for result in results.values() if query in result.queries)
        new_counts = Counter(result.location for result in new_results.values())
        for path, result in results.items():
            # A place with several texts, such as a document of a retrieval service: nobody knows which replaced which.
            is_single = previous_counts[result.location] == new_counts[result.location] == 1
            if query in result.queries and path not in new_results and is_single:
                results[path] = replace(
                    result, queries=tuple(other_query for other_query in result.queries if other_query != query)
                )
        for path, result in new_results.items():
            previous_queries = results[path].queries if path in results else ()
            results[path] = replace(
                result, queries=(*(other_query for other_query in previous_queries if other_query != query), query)
            )
        return StandingRecord(results, {**self.answered_at, query: now})

    def without_older_than(self, cutoff: float) -> StandingRecord:
        """Return the record without results last found, and queries last answered, before a time."""
        return StandingRecord(
            {path: result for path, result in self.results.items() if result.found_at > cutoff},
            {query: answered_at for query, answered_at in self.answered_at.items() if answered_at > cutoff},
        )


def to_path(passage: Passage) -> str:
    """Return the path under which a result is stored: its address and a hash of what it says."""
    # Without its date: services say "2 hours ago", and that alone makes no other result.
    text, _ = split_date(passage.text)
    digest = hashlib.sha256(f"{passage.url}\n{passage.title}\n{text}".encode()).hexdigest()[:12]
    return f"{(passage.url or passage.title)[:400]} {digest}"


def load_record(folder: Path) -> StandingRecord:
    """Read the record in a folder. A missing or damaged record is an empty one: then all queries are sent again."""
    try:
        data = read_json(folder / RECORD_FILE)
        results = {path: _parse_result(value) for path, value in data["results"].items()}
        times = {str(query): float(answered_at) for query, answered_at in data["answered_at"].items()}
        return StandingRecord(results, times)
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, AttributeError):
        return StandingRecord()
    except OSError as error:
        raise SourceError(f"{folder / RECORD_FILE} cannot be read: {error.strerror}") from error


def save_record(folder: Path, record: StandingRecord) -> None:
    """Replace the record in a folder, in one step. Raises `SourceError`."""
    write_json(folder / RECORD_FILE, asdict(record))


def get_file_version(folder: Path) -> tuple[int, int]:
    """Return a version of the record file, which changes whenever the file is replaced; zeros without a file."""
    try:
        file_stat = (folder / RECORD_FILE).stat()
    except OSError:
        return 0, 0
    return file_stat.st_ino, file_stat.st_mtime_ns


def _to_result(passage: Passage, query: str, now: float) -> StandingResult:
    text, date_line = split_date(passage.text)
    return StandingResult(passage.title, text or passage.title, passage.url, date_line, now, (query,))


def _parse_result(data: Mapping[str, Any]) -> StandingResult:
    title, text, url, date_line = (str(data[name]) for name in ("title", "text", "url", "date_line"))
    return StandingResult(title, text, url, date_line, float(data["found_at"]), tuple(map(str, data["queries"])))


def get_record_folder(data_dir: Path, name: str) -> Path:
    """Return where a source of standing queries keeps its record."""
    return data_dir.expanduser() / "standing" / name


class StandingQueries:
    """The standing queries of one live source, whose settings are `live`.

    The record is in the folder `get_record_folder`.
    """

    def __init__(
        self,
        name: str,
        settings: StandingSource,
        live_settings: SourceSettings | None,
        data_dir: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(live_settings, LiveSource):
            raise SourceError(f"source {name}: of: {settings.of} is no source that is asked at question time")
        self.name = name
        self._settings = settings
        # Nobody waits for a refresh, and a cached answer would be no news.
        changes = {"limit": settings.limit, "timeout_s": settings.timeout_s, "cache_s": 0}
        self._live_settings: SourceSettings = live_settings.model_copy(update=changes)
        self._data_dir = data_dir
        self._folder = get_record_folder(data_dir, name)
        self._clock = clock

    async def listing(self) -> Listing:
        """Ask all queries, and list their results with those of earlier times that are not too old.

        A query that fails keeps its earlier results; `stale` says why. Raises `SourceError` when nothing is known, or
        the file of queries cannot be read.
        """
        queries = await asyncio.to_thread(self._load_queries)
        record = await asyncio.to_thread(load_record, self._folder)
        retriever = open_live_source(self._settings.of, self._live_settings, self._data_dir)
        try:
            record, errors = await self._run_queries(retriever, queries, record)
        finally:
            await retriever.close()
        now = self._clock()
        record = record.without_older_than(now - self._settings.keep_hours * HOUR_S - RECORD_TTL_S)
        stale_reason = f"{len(errors)} of {len(queries)} queries failed: {errors[0]}" if errors else ""
        if not record.results:
            reason = stale_reason or f"{retriever.display_url} found nothing for {len(queries)} queries"
            raise SourceError(f"source {self.name}: {reason}")
        # Before the passages are written: what is not on record is not shown.
        await asyncio.to_thread(save_record, self._folder, record)
        paths = record.fresh_paths_for(queries, self._settings.keep_hours, now)
        return Listing({path: path.rpartition(" ")[2] for path in paths}, stale=stale_reason)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield results as they were last found."""
        results = (await asyncio.to_thread(load_record, self._folder)).results
        for path in paths:
            result = results.get(path)
            if path in listing.fingerprints and result is not None:
                # Without times, which would change with each refresh: who searches puts them in.
                yield Document(path, result.text, "web", result.title, result.url)

    async def _run_queries(
        self, retriever: LiveRetriever, queries: Sequence[str], record: StandingRecord
    ) -> tuple[StandingRecord, Sequence[SourceError]]:
        """Return the record with the new answers, and why queries failed; after a whole row of failures the rest do.

        The queries that were not answered for the longest time come first, so that a limit never cuts off the same
        ones.
        """
        errors: list[SourceError] = []
        ordered_queries = sorted(queries, key=lambda query: record.answered_at.get(query, 0.0))
        for start in range(0, len(ordered_queries), MAX_CONCURRENT_QUERIES):
            batch = ordered_queries[start : start + MAX_CONCURRENT_QUERIES]
            outcomes = await asyncio.gather(*(self._run_query(retriever, query) for query in batch))
            batch_errors = [outcome for outcome in outcomes if isinstance(outcome, SourceError)]
            errors += batch_errors
            for query, outcome in zip(batch, outcomes, strict=True):
                if not isinstance(outcome, SourceError):
                    record = record.with_answer(query, outcome, self._clock())
            if len(batch_errors) == len(batch):
                return record, [*errors, *batch_errors[:1] * (len(ordered_queries) - start - len(batch))]
        return record, errors

    async def _run_query(self, retriever: LiveRetriever, query: str) -> Sequence[Passage] | SourceError:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await retriever.search(query)
        except SourceError as error:
            return error
        except TimeoutError:
            return SourceError(f"{retriever.display_url} did not answer within {self._settings.timeout_s:g} s")

    def _load_queries(self) -> Sequence[str]:
        """Return all queries, each once. Blocking. Raises `SourceError`."""
        lines: Sequence[str] = ()
        file = self._settings.queries_file
        if file:
            try:
                lines = file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
                raise SourceError(f"source {self.name}: {file} cannot be read: {reason}") from error
        file_queries = [to_line(line, MAX_QUERY_CHARS) for line in lines if not line.lstrip().startswith("#")]
        queries = list(dict.fromkeys(filter(None, (*map(str.strip, self._settings.queries), *file_queries))))
        if not 0 < len(queries) <= MAX_QUERIES:
            raise SourceError(f"source {self.name}: {len(queries)} queries; there may be 1 to {MAX_QUERIES}")
        return queries
