"""The state of the stored sources, in the journal's database: their last and requested refreshes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row as ResultRow, case, delete, insert, null, select, update
from sqlalchemy.exc import IntegrityError

from core.runtime.tasks import uncancellable
from core.storage.engine import Repository
from core.storage.tables import DEPLOYMENT_SCOPE, overrides, refreshes

PUBLIC_PREFIX = "public "


@dataclass(frozen=True, slots=True)
class RefreshState:
    """The state of one source. Times are None for never.

    `unfinished` is true while a refresh runs, or after its process died. `failures` counts the refreshes since the last
    success, including a running one; `fingerprint` is that of the settings of the last one. `changed_at` is the
    last change of the knowledge, `asked_at` the time of a request that is not complete, `counts` the result of the last
    success by name, and what has been counted since.
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
    fingerprint: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_requested(self) -> bool:
        """Return whether a refresh was requested after the last one started."""
        return self.asked_at is not None and (self.last_try is None or self.asked_at > self.last_try)

    @property
    def is_pending(self) -> bool:
        """Return whether a requested refresh has not ended yet; it may have started."""
        return self.is_requested or (self.asked_at is not None and self.unfinished)


class RefreshStateRepository(Repository):
    """The refresh states that all processes share. Every method raises `StoreError` when the database fails."""

    async def get_states(self) -> Mapping[str, RefreshState]:
        """Return the state of every source that was ever refreshed, requested or paused, by name."""
        return {row.source: _to_state(row) for row in await self._database.fetch_all(select(refreshes))}

    async def get_state(self, source: str) -> RefreshState:
        """Return the state of one source."""
        row = await self._database.fetch_first(select(refreshes).filter_by(source=source))
        return RefreshState() if row is None else _to_state(row)

    async def mark_started(self, source: str, fingerprint: str) -> None:
        """Record that a refresh starts."""
        now = _now()
        asked_at = refreshes.c.asked_at
        values: dict[str, Any] = {"failures": refreshes.c.failures + 1, "fingerprint": fingerprint}
        # A request from a time when the clock was ahead is the one that starts now.
        values["asked_at"] = case((asked_at > now, now), else_=asked_at)
        await self._upsert(source, last_try=now, ended_at=None, unfinished=True, **values)

    async def mark_aborted(self, source: str) -> None:
        """Record that a refresh was aborted by us, which is neither a success nor a failure."""
        await self._upsert(source, failures=refreshes.c.failures - 1)

    async def mark_succeeded(
        self, source: str, *, passages: int, documents: int, counts: Mapping[str, Any], changed: bool
    ) -> None:
        """Record a successful refresh."""
        now = _now()
        end_values = {"failures": 0, "error": "", "last_success": now, **_end_values(now)}
        change_values = {"changed_at": now} if changed else {}
        await self._upsert(
            source, passages=passages, documents=documents, counts=dict(counts), **end_values, **change_values
        )

    async def mark_failed(self, source: str, error: str, *, passages: int, documents: int, changed: bool) -> None:
        """Record why a refresh failed, and what is stored nevertheless."""
        now = _now()
        change_values = {"changed_at": now} if changed else {}
        await self._upsert(
            source, passages=passages, documents=documents, error=error, **_end_values(now), **change_values
        )

    async def update_counts(self, source: str, counts: Mapping[str, Any], *, changed: bool) -> None:
        """Record some of the counts anew. Hold the source's lock around it."""
        change_values = {"changed_at": _now()} if changed else {}
        state = await self.get_state(source)
        await self._upsert(source, counts={**state.counts, **counts}, **change_values)

    async def request_refresh(self, sources: Collection[str]) -> None:
        """Request a refresh of these sources as soon as possible; one that has started already does not count."""
        for source in sources:
            await self._upsert(source, asked_at=_now())

    async def set_paused(self, source: str, paused: bool) -> None:
        """Record whether a source is refreshed only on request."""
        await self._upsert(source, paused=paused)

    async def mark_invalidated(self, sources: Collection[str]) -> None:
        """Record that nothing of these sources is stored any more, so that they are due."""
        for source in sources:
            await self._upsert(source, fingerprint="", passages=0, documents=0)

    async def list_public_marks(self) -> frozenset[str]:
        """Return the marks of what any machine has found public once."""
        names = select(overrides.c.name).where(
            overrides.c.scope == DEPLOYMENT_SCOPE, overrides.c.name.startswith(PUBLIC_PREFIX, autoescape=True)
        )
        return frozenset(row.name.removeprefix(PUBLIC_PREFIX) for row in await self._database.fetch_all(names))

    @uncancellable
    async def add_public_marks(self, marks: Collection[str]) -> None:
        """Record that something was public once: whoever makes it private later closes it for all machines."""
        for mark in marks:
            values = {"scope": DEPLOYMENT_SCOPE, "name": f"{PUBLIC_PREFIX}{mark}", "value": ""}
            # Another machine may record the same at this moment.
            async with self._database.transaction() as connection:
                with suppress(IntegrityError):
                    async with connection.begin_nested():
                        await connection.execute(insert(overrides).values(values))

    async def delete_state(self, source: str) -> None:
        """Remove the state of a source, as if it had never been refreshed, requested or paused."""
        await self._database.write(delete(refreshes).filter_by(source=source))

    @uncancellable
    async def _upsert(self, source: str, **values: Any) -> None:
        row = update(refreshes).filter_by(source=source)
        async with self._database.transaction() as connection:
            # This update takes the lock first, so that no other process inserts the row in between.
            if not (await connection.execute(row.values(source=source))).rowcount:
                await connection.execute(insert(refreshes).values(source=source))
            await connection.execute(row.values(values))


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
