"""Leases: what only one of the daemons that share a journal does at a time. PostgreSQL only.

A lease ends by itself when its owner does not renew it. All times are the server's: clocks of daemons do not matter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Select, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from core.errors import StoreError, StoreLocked
from core.observability.logs import get_logger
from core.runtime.tasks import uncancellable
from core.storage.engine import Database, Repository
from core.storage.tables import leases

_log = get_logger(__name__)

# Everybody who is alive holds a lease of this name with their own id.
DAEMON_PREFIX = "daemon:"
KEPT_AFTER_DEATH = timedelta(hours=1)
# No lease is given for so many times its length: where one lasts longer, the server's clock was set back.
MAX_LENGTHS = 60
# A lease runs out a little early and is tried for often, so that somebody else has it within its configured time.
EXPIRY_SHARE = 0.8
RENEWAL_SHARE = 0.2
ATTEMPT_SHARE = 0.1


class Leases(Repository):
    """The leases of one process, which is `owner` among those that share the database.

    They are kept for as long as `run` runs. `lease_s` is how long after a process died another one has its leases.
    `before_rejoin` says to the others again what they may have forgotten of a process that they took for dead.
    """

    before_rejoin: Callable[[], Awaitable[None]] | None = None

    def __init__(self, database: Database, lease_s: float) -> None:
        super().__init__(database)
        self.owner = uuid4().hex
        self.lease_s = lease_s
        self._lost_events: dict[str, asyncio.Event] = {}
        self._renewed_at = time.monotonic()

    @uncancellable
    async def acquire(self, name: str) -> bool:
        """Take a lease that is free, has run out, or is ours; return whether we hold it. Raises `StoreError`."""
        values = {"owner": self.owner, "expires_at": self._expires_at()}
        statement = insert(leases).values(name=name, **values)
        is_free = or_(leases.c.owner == self.owner, leases.c.expires_at < func.now())
        statement = statement.on_conflict_do_update(index_elements=["name"], set_=values, where=is_free)
        async with self._database.transaction() as connection:
            is_held = await connection.scalar(statement.returning(leases.c.owner)) is not None
        if is_held:
            self._lost_events.setdefault(name, asyncio.Event())
        return is_held

    async def release(self, name: str) -> None:
        """Give a lease back. Raises `StoreError`."""
        self._lost_events.pop(name, None)
        await self._database.write(delete(leases).filter_by(name=name, owner=self.owner))

    async def release_all(self) -> None:
        """Give all leases back, and forget daemons that are long dead. Raises `StoreError`."""
        self._lost_events.clear()
        is_old = leases.c.expires_at < func.now() - KEPT_AFTER_DEATH
        await self._database.write(delete(leases).where(or_(leases.c.owner == self.owner, is_old)))

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold a lease for the block. Raises `StoreLocked` when another process has it."""
        if not await self.acquire(name):
            raise StoreLocked(f"another daemon holds {name}; it is free when that one is done, or has died")
        try:
            yield
        finally:
            await self.release(name)

    async def lead(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do some work whenever we hold its lease, until cancelled: another process has it when ours ends.

        Returns when the work does, and raises what it raises.
        """
        while True:
            try:
                is_held = await self.acquire(name)
            except StoreError as error:
                _log.error("lease.acquire_failed", lease=name, error=str(error))
                is_held = False
            if not is_held:
                await asyncio.sleep(self.lease_s * ATTEMPT_SHARE)
                continue
            _log.info("lease.acquired", lease=name)
            try:
                if not await self._run_until_lost(name, work):
                    return
            finally:
                await self._release_quietly(name)
            _log.warning("lease.lost", lease=name)

    async def run(self) -> None:
        """Renew the leases until cancelled; those that could not be renewed in time are lost."""
        while True:
            await asyncio.sleep(self.lease_s * RENEWAL_SHARE)
            try:
                held_names = await self._renew()
                await self._rejoin(held_names)
            except StoreError as error:
                _log.error("lease.not_renewed", error=str(error))
                is_late = time.monotonic() - self._renewed_at > self.lease_s * EXPIRY_SHARE
                held_names = frozenset() if is_late else frozenset(self._lost_events)
            for name, lost_event in self._lost_events.items():
                if name not in held_names:
                    lost_event.set()

    async def count_others(self) -> int:
        """Return how many other processes share the database now."""
        query = select_living().where(leases.c.owner != self.owner)
        return len(await self._database.fetch_all(query))

    async def _run_until_lost(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Return whether the lease was lost before the work was done."""
        lost_event = self._lost_events[name]
        work_task = asyncio.create_task(work())
        lost_task = asyncio.create_task(lost_event.wait())
        try:
            await asyncio.wait((work_task, lost_task), return_when=asyncio.FIRST_COMPLETED)
            if work_task.done():
                await work_task
            return not work_task.done()
        finally:
            for task in (work_task, lost_task):
                task.cancel()
            await asyncio.gather(work_task, lost_task, return_exceptions=True)

    async def _release_quietly(self, name: str) -> None:
        try:
            await self.release(name)
        except StoreError as error:
            # It runs out.
            _log.error("lease.not_released", lease=name, error=str(error))

    @uncancellable
    async def _renew(self) -> frozenset[str]:
        """Renew all leases; return the names of those that are still ours.

        Those of others that seem to last for ever get the usual time: their owner may be dead.
        """
        started_at = time.monotonic()
        renewal = update(leases).filter_by(owner=self.owner).values(expires_at=self._expires_at())
        is_endless = leases.c.expires_at > func.now() + timedelta(seconds=self.lease_s * MAX_LENGTHS)
        async with self._database.transaction() as connection:
            await connection.execute(update(leases).where(is_endless).values(expires_at=self._expires_at()))
            names = (await connection.scalars(renewal.returning(leases.c.name))).all()
        self._renewed_at = started_at
        return frozenset(names)

    async def _rejoin(self, held_names: Collection[str]) -> None:
        """Be among the living again: who slept for long was forgotten (`release_all`), and has nothing to renew."""
        own_name = DAEMON_PREFIX + self.owner
        if own_name in self._lost_events and own_name not in held_names:
            if self.before_rejoin:
                await self.before_rejoin()
            await self.acquire(own_name)

    def _expires_at(self) -> Any:
        return func.now() + timedelta(seconds=self.lease_s * EXPIRY_SHARE)


def select_living() -> Select[tuple[str]]:
    """Return the query for the ids of all processes that are alive."""
    return select(leases.c.owner).where(leases.c.name.startswith(DAEMON_PREFIX), leases.c.expires_at > func.now())


@asynccontextmanager
async def open_leases(database: Database, lease_s: float) -> AsyncIterator[Leases | None]:
    """Hold and renew leases for the length of the block; all are given back at its end. None for a file."""
    if not database.is_on_server:
        yield None
        return
    own_leases = Leases(database, lease_s)
    renewal_task = asyncio.create_task(own_leases.run())
    try:
        yield own_leases
    finally:
        renewal_task.cancel()
        await asyncio.gather(renewal_task, return_exceptions=True)
        try:
            await own_leases.release_all()
        except StoreError as error:
            _log.error("lease.not_released", error=str(error))
