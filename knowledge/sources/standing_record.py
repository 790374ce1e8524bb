"""What standing queries have found, as it is kept beside the store: which result was last seen when, and by whom."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from core.errors import SourceError
from core.types import Passage
from knowledge.live.http_api import split_date

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
