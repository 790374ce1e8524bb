"""When stored sources are due, and their current state, from the configuration and the recorded refreshes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from core.errors import UsageError
from core.runtime.locks import is_refreshing
from core.settings import (
    GitSource,
    LearnedSource,
    LiveSource,
    RefreshSettings,
    Settings,
    SourceSettings,
    StoredSource,
    iter_secrets,
)
from core.settings.audience import Audiences
from core.settings.cron import DEFAULT_JITTER, RefreshSchedule
from core.settings.labels import make_reading
from core.settings.sources import DocumentSource
from core.types import SourceState
from knowledge.sources.common.closed_parts import describe_closed_parts
from knowledge.stores.labels import (
    CLOSED,
    OPEN,
    SECRETS_SIGN,
    may_be_closed,
    read_audiences,
    read_readers,
    write_as_former,
    write_closed_parts,
    write_settings,
)

if TYPE_CHECKING:
    from core.storage.refresh_state import RefreshState

# The key under which a refresh's record names the documents that could not be read.
UNREADABLE = "unreadable"
# That for how many were left out by rule, by reason.
SKIPPED = "skipped"
LANGUAGES = "languages"
# That for how many documents the store had lost passages of.
REPAIRED = "repaired"
# That for since when, in seconds since 1970, a service that works lets us see nothing.
REFUSED_SINCE = "refused_since"
# Those for how many passages have no vector yet, and why none could be made.
UNFILLED = "unfilled"
FILL_ERROR = "fill_error"
# After a failure a source is retried sooner than scheduled: after a minute, then two, then four, at most an hour.
MIN_RETRY_DELAY = timedelta(minutes=1)
MAX_RETRY_DELAY = timedelta(hours=1)
MAX_FIRST_RETRY_DELAY = timedelta(minutes=2)

# Raise it when chunking, titles or lexical tokens change: every document is then read again.
# It did not rise when traditional Chinese was simplified: a query asks for the tokens of before, too.
INDEX_FORMAT = 5


def make_schedule(settings: SourceSettings, default_minutes: float) -> RefreshSchedule:
    """Return the schedule of a source; every `minutes` unless its settings say otherwise."""
    refresh_settings = settings.refresh if isinstance(settings, StoredSource) else RefreshSettings()
    if refresh_settings.cron:
        return RefreshSchedule(
            cron=refresh_settings.cron, timezone=refresh_settings.timezone, jitter=refresh_settings.jitter or 0.0
        )
    interval_minutes = default_minutes if refresh_settings.minutes is None else refresh_settings.minutes
    return RefreshSchedule(
        minutes=interval_minutes, jitter=DEFAULT_JITTER if refresh_settings.jitter is None else refresh_settings.jitter
    )


def next_refresh_at(
    name: str,
    state: RefreshState,
    schedule: RefreshSchedule,
    fingerprint: str,
    *,
    now: datetime,
    started_at: datetime | None = None,
) -> datetime | None:
    """Return when a source is due next: a time that may be past, or None when it is only refreshed on request.

    It is due at once when it was never refreshed, when a refresh was requested, when its settings changed, or when a
    refresh was interrupted. Missed times are made up for once. `started_at` is when the daemon started, for sources
    that are refreshed only then.
    """
    if state.is_requested and state.asked_at:
        # The clock may have been ahead.
        return min(state.asked_at, now)
    if state.paused and not state.is_pending:
        return None
    # Another secret alone does not make it due: tokens are renewed, and each of several daemons may have its own.
    known = state.fingerprint
    is_changed = known.partition(SECRETS_SIGN)[0] != write_as_former(fingerprint, known).partition(SECRETS_SIGN)[0]
    if state.last_try is None or is_changed or state.last_try > now:
        # The latter: a clock that was wrong must not put it off for years.
        return now
    if state.unfinished:
        # A source whose refresh kills the process is retried more and more slowly; one that was never read, soon, but
        # not so often that systemd gives the daemon up.
        delay = _backoff(state.failures - 1) if state.failures > 1 else timedelta()
        return state.last_try + (delay if state.last_success else min(delay, MAX_FIRST_RETRY_DELAY))
    scheduled_at = schedule.next_after(state.last_try, _jitter_fraction(name, state.last_try))
    if state.failures:
        retry_at = (state.ended_at or state.last_try) + _backoff(state.failures)
        return min(scheduled_at or retry_at, retry_at)
    is_start_only = scheduled_at is None and started_at is not None and state.last_try < started_at
    return started_at if is_start_only else scheduled_at


def source_states(
    settings: Settings, states: Mapping[str, RefreshState], started_at: datetime | None = None
) -> list[SourceState]:
    """Return the state of every stored source, in the order of the configuration. Checks the locks of the sources."""
    from core.storage.refresh_state import RefreshState

    return [
        _make_source_state(name, settings, states.get(name, RefreshState()), started_at)
        for name in stored_sources(settings.sources)
    ]


def _make_source_state(name: str, settings: Settings, state: RefreshState, started_at: datetime | None) -> SourceState:
    source = settings.sources[name]
    schedule = make_schedule(source, settings.knowledge.refresh_minutes)
    knowledge = settings.knowledge
    audiences = Audiences.from_settings(settings)
    fingerprint = index_fingerprint(name, settings.sources, knowledge.chunking.tokens, audiences, knowledge.store.place)
    is_running = state.unfinished and is_refreshing(settings.data_dir, name)
    if is_running and state.last_try and not state.is_requested:
        next_run = None if state.paused else schedule.next_after(state.last_try, _jitter_fraction(name, state.last_try))
    else:
        next_run = next_refresh_at(name, state, schedule, fingerprint, now=datetime.now(UTC), started_at=started_at)
    shared_names = ("passages", "documents", "last_try", "last_success", "error", "paused")
    shared_values = {shared_name: getattr(state, shared_name) for shared_name in shared_names}
    return SourceState(
        name=name,
        kind=source.kind,
        running=is_running,
        next_run=next_run,
        unreadable=state.counts.get(UNREADABLE, {}),
        skipped=state.counts.get(SKIPPED, {}),
        repaired=state.counts.get(REPAIRED, 0),
        unfilled=state.counts.get(UNFILLED, 0),
        fill_error=state.counts.get(FILL_ERROR, ""),
        **shared_values,
    )


def _backoff(failures: int) -> timedelta:
    factor: int = 2 ** min(failures - 1, 10)
    return min(MIN_RETRY_DELAY * factor, MAX_RETRY_DELAY)


def _jitter_fraction(name: str, last_try: datetime) -> float:
    """Return a fraction from 0 to 1 for a delay: arbitrary, but always the same for the same input."""
    digest = hashlib.sha256(f"{name}\0{last_try.timestamp()}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def stored_sources(
    sources: Mapping[str, SourceSettings], names: Collection[str] = (), *, lists_others: bool = True
) -> list[str]:
    """Return the named sources (all when none is named) that are read into the store, in the order of `sources`.

    Raises `UsageError` for an unknown name, and for one of a source that is asked at question time. It lists the
    others, unless the error may be read by people who may not see all of them.
    """
    unknown_names = sorted(set(names) - set(sources))
    if unknown_names:
        valid_names = ", ".join(sorted(sources)) or "none are configured"
        others = f"; the sources are: {valid_names}" if lists_others else ""
        raise UsageError(f"no source is named {', '.join(map(repr, unknown_names))}{others}")
    live_names = sorted(name for name in names if isinstance(sources[name], LiveSource))
    if live_names:
        raise UsageError(f"{', '.join(live_names)}: asked at question time, so there is nothing to refresh")
    return [name for name in sources if (not names or name in names) and not isinstance(sources[name], LiveSource)]


def index_fingerprint(
    name: str, sources: Mapping[str, SourceSettings], chunk_tokens: int, audiences: Audiences, store_place: str
) -> str:
    """Return a fingerprint of everything except content that shapes a source's passages; a new one makes the source
    due. It begins with the source's label and who may see it: which taught answers a source has depends on that. So
    does what its pages may show of the files of the other `sources`.

    It ends with how much of the source is read, and with a hash of its secrets: what was read with one token is not
    what another one reads.

    `store_place` is where the passages are: another store may hold those of long ago.
    """
    settings = sources[name]
    parts = (INDEX_FORMAT, chunk_tokens, settings.model_dump_json(exclude={"refresh", "audience"}))
    place = (store_place,) if store_place else ()
    digest = hashlib.sha256("\0".join(map(str, (*parts, *place))).encode()).hexdigest()[:32]
    closed_parts = write_closed_parts(describe_closed_parts(name, sources, audiences))
    secrets = _hash_secrets(settings, sources.get(getattr(settings, "of", "")))
    ending = write_settings(digest, make_reading(settings, sources), secrets)
    return " ".join(filter(None, (*_describe_readers(name, settings, audiences), closed_parts, ending)))


def _hash_secrets(*sections: SourceSettings | None) -> str:
    """Return a short hash of what the secrets and keys of a source's sections are today; "" where it has none."""
    values = list[bytes]()
    for section in filter(None, sections):
        for _, secret in iter_secrets(section):
            values.append(b"" if secret.missing_reason() else secret.value().encode())
        key = section.ssh_key.expanduser() if isinstance(section, GitSource) and section.ssh_key else None
        if key:
            values.append(key.read_bytes() if os.access(key, os.R_OK) else b"")
    return _hash_slowly(b"\0".join(values)) if values else ""


