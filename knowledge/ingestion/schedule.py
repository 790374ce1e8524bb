"""When stored sources are due, and how they stand, from the configuration and the record of their refreshes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core.runtime.locks import being_refreshed
from core.settings import RefreshSettings, Settings, SourceSettings, StoredSource
from core.settings.cron import JITTER_SHARE, Timetable
from core.types import SourceState
from knowledge.ingestion.stored_sources import made_by, stored

if TYPE_CHECKING:
    from core.storage.refresh_state import Entry

# After a failure, a source is tried again sooner than its plan says: after a minute, then two, four, an hour at most.
FIRST_RETRY = timedelta(minutes=1)
LAST_RETRY = timedelta(hours=1)


def timetable(settings: SourceSettings, minutes: float) -> Timetable:
    """Return when a source is refreshed; `minutes` apart unless its settings say otherwise."""
    own = settings.refresh if isinstance(settings, StoredSource) else RefreshSettings()
    if own.cron:
        return Timetable(cron=own.cron, timezone=own.timezone, jitter=own.jitter or 0.0)
    every = minutes if own.minutes is None else own.minutes
    return Timetable(minutes=every, jitter=JITTER_SHARE if own.jitter is None else own.jitter)


def due(
    name: str, entry: Entry, table: Timetable, made_by: str, *, now: datetime, started: datetime | None = None
) -> datetime | None:
    """Return when a source is to be refreshed next: a time that may be past, or None for only when asked.

    At once when it never was, when that was asked for, when its settings changed, when a try was broken off. A time
    that nobody was there for is made up for once. `started` is when the daemon began, for what is refreshed then only.
    """
    if entry.asked and entry.asked_at:
        # The clock may have been ahead.
        return min(entry.asked_at, now)
    if entry.paused and not entry.owed:
        return None
    if entry.last_try is None or entry.made_by != made_by or entry.last_try > now:
        # The latter: a clock that was wrong must not put it off for years.
        return now
    if entry.unfinished:
        # What its refresh kills the process with comes round ever more slowly.
        return entry.last_try + (_backoff(entry.failures - 1) if entry.failures > 1 else timedelta())
    planned = table.after(entry.last_try, _luck(name, entry.last_try))
    if entry.failures:
        retry = (entry.ended_at or entry.last_try) + _backoff(entry.failures)
        return min(planned or retry, retry)
    only_then = planned is None and started is not None and entry.last_try < started
    return started if only_then else planned


def source_states(
    settings: Settings, entries: Mapping[str, Entry], started: datetime | None = None
) -> list[SourceState]:
    """Return how every stored source stands, in the order of the configuration. Looks at the locks of the sources."""
    from core.storage.refresh_state import Entry

    return [_state(name, settings, entries.get(name, Entry()), started) for name in stored(settings.sources)]


def _state(name: str, settings: Settings, entry: Entry, started: datetime | None) -> SourceState:
    source = settings.sources[name]
    table = timetable(source, settings.knowledge.refresh_minutes)
    reads = made_by(source, settings.knowledge.chunking.tokens)
    running = entry.unfinished and being_refreshed(settings.data_dir, name)
    if running and entry.last_try and not entry.asked:
        following = None if entry.paused else table.after(entry.last_try, _luck(name, entry.last_try))
    else:
        following = due(name, entry, table, reads, now=datetime.now(UTC), started=started)
    return SourceState(
        name=name,
        kind=source.kind,
        passages=entry.passages,
        documents=entry.documents,
        last_try=entry.last_try,
        last_success=entry.last_success,
        error=entry.error,
        paused=entry.paused,
        running=running,
        next_run=following,
    )


def _backoff(failures: int) -> timedelta:
    doubled: int = 2 ** min(failures - 1, 10)
    return min(FIRST_RETRY * doubled, LAST_RETRY)


def _luck(name: str, last: datetime) -> float:
    """Return the place of a delay within its limits, 0 to 1: any, but the same for whoever asks."""
    digest = hashlib.sha256(f"{name}\0{last.timestamp()}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
