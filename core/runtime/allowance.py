"""How often people may do something: so many times at once, and then so many times a minute."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

# People who are remembered: who was quiet for longest is forgotten.
MAX_PEOPLE = 10_000


class Allowance:
    """What is left to each person. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By person: how often each may still, and when that was so.
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many people are remembered."""
        return len(self._left)

    def take(self, person: Hashable, at_once: float, per_minute: float) -> float:
        """Return how often a person could before this time; below 1 they may not now, and nothing is taken.

        >>> allowance = Allowance(lambda: 0.0)
        >>> [allowance.take("ann", 2, 6) >= 1 for _ in range(3)]
        [True, True, False]
        """
        now = self._clock()
        left, counted_at = self._left.pop(person, (at_once, now))
        left = min(at_once, left + (now - counted_at) / 60 * per_minute)
        self._left[person] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MAX_PEOPLE:
            self._left.popitem(last=False)
        return left
