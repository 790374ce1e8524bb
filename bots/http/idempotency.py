"""What is remembered of events for a while: which were taken, and which messages were deleted. Both are bounded."""

from __future__ import annotations

from collections import OrderedDict

MOST_DELETIONS = 10_000

Number = tuple[str, str]


class Deletions:
    """The messages that were deleted, the last so many of them, by chat and id."""

    def __init__(self, most: int = MOST_DELETIONS) -> None:
        self._most = most
        self._gone: OrderedDict[Number, None] = OrderedDict()

    def __contains__(self, number: object) -> bool:
        return number in self._gone

    def add(self, number: Number) -> None:
        """Note a deletion, and forget the oldest one when there are too many."""
        self._gone[number] = None
        if len(self._gone) > self._most:
            self._gone.popitem(last=False)


class Taken:
    """The events of a window of time. An older one is refused for its timestamp, so that it need not be remembered."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._until: OrderedDict[Number, float] = OrderedDict()

    def add(self, number: Number, now: float) -> bool:
        """Note an event; False when it is here already."""
        while self._until and next(iter(self._until.values())) < now:
            self._until.popitem(last=False)
        if number in self._until:
            return False
        self._until[number] = now + self._window_s
        return True

    def discard(self, number: Number) -> None:
        """Forget an event that could not be taken: it may come again."""
        self._until.pop(number, None)
