"""How far feeds were followed: which entries are known, kept beside the journal so that a restart makes none new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from core.runtime.tasks import uncancellable
from core.storage.engine import Database
from core.storage.tables import feeds

# Of the entries that have left a feed; those that are in it are all known.
MAX_REMEMBERED_IDS = 2000


@dataclass(frozen=True, slots=True)
class FeedState:
    """One feed as it was at the last look that succeeded.

    `looked_at` is in seconds since 1970, `known` holds the ids of the entries, and `etag` and `modified` are what the
    server called that state.
    """

    looked_at: float
    known_ids: tuple[str, ...] = ()
    etag: str = ""
    modified: str = ""


class FeedStateRepository:
    """The record of all feeds. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, feed: str) -> FeedState | None:
        """Return how far a feed was followed, or None when nobody looked at it before."""
        async with self._database.connect() as connection:
            row = (await connection.execute(select(feeds).where(feeds.c.feed == feed))).first()
        return None if row is None else FeedState(row.looked_at, tuple(row.known), row.etag, row.modified)

    @uncancellable
    async def save(self, feed: str, state: FeedState) -> None:
        """Keep how far a feed was followed."""
        values = {
            "looked_at": state.looked_at,
            "known": list(state.known_ids),
            "etag": state.etag,
            "modified": state.modified,
        }
        async with self._database.transaction() as connection:
            await connection.execute(delete(feeds).where(feeds.c.feed == feed))
            await connection.execute(insert(feeds).values(feed=feed, **values))


def merge_known_ids(current_ids: Sequence[str], previous_ids: Sequence[str]) -> tuple[str, ...]:
    """Return all that is known: the entries that are there, then a bounded number of those that have left."""
    current_set = set(current_ids)
    return (
        *dict.fromkeys(current_ids),
        *[entry_id for entry_id in previous_ids if entry_id not in current_set][:MAX_REMEMBERED_IDS],
    )
