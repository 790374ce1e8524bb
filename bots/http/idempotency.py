"""What is remembered of events for a while: which were taken, and which messages were deleted. Both are bounded."""

from __future__ import annotations

from collections import OrderedDict

MAX_DELETIONS = 10_000

EventKey = tuple[str, str]


class Deletions:
    """The messages that were deleted, the last so many of them, by chat and id."""

    def __init__(self, limit: int = MAX_DELETIONS) -> None:
        self._limit = limit
        self._keys: OrderedDict[EventKey, None] = OrderedDict()

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def add(self, key: EventKey) -> None:
        """Note a deletion, and forget the oldest one when there are too many."""
        self._keys[key] = None
        if len(self._keys) > self._limit:
            self._keys.popitem(last=False)


class IdempotencyKeys:
    """The events of a window of time. An older one is refused for its timestamp, so that it need not be remembered."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._expiry_times: OrderedDict[EventKey, float] = OrderedDict()

    def add(self, key: EventKey, now: float) -> bool:
        """Note an event; False when it is here already."""
        while self._expiry_times and next(iter(self._expiry_times.values())) < now:
            self._expiry_times.popitem(last=False)
        if key in self._expiry_times:
            return False
        self._expiry_times[key] = now + self._window_s
        return True

    def discard(self, key: EventKey) -> None:
        """Forget an event that could not be taken: it may come again."""
        self._expiry_times.pop(key, None)
