"""How the stored sources stand, in the journal's database: their last refreshes, and what was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row as ResultRow
from sqlalchemy import case, delete, insert, null, select, update

from core.runtime.tasks import uncancellable
from core.storage.engine import Database
from core.storage.tables import refreshes


@dataclass(frozen=True, slots=True)
class RefreshState:
    """How one source stands. Times are None for never.

    `unfinished` tells that a try has begun and not ended: it is on, or its process died. `failures` counts the tries
    since the last success, with one that is on; `made_by` is a fingerprint of what the last try was to read.
    `changed_at` is when knowledge last changed, `asked_at` when a refresh was asked for that has not ended. `counts` is
    what the last success did, by name.
    """

    last_try: datetime | None = None
    ended_at: datetime | None = None
    last_success: datetime | None = None
    changed_at: datetime | None = None
    asked_at: datetime | None = None
    unfinished: bool = False
    paused: bool = False
    failures: int = 0
    passages: int = 0
    documents: int = 0
    error: str = ""
    made_by: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_requested(self) -> bool:
        """Tell whether a refresh was asked for after the last try had begun."""
        return self.asked_at is not None and (self.last_try is None or self.asked_at > self.last_try)

    @property
    def is_pending(self) -> bool:
        """Tell whether a refresh that was asked for has not ended yet, be it that it has begun."""
        return self.is_requested or (self.asked_at is not None and self.unfinished)


class RefreshStateRepository:
    """What every process that refreshes notes down. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_states(self) -> Mapping[str, RefreshState]:
        """Return how every source stands that was ever refreshed, asked for or paused, by name."""
        async with self._database.connect() as connection:
            rows = (await connection.execute(select(refreshes))).all()
        return {row.source: _to_state(row) for row in rows}

    async def get_state(self, source: str) -> RefreshState:
        """Return how one source stands."""
        async with self._database.connect() as connection:
            row = (await connection.execute(select(refreshes).where(refreshes.c.source == source))).first()
        return RefreshState() if row is None else _to_state(row)

    async def mark_started(self, source: str, made_by: str) -> None:
        """Note that a try begins."""
        now, asked_at = _now(), refreshes.c.asked_at
        values: dict[str, Any] = {"failures": refreshes.c.failures + 1, "made_by": made_by}
        # What was asked for while the clock was ahead is what now begins.
        values["asked_at"] = case((asked_at > now, now), else_=asked_at)
        await self._upsert(source, last_try=now, ended_at=None, unfinished=True, **values)

    async def mark_aborted(self, source: str) -> None:
        """Note that a try was given up for reasons of ours: it counts neither as success nor as failure."""
        await self._upsert(source, failures=refreshes.c.failures - 1)

    async def mark_succeeded(
        self, source: str, *, passages: int, documents: int, counts: Mapping[str, Any], changed: bool
    ) -> None:
        """Note that a try has brought a source up to date."""
        now = _now()
        end_values = {"failures": 0, "error": "", "last_success": now, **_end_values(now)}
        change_values = {"changed_at": now} if changed else {}
        await self._upsert(
            source, passages=passages, documents=documents, counts=dict(counts), **end_values, **change_values
        )

    async def mark_failed(self, source: str, error: str, *, passages: int, documents: int, changed: bool) -> None:
        """Note why a try failed, and what is stored all the same."""
        now = _now()
        change_values = {"changed_at": now} if changed else {}
        await self._upsert(
            source, passages=passages, documents=documents, error=error, **_end_values(now), **change_values
        )

    async def request_refresh(self, sources: Collection[str]) -> None:
        """Note that these are to be refreshed as soon as may be; what has begun by now does not count."""
        for source in sources:
            await self._upsert(source, asked_at=_now())

    async def set_paused(self, source: str, paused: bool) -> None:
        """Note whether a source is refreshed only when asked."""
        await self._upsert(source, paused=paused)

    async def mark_invalidated(self, sources: Collection[str]) -> None:
        """Note that nothing of these sources is stored any more, so that they are due."""
        for source in sources:
            await self._upsert(source, made_by="", passages=0, documents=0)

    @uncancellable
    async def delete_state(self, source: str) -> None:
        """Forget a source: it stands as if it had never been refreshed, asked for or paused."""
        async with self._database.transaction() as connection:
            await connection.execute(delete(refreshes).where(refreshes.c.source == source))

    @uncancellable
    async def _upsert(self, source: str, **values: Any) -> None:
        async with self._database.transaction() as connection:
            # Writing first takes the lock, so that no other process puts the row in between.
            result = await connection.execute(
                update(refreshes).where(refreshes.c.source == source).values(source=source)
            )
            if not result.rowcount:
                await connection.execute(insert(refreshes).values(source=source))
            await connection.execute(update(refreshes).where(refreshes.c.source == source).values(values))


def _now() -> datetime:
    return datetime.now(UTC)


def _end_values(now: datetime) -> Mapping[str, Any]:
    asked_at = refreshes.c.asked_at
    requested_at = case((asked_at > refreshes.c.last_try, asked_at), else_=null())
    return {"unfinished": False, "ended_at": now, "asked_at": requested_at}


def _to_state(row: ResultRow[Any]) -> RefreshState:
    values = {name: getattr(row, name) for name in RefreshState.__dataclass_fields__}
    values["counts"] = row.counts or {}
    return RefreshState(**values)
