"""How every source stands, as `kimas sources` shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bots.cli.console import without_name
from bots.common.terminal import console, print_json, printable
from bots.console.commands import HERE, OWNER
from bots.daemon.bootstrap import open_database, open_record
from core.observability.logs import redactor
from core.settings import LiveSource, Settings
from core.settings.loader import secret_values
from core.types import SourceState
from knowledge.ingestion.schedule import source_states
from knowledge.ingestion.stored_sources import stored

if TYPE_CHECKING:
    from core.storage.engine import Database

MINUTE, HOUR, DAY = 60, 3600, 86400
STORED_ONLY = (
    *("passages", "documents", "last_try", "last_success", "age_s", "next_run", "error", "paused", "running"),
)


async def sources(settings: Settings, *, as_json: bool) -> int:
    """Show how every source stands. Works beside a running daemon, and asks no model and no store."""
    states = await read_states(settings)
    now = datetime.now(UTC)
    if as_json:
        print_json({"sources": [_as_json(name, settings, states.get(name), now) for name in settings.sources]})
        return 0
    out = console()
    if not settings.sources:
        out.print("no sources are configured: docs/sources.md says how to add one")
        return 0
    table = Table("source", "kind", box=None, header_style="bold", pad_edge=False)
    tries = any(state.error for state in states.values())
    for heading in ("documents", "passages", "last success", *(("last try",) if tries else ()), "next refresh"):
        table.add_column(heading, justify="right")
    for name in settings.sources:
        table.add_row(*_row(name, settings, states.get(name), now, tries=tries))
    out.print(table)
    hide = redactor(secret_values(settings))
    for state in states.values():
        if state.error:
            failure = hide(f"{state.name} failed: {without_name(state.name, state.error)}")
            out.print(printable(failure), style="red", markup=False, soft_wrap=True)
    return 0


async def plan(settings: Settings, name: str, *, paused: bool) -> int:
    """Refresh a source only when asked, or by its plan again, and put that on record.

    Raises `UsageError` for an unknown source and for one that is asked at question time, `StoreError`.
    """
    stored(settings.sources, [name])
    database = await open_database(settings)
    try:
        await _set_paused(database, settings, name, paused)
    finally:
        await database.close()
    what = f"only when asked: `kimas ingest {name}`" if paused else "by its plan again"
    console().print(f"{name} is refreshed {what}", markup=False, soft_wrap=True)
    return 0


async def _set_paused(database: Database, settings: Settings, name: str, paused: bool) -> None:
    from core.storage.audit import Audit, Entry
    from core.storage.refresh_state import UpkeepRecord

    record = UpkeepRecord(database)
    words = {True: "only when asked", False: "by its plan"}
    before = words[(await record.entry(name)).paused]
    await record.pause(name, paused)
    entry = Entry(
        datetime.now(UTC),
        HERE.platform,
        HERE.chat,
        OWNER,
        "changed",
        f"{'pause' if paused else 'resume'} {name}",
        f"refresh of {name}",
        before,
        words[paused],
    )
    await Audit(database, settings.administration.audit_days).record(entry)


async def read_states(settings: Settings) -> Mapping[str, SourceState]:
    """Return how the stored sources stand, by name. Raises `StoreError`."""
    entries = {}
    # Looking makes nothing: before the first refresh there is no database.
    if await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        async with open_record(settings) as record:
            entries = dict(await record.entries())
    return {state.name: state for state in await asyncio.to_thread(source_states, settings, entries)}


def _as_json(name: str, settings: Settings, state: SourceState | None, now: datetime) -> Mapping[str, Any]:
    """Return one source as `--json` prints it (a contract); what a live one has not is null."""
    source = settings.sources[name]
    shown: dict[str, Any] = {"name": name, "kind": source.kind, "live": isinstance(source, LiveSource)}
    if state is None:
        return shown | dict.fromkeys(STORED_ONLY)
    return shown | {
        "passages": state.passages,
        "documents": state.documents,
        "last_try": _iso(state.last_try),
        "last_success": _iso(state.last_success),
        "age_s": round((now - state.last_success).total_seconds()) if state.last_success else None,
        "next_run": _iso(state.next_run),
        "error": redactor(secret_values(settings))(state.error),
        "paused": state.paused,
        "running": state.running,
    }


def _row(name: str, settings: Settings, state: SourceState | None, now: datetime, *, tries: bool) -> Sequence[str]:
    """Return the cells of one source; `tries` says whether there is a column for the last try."""
    kind = settings.sources[name].kind
    if state is None:
        return name, kind, "-", "-", "live", *(("-",) if tries else ()), "-"
    amount = (str(state.documents), str(state.passages))
    ages = (_age(state.last_success, now), *((_age(state.last_try, now),) if tries else ()))
    return name, kind, *amount, *ages, _following(state, now)


def _age(moment: datetime | None, now: datetime) -> str:
    return "never" if moment is None else f"{span((now - moment).total_seconds())} ago"


def _following(state: SourceState, now: datetime) -> str:
    if state.running:
        return "running"
    if state.next_run is None:
        return "paused" if state.paused else "when asked"
    away = (state.next_run - now).total_seconds()
    return f"in {span(away)}" if away >= 1 else "due"


def span(seconds: float) -> str:
    """Return a length of time in its largest unit that fits, rounded down."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{max(0, int(seconds))} s"


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat(timespec="seconds")