@lru_cache(256)
def _hash_slowly(value: bytes) -> str:
    # The hash stands on disk, and on the server of a store: it must not help to guess a password.
    return hashlib.scrypt(value, salt=b"kimas", n=1 << 14, r=8, p=1, dklen=4).hex()


def was_for_others(
    name: str,
    sources: Mapping[str, SourceSettings],
    audiences: Audiences,
    stored: Collection[str],
    recorded: str | None,
) -> bool:
    """Return whether what is stored of a source may tell today's readers of it what they may not see.

    `stored` are the fingerprints in the store that its passages may have been read under, none of an earlier version;
    `recorded` is that of the journal. The source read something else, which may be closed now under another name; or
    taught answers were chosen for other readers; or the store came back from a time that the journal does not know.
    """
    label, _ = _describe_readers(name, sources[name], audiences)
    fingerprints = stored or [recorded or ""]
    stored_readers = [read_readers(fingerprint) for fingerprint in fingerprints]
    is_former = any(former_label != label for former_label, _ in stored_readers)
    is_unknown = recorded is None or (stored and read_readers(recorded)[0] not in dict(stored_readers))
    # Of files, those documents alone go that take something from others.
    closed_parts = "" if isinstance(sources[name], DocumentSource) else describe_closed_parts(name, sources, audiences)
    reading = make_reading(sources[name], sources)
    return (is_former and bool(is_unknown)) or may_be_closed(name, fingerprints, audiences, closed_parts, reading)


def is_opened_otherwise(name: str, fingerprint: str, stored: Collection[str], audiences: Audiences) -> bool:
    """Return whether more people may see a source than when it was `stored`, and its settings are other ones.

    It may read less than then, or with the rights of somebody else: what it held is not for all of them.
    """
    label, visibility = read_readers(fingerprint)
    for each in stored:
        is_alike = each.rpartition(" ")[2] == write_as_former(fingerprint, each).rpartition(" ")[2]
        if read_readers(each) == (label, CLOSED) and not is_alike:
            # Earlier versions did not write who the readers were.
            readers = read_audiences(each)
            if visibility == OPEN or (visibility == CLOSED and readers and audiences.is_open_to_more(name, readers)):
                return True
    return False


def _describe_readers(name: str, settings: SourceSettings, audiences: Audiences) -> tuple[str, str]:
    visibility = f"{CLOSED} {audiences.describe_readers(name)}" if audiences.by_source.get(name) else OPEN
    if isinstance(settings, LearnedSource):
        visibility = audiences.fingerprint or OPEN
    return audiences.get_label(name), visibility
