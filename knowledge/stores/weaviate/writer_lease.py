"""One writer per source at a time across all machines: a claim in the store on the next generation of the source.

The server knows no transactions. So a claim is an object that only one writer can create, and one that has ended is
never taken over: the next writer claims the generation after it. The commit names the generations that it skips, so
nobody ever sees what a writer sends that was paused and does not know yet that it lost its claim.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from core.errors import StoreError, StoreLocked
from core.observability.logs import get_logger
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.schema import DOCUMENTS, Commit, NewObject, commit_key, lease_key

_log = get_logger(__name__)

POLL_INTERVAL_S = 0.2
# How much longer than a dead writer's lease another writer waits.
TIMEOUT_FACTOR = 1.5
# A write takes seconds; longer waits are logged.
WARN_AFTER_S = 10.0
# The server looks whether an object exists, and then creates it: two writers may do both at once. The last one has it.
CONFIRMATION_S = 0.05
# Claims that are read at once, on a cluster by a request each. Each write that failed has left one, until the next one
# succeeds.
PAGE_SIZE = 5


@asynccontextmanager
async def hold_lease(cluster: Cluster, source: str, duration_s: float) -> AsyncIterator[WriterLease]:
    """Hold the lease of a source inside the block; other writers wait until it is released or expires.

    A writer that was killed blocks its source for `duration_s`, whatever its clock said. A claim of a clock that is
    behind counts as ended too early: its writer notices at its next renewal.
    Raises `StoreLocked` when the lease of another writer does not end.
    """
    lease = WriterLease(cluster, source, uuid.uuid4().hex, duration_s)
    try:
        await lease.acquire()
        yield lease
    finally:
        await lease.release()


@dataclass(slots=True)
class WriterLease:
    """The lease of one writer on a source: the `generation` that it alone writes, after the commit `previous`.

    `seen_claim` is the claim of another writer that this one waits for, and since when it has looked like that.
    """

    cluster: Cluster
    source: str
    owner: str
    duration_s: float
    # By the monotonic clock: ours may be set.
    renew_at: float = 0.0
    generation: int = 0
    previous: Commit = field(default_factory=Commit)
    seen_claim: tuple[Mapping[str, Any] | None, float] = (None, 0.0)

    async def acquire(self) -> None:
        """Wait for the lease. Raises `StoreLocked`."""
        started_at = time.monotonic()
        has_warned = False
        while not await self._claim_next():
            waited_s = time.monotonic() - started_at
            if waited_s > self.duration_s * TIMEOUT_FACTOR:
                raise StoreLocked(
                    f"{self.cluster.store_name}: another process is writing source {self.source}; try later"
                )
            if waited_s > WARN_AFTER_S and not has_warned:
                reason = f"another process is writing it, or was killed less than {self.duration_s:g} s ago"
                _log.warning("store.waiting", source=self.source, reason=reason)
                has_warned = True
            await asyncio.sleep(POLL_INTERVAL_S)

    async def renew(self, *, force: bool = False) -> None:
        """Renew the lease when half of its time is over; with `force`, in any case.

        Raises `StoreLocked` when it expired and another writer has it now.
        """
        if force or time.monotonic() >= self.renew_at:
            if not await self._is_held():
                message = f"another process took over the writing of source {self.source}"
                raise StoreLocked(f"{self.cluster.store_name}: {message}")
            await self.cluster.put(DOCUMENTS, [self._make_claim(time.time() + self.duration_s)])

    async def release(self) -> None:
        """Release the lease, unless another writer has it now. Claims that a commit has overtaken are deleted."""
        if not self.generation:
            return
        try:
            committed_generation = (await self._load_commit()).generation
            if committed_generation >= self.generation:
                await self.cluster.remove(self._make_keys(self.previous.generation, committed_generation))
            elif await self._is_held():
                await self.cluster.put(DOCUMENTS, [self._make_claim(0.0)])
        except StoreError as error:
            # It runs out by itself. What happened inside the block is what counts.
            _log.warning("store.not_released", source=self.source, error=str(error))

    async def _claim_next(self) -> bool:
        """Claim the generation after the newest one, unless another writer holds that."""
        newest, claim = await self._find_newest_claim()
        if claim and int(claim["until"]) >= time.time() * 1000 and not self._stands_still(claim):
            return False
        self.previous = await self._load_commit()
        self.generation = newest + 1
        if not await self.cluster.create(self._make_claim(time.time() + self.duration_s)):
            return False
        await asyncio.sleep(CONFIRMATION_S)
        self.previous = await self._load_commit()
        if self.previous.generation >= self.generation:
            # It was claimed, committed and given up between our two looks.
            await self.cluster.remove(self._make_keys(self.generation, self.generation))
            return False
        return await self._is_held()

    def _stands_still(self, claim: Mapping[str, Any]) -> bool:
        """Return whether nobody has renewed a claim for its whole time: its clock, or ours, was set."""
        if claim != self.seen_claim[0]:
            self.seen_claim = claim, time.monotonic()
        return time.monotonic() - self.seen_claim[1] > self.duration_s

    async def _find_newest_claim(self) -> tuple[int, Mapping[str, Any] | None]:
        """Return the newest generation that was ever claimed or committed, and its claim where it is not committed."""
        newest = (await self._load_commit()).generation
        claim = None
        while True:
            keys = self._make_keys(newest + 1, newest + PAGE_SIZE)
            claims = await self.cluster.get(keys)
            for key in keys:
                if key not in claims:
                    return newest, claim
                newest += 1
                claim = claims[key]

    async def _is_held(self) -> bool:
        """Return whether this writer has the newest claim, and nobody has committed since it claimed."""
        own_key, next_key = self._make_keys(self.generation, self.generation + 1)
        objects = await self.cluster.get([own_key, next_key, commit_key(self.source)])
        commit = Commit.from_properties(objects.get(commit_key(self.source)))
        is_own = objects.get(own_key, {}).get("owner") == self.owner
        return is_own and next_key not in objects and commit.id == self.previous.id

    async def _load_commit(self) -> Commit:
        key = commit_key(self.source)
        return Commit.from_properties((await self.cluster.get([key])).get(key))

    def _make_keys(self, first: int, last: int) -> list[uuid.UUID]:
        return [lease_key(self.source, generation) for generation in range(first, last + 1)]

    def _make_claim(self, until: float) -> NewObject:
        self.renew_at = time.monotonic() + self.duration_s / 2
        properties = {"owner": self.owner, "until": int(until * 1000)}
        return NewObject(lease_key(self.source, self.generation), properties)
