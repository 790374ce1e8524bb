"""One writer per source at a time across all machines: a lease in the store that has to be renewed."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from core.errors import StoreLocked
from core.observability.logs import get_logger
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.schema import DOCUMENTS, NewObject, lease_key

_log = get_logger(__name__)

POLL_INTERVAL_S = 0.2
# How much longer than a dead writer's lease another writer waits.
TIMEOUT_FACTOR = 1.5
# A write takes seconds; longer waits are logged.
WARN_AFTER_S = 10.0


@asynccontextmanager
async def hold_lease(cluster: Cluster, source: str, duration_s: float) -> AsyncIterator[WriterLease]:
    """Hold the lease of a source inside the block; other writers wait until it is released or expires.

    A writer that was killed blocks its source for `duration_s`. The machines' clocks must agree to a fraction of that.
    Raises `StoreLocked` when the lease of another writer does not end.
    """
    lease = WriterLease(cluster, source, uuid.uuid4().hex, duration_s)
    await lease.acquire()
    try:
        yield lease
    finally:
        await lease.release()


@dataclass(slots=True)
class WriterLease:
    """The lease of one writer on a source."""

    cluster: Cluster
    source: str
    owner: str
    duration_s: float
    expires_at: float = 0.0

    async def acquire(self) -> None:
        """Wait for the lease. Raises `StoreLocked`."""
        started_at = time.monotonic()
        has_warned = False
        while not await self.cluster.create(self._make_object()):
            stored_lease = await self._load()
            if stored_lease is not None and int(stored_lease["until"]) < time.time() * 1000:
                await self.cluster.remove(lease_key(self.source))
                continue
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
        if force or self.expires_at - time.time() < self.duration_s / 2:
            if (await self._load() or {}).get("owner") != self.owner:
                message = f"another process took over the writing of source {self.source}"
                raise StoreLocked(f"{self.cluster.store_name}: {message}")
            await self.cluster.put(DOCUMENTS, [self._make_object()])

    async def release(self) -> None:
        """Release the lease, unless another writer has it now."""
        if (await self._load() or {}).get("owner") == self.owner:
            await self.cluster.remove(lease_key(self.source))

    async def _load(self) -> Mapping[str, Any] | None:
        return (await self.cluster.get([lease_key(self.source)])).get(lease_key(self.source))

    def _make_object(self) -> NewObject:
        self.expires_at = time.time() + self.duration_s
        return NewObject(lease_key(self.source), {"owner": self.owner, "until": int(self.expires_at * 1000)})
