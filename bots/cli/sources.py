"""`kimas sources`: the state of every source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from bots.cli.console import describe_repair, make_table
from bots.common.open_storage import open_database, read_states
from bots.common.terminal import make_console, print_json
from bots.console.convert import OWNER_ID, TERMINAL_KEY
from core.formatting import pluralize, strip_control_characters
from core.observability.logs import make_redactor
from core.settings import LiveSource, Settings
from core.settings.audience import Audiences, describe
from core.settings.loader import get_secret_values
from core.types import SourceState
from knowledge.ingestion.schedule import stored_sources
from knowledge.stores import NO_SOURCES, describe_outgrown

if TYPE_CHECKING:
    from rich.console import Console

    from core.storage.engine import Database

MINUTE = 60
HOUR = 3600
DAY = 86400
STORED_SOURCE_KEYS = (
    "passages",
    "documents",
    "last_try",
    "last_success",
    "age_s",
    "next_run",
    "error",
    "paused",
    "running",
    "unreadable",
    "skipped",
    "repaired",
    "by_meaning",
)
MAX_NAMED_DOCUMENTS = 10


async def sources(settings: Settings, *, as_json: bool) -> int:
    """Show the state of every source. Works beside a running daemon, without a model or a store."""
    states = await read_states(settings)
    now = datetime.now(UTC)
    if as_json:
        print_json({"sources": [_as_json(name, settings, states.get(name), now) for name in settings.sources]})
        return 0
    out = make_console()
    if not settings.sources:
        out.print(NO_SOURCES)
        return 0
    show_last_try = any(state.error for state in states.values())
    last_try_heading = ["last try"] if show_last_try else []
    audiences = Audiences.from_settings(settings)
    # Where nothing is closed, the column would say nothing.
    audience_heading = ["audience"] if audiences.has_closed_sources else []
    table = make_table(
        ["source", "kind", *audience_heading],
        ["documents", "passages", "last success", *last_try_heading, "next refresh"],
    )
    for name in settings.sources:
        name_cell, kind_cell, *cells = _make_row(name, settings, states.get(name), now, show_last_try=show_last_try)
        audience_cell = [describe(audiences.by_source[name])] if audience_heading else []
        table.add_row(name_cell, kind_cell, *audience_cell, *cells)
    out.print(table)
    _print_remarks(out, settings, states.values())
    return 0


def _print_remarks(out: Console, settings: Settings, states: Collection[SourceState]) -> None:
    """Say what is to know of sources beside their numbers."""
    redact = make_redactor(get_secret_values(settings))
    for state in states:
        if state.error:
            message = redact(f"{state.name} failed: {state.error}")
            out.print(strip_control_characters(message), style="red", markup=False, soft_wrap=True)
        if state.unfilled:
            out.print(strip_control_characters(redact(_describe_unfilled(state))), markup=False, soft_wrap=True)
        if state.repaired:
            message = f"{state.name}: at the last refresh {describe_repair(state.repaired)}"
            out.print(message, style="yellow", markup=False, soft_wrap=True)
        if state.skipped:
            counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(state.skipped.items()))
            out.print(strip_control_characters(f"{state.name} left out: {counts}"), markup=False, soft_wrap=True)
        for line in _describe_unreadable(state):
            out.print(strip_control_characters(redact(line)), style="yellow", markup=False, soft_wrap=True)
    if hint := describe_outgrown(settings.knowledge.store, sum(state.passages for state in states)):
        out.print(hint, style="yellow", markup=False, soft_wrap=True)


def _describe_unfilled(state: SourceState) -> str:
    """Say how much of a source is found by words, and how much by meaning."""
    amount = f"{pluralize(state.passages, 'passage')} by words, {state.passages - state.unfilled:,} by meaning"
    reason = f"; the embedding model fails: {state.fill_error}" if state.fill_error else ""
    return f"{state.name}: {amount} so far{reason}"


def _describe_unreadable(state: SourceState) -> Sequence[str]:
    """Return a line for each document that could not be read, at most `MAX_NAMED_DOCUMENTS`."""
    names = list(islice(state.unreadable.items(), MAX_NAMED_DOCUMENTS))
    more_count = len(state.unreadable) - len(names)
    more_line = [f"{state.name} skipped {more_count} more"] if more_count else []
    return [f"{state.name} skipped {path}: {reason}" for path, reason in names] + more_line


async def set_paused(settings: Settings, name: str, *, paused: bool) -> int:
    """Pause or resume the scheduled refreshes of a source, and record that in the audit.

    Raises `UsageError` for an unknown or a live source, and `StoreError`.
    """
    stored_sources(settings.sources, [name])
    database = await open_database(settings)
    try:
        await _save_paused(database, settings, name, paused)
    finally:
        await database.close()
    schedule_text = f"only on request: `kimas ingest {name}`" if paused else "on schedule again"
    make_console().print(f"{name} is refreshed {schedule_text}", markup=False, soft_wrap=True)
    return 0


async def _save_paused(database: Database, settings: Settings, name: str, paused: bool) -> None:
    from core.storage.overrides import Audit, AuditEntry
    from core.storage.refresh_state import RefreshStateRepository

    refresh_repository = RefreshStateRepository(database)
    schedule_labels = {True: "only when asked", False: "by its plan"}
    previous_label = schedule_labels[(await refresh_repository.get_state(name)).paused]
    await refresh_repository.set_paused(name, paused)
    entry = AuditEntry(
        datetime.now(UTC),
        TERMINAL_KEY.platform,
        TERMINAL_KEY.chat,
        OWNER_ID,
        "changed",
        f"{'pause' if paused else 'resume'} {name}",
        f"refresh of {name}",
        previous_label,
        schedule_labels[paused],
    )
    await Audit(database, lambda: settings.administration.audit_days).record(entry)


def _as_json(name: str, settings: Settings, state: SourceState | None, now: datetime) -> Mapping[str, Any]:
    """Return a source as `--json` prints it (a contract); keys that a live source lacks are null."""
    source = settings.sources[name]
    fields: dict[str, Any] = {"name": name, "kind": source.kind, "live": isinstance(source, LiveSource)}
    fields["audience"] = describe(Audiences.from_settings(settings).by_source[name])
    if state is None:
        return fields | dict.fromkeys(STORED_SOURCE_KEYS)
    return fields | {
        "passages": state.passages,
        "documents": state.documents,
        "last_try": _format_timestamp(state.last_try),
        "last_success": _format_timestamp(state.last_success),
        "age_s": round((now - state.last_success).total_seconds()) if state.last_success else None,
        "next_run": _format_timestamp(state.next_run),
        "error": make_redactor(get_secret_values(settings))(state.error),
        "paused": state.paused,
        "running": state.running,
        "unreadable": dict(state.unreadable),
        "skipped": dict(state.skipped),
        "repaired": state.repaired,
        "by_meaning": state.passages - state.unfilled,
    }


def _make_row(
    name: str, settings: Settings, state: SourceState | None, now: datetime, *, show_last_try: bool
) -> Sequence[str]:
    """Return the cells of a source, with or without the column for the last try."""
    kind = settings.sources[name].kind
    if state is None:
        return name, kind, "-", "-", "live", *(("-",) if show_last_try else ()), "-"
    counts = (str(state.documents), str(state.passages))
    ages = (_format_age(state.last_success, now), *((_format_age(state.last_try, now),) if show_last_try else ()))
    return name, kind, *counts, *ages, _format_next_run(state, now)


def _format_age(moment: datetime | None, now: datetime) -> str:
    return "never" if moment is None else f"{format_duration((now - moment).total_seconds())} ago"


def _format_next_run(state: SourceState, now: datetime) -> str:
    if state.running:
        return "running"
    if state.next_run is None:
        return "paused" if state.paused else "when asked"
    seconds_left = (state.next_run - now).total_seconds()
    return f"in {format_duration(seconds_left)}" if seconds_left >= 1 else "due"


def format_duration(seconds: float) -> str:
    """Return a length of time in its largest unit that fits, rounded down."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{max(0, int(seconds))} s"


def _format_timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
