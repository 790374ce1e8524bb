"""How far feeds were followed: which entries are known, kept beside the journal so that a restart makes none new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from core.runtime.tasks import unbroken
from core.storage.engine import Database
from core.storage.tables import feeds

# Of the entries that have left a feed; those that are in it are all known.
KEPT = 2000


@dataclass(frozen=True, slots=True)
class Followed:
    """One feed as it was at the last look that succeeded.

    `looked_at` is in seconds since 1970, `known` holds the ids of the entries, and `etag` and `modified` are what the
    server called that state.
    """

    looked_at: float
    known: tuple[str, ...] = ()
    etag: str = ""
    modified: str = ""


class FollowedFeeds:
    """The record of all feeds. Every method raises `StoreError` when the database refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, feed: str) -> Followed | None:
        """Return how far a feed was followed, or None when nobody looked at it before."""
        async with self._database.reading() as connection:
            row = (await connection.execute(select(feeds).where(feeds.c.feed == feed))).first()
        return None if row is None else Followed(row.looked_at, tuple(row.known), row.etag, row.modified)

    @unbroken
    async def save(self, feed: str, now: Followed) -> None:
        """Keep how far a feed was followed."""
        values = {"looked_at": now.looked_at, "known": list(now.known), "etag": now.etag, "modified": now.modified}
        async with self._database.writing() as connection:
            await connection.execute(delete(feeds).where(feeds.c.feed == feed))
            await connection.execute(insert(feeds).values(feed=feed, **values))


def known_from(present: Sequence[str], before: Sequence[str]) -> tuple[str, ...]:
    """Return all that is known: the entries that are there, then a bounded number of those that have left."""
    there = set(present)
    return (*dict.fromkeys(present), *[one for one in before if one not in there][:KEPT])
