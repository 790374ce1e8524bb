"""Reads what is new in a list that a server shows with the newest first, so that a restart loses nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from bots.bluesky.client import PAGE_SIZE, Json, Page
from bots.common.caches import BoundedDict
from bots.common.json_client import TooLarge
from bots.common.positions import PositionStore

# A post may appear below those that were there before it: its place is the time that its author's client says.
REWIND_MS = 600_000
MAX_KNOWN_ITEMS = 20_000
# Of a feed no more is read at once: older posts get no comment.
MAX_FEED_PAGES = 4
# So often all of the last minutes is read: once a minute.
POLLS_OF_FIRST_PAGE = 30

FetchPage = Callable[[str, int], Awaitable[Page]]
Deliver = Callable[[Json], Awaitable[None]]


class NewItems:
    """One list. The position that is kept is the time of the newest item, in milliseconds since 1970.

    Each time all of the last minutes is read anew; what was delivered in this run is known, what was delivered before
    it the journal knows. Not so for a feed (`is_feed`): its last posts may be in the journal as those of another one.
    """

    def __init__(self, name: str, positions: PositionStore, fetch_page: FetchPage, *, is_feed: bool = False) -> None:
        self._name = name
        self._positions = positions
        self._fetch_page = fetch_page
        self._is_feed = is_feed
        self._position: int | None = None
        self._not_before = 0
        self._polls = -1
        self._known = BoundedDict[str, None](MAX_KNOWN_ITEMS)

    async def deliver(self, deliver: Deliver) -> None:
        """Deliver what is new, the oldest first; the first time, nothing that is there.

        Raises `PlatformError`, and what `deliver` does: it then begins with the same item the next time.
        """
        if self._position is None:
            self._position = await self._positions.load(self._name)
            self._not_before = (self._position or 0) + 1 if self._is_feed else 0
        if self._position is None:
            newest = max(map(_get_time, (await self._fetch("")).items), default=0)
            # Nothing as old as the newest one is ever delivered.
            self._not_before = newest + 1
            await self._move(newest if self._is_feed else newest + 1 + REWIND_MS)
            return
        start = max(self._position - REWIND_MS, self._not_before)
        items = [item for item in await self._list_since(start) if _get_time(item) >= start]
        for item in sorted(items, key=_get_time):
            if (key := _get_key(item)) not in self._known:
                await deliver(item)
                self._known[key] = None
        await self._move(max([self._position, *map(_get_time, items)]))

    async def _list_since(self, start: int) -> list[Json]:
        """Return the items of all pages up to the one that reaches a time."""
        self._polls += 1
        items: list[Json] = []
        cursor = ""
        page_count = 0
        while not self._is_feed or page_count < MAX_FEED_PAGES:
            page = await self._fetch(cursor)
            items += page.items
            cursor = page.cursor
            page_count += 1
            if not page.items or not cursor or any(0 < _get_time(item) < start for item in page.items):
                break
            # What appears further down is looked for now and then: reading all of it costs calls.
            if self._polls % POLLS_OF_FIRST_PAGE and all(_get_key(item) in self._known for item in page.items):
                break
        return items

    async def _fetch(self, cursor: str) -> Page:
        """Return a page; where people wrote very long posts, a shorter one. Raises `TooLarge` for a single item."""
        page_size = PAGE_SIZE
        while True:
            try:
                return await self._fetch_page(cursor, page_size)
            except TooLarge:
                if page_size == 1:
                    raise
                page_size //= 2

    async def _move(self, position: int) -> None:
        if position != self._position:
            await self._positions.save(self._name, position)
            self._position = position


def _get_time(item: Json) -> int:
    """Return when an item of a list appeared, in milliseconds since 1970; 0 where it does not say."""
    holder: Any = item.get("reason") if isinstance(item.get("reason"), dict) else item.get("post") or item
    try:
        return int(datetime.fromisoformat(str(holder["indexedAt"])).timestamp() * 1000)
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0


def _get_key(item: Json) -> str:
    """Return what an item is about: notifications of one post are one."""
    post = item.get("post") if isinstance(item.get("post"), dict) else item
    return f"{(post or {}).get('uri')} {bool(item.get('post') and item.get('reason'))}"
