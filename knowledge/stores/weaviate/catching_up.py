"""Whether the machine that searches has all that was written: one of a cluster that was away is not believed before.

A search asks one replica, whatever the consistency: the level decides where objects are compared that this one has
found, and says nothing of those that it lacks. So a commit tells how many passages the last 1, 2, 4, 8... generations
have, and the machine that is asked counts its own. (All together, passages that were deleted meanwhile and are still
there could stand for newer ones that are missing.)
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from core.errors import StoreError, StoreUnreachable
from core.observability.logs import get_logger
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.schema import Visibility

_log = get_logger(__name__)

# A machine that is back gets what it lacks within a minute or so. What has not come when nothing has changed for so
# long is lost: the next refresh reads it again, and searches go on without it.
CATCH_UP_S = 120.0


class StoreCatchingUp(StoreUnreachable):
    """The machine that is asked was away, and has not got yet what was written meanwhile."""


class ReplicaWatch:
    """Compares what one machine has of each source with what its commit promises, once for every commit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # By source: the id of the commit of which everything was there.
        self._whole_commits: dict[str, str] = {}
        # By source: how many passages were there, and since when it has been as many.
        self._counts: dict[str, tuple[Sequence[int], float]] = {}
        self._lost_sources: set[str] = set()

    async def require_whole(self, visibility: Visibility) -> None:
        """Raise `StoreCatchingUp` while passages are missing that are still to come."""
        for source, commit in visibility.items():
            if commit.passage_counts and self._whole_commits.get(source) != commit.id:
                try:
                    counts = await self._cluster.count_recent_passages(source, commit)
                except StoreError:
                    # While the machine is away, nothing can come.
                    self._counts.pop(source, None)
                    raise
                self._require_source(source, counts, commit.passage_counts)
                self._whole_commits[source] = commit.id

    def _require_source(self, source: str, counts: Sequence[int], promised_counts: Sequence[int]) -> None:
        if counts == promised_counts:
            self._counts.pop(source, None)
            self._lost_sources.discard(source)
            return
        now = time.monotonic()
        last_counts, since = self._counts.get(source, (counts, now))
        self._counts[source] = (counts, since if counts == last_counts else now)
        count, promised = next(pair for pair in zip(counts, promised_counts, strict=False) if pair[0] != pair[1])
        if now - self._counts[source][1] < CATCH_UP_S:
            raise StoreCatchingUp(
                f"{self._cluster.store_name} is catching up, its machine was away: "
                f"it has {count} of the {promised} newest passages of source {source}"
            )
        if source not in self._lost_sources:
            self._lost_sources.add(source)
            _log.warning("store.passages_missing", source=source, passages=promised - count)
