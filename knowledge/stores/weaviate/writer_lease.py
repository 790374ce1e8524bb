"""One writer per source at a time, over all machines: a claim in the store that has to be kept up."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from core.errors import StoreLocked
from core.observability.logs import logger
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.rows import Entry, claim_key
from knowledge.stores.weaviate.schema import DOCUMENTS

PAUSE = 0.2
# How much longer than a dead writer's claim lasts another one waits.
PATIENCE = 1.5
# A write takes seconds; waiting any longer is told.
TOLD_AFTER_S = 10.0


@asynccontextmanager
async def claimed(cluster: Cluster, source: str, seconds: float) -> AsyncIterator[Claim]:
    """Hold the claim on a source inside the block; who else wants it waits until it is let go or has run out.

    A writer that was killed blocks its source for `seconds`. The machines' clocks must agree to a fraction of that.
    Raises `StoreLocked` when the claim of somebody else does not end.
    """
    claim = Claim(cluster, source, uuid.uuid4().hex, seconds)
    await claim.take()
    try:
        yield claim
    finally:
        await claim.drop()


@dataclass(slots=True)
class Claim:
    """A claim on a source by one writer."""

    cluster: Cluster
    source: str
    owner: str
    seconds: float
    until: float = 0.0

    async def take(self) -> None:
        """Wait for the claim. Raises `StoreLocked`."""
        began, told = time.monotonic(), False
        while not await self.cluster.create(self._entry()):
            held = (await self.cluster.get([claim_key(self.source)])).get(claim_key(self.source))
            if held is not None and int(held["until"]) < time.time() * 1000:
                await self.cluster.remove(claim_key(self.source))
                continue
            waited = time.monotonic() - began
            if waited > self.seconds * PATIENCE:
                raise StoreLocked(f"{self.cluster.where}: another process is writing source {self.source}; try later")
            if waited > TOLD_AFTER_S and not told:
                reason = f"another process is writing it, or was killed less than {self.seconds:g} s ago"
                logger(__name__).warning("store.waiting", source=self.source, reason=reason)
                told = True
            await asyncio.sleep(PAUSE)

    async def keep(self, *, surely: bool = False) -> None:
        """Hold the claim for longer, when half of its time is over; `surely` in any case.

        Raises `StoreLocked` when it ran out and somebody else has it now.
        """
        if surely or self.until - time.time() < self.seconds / 2:
            await self._still()
            await self.cluster.put(DOCUMENTS, [self._entry()])

    async def drop(self) -> None:
        """Let go, unless somebody else has it now."""
        held = (await self.cluster.get([claim_key(self.source)])).get(claim_key(self.source))
        if held is not None and held["owner"] == self.owner:
            await self.cluster.remove(claim_key(self.source))

    async def _still(self) -> None:
        held = (await self.cluster.get([claim_key(self.source)])).get(claim_key(self.source))
        if held is None or held["owner"] != self.owner:
            raise StoreLocked(f"{self.cluster.where}: another process took over the writing of source {self.source}")

    def _entry(self) -> Entry:
        self.until = time.time() + self.seconds
        return Entry(claim_key(self.source), {"owner": self.owner, "until": int(self.until * 1000)})
