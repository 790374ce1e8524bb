"""How fast things go: the intervals of sending and retrying."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """All intervals in seconds.

    `partial_s` is the pause between two states of a reply being written, `patience_s` bounds how long a final reply is
    retried, `parting_s` how long a callback on its way holds up a stop.
    """

    partial_s: float = 1.0
    retry_s: float = 0.5
    longest_retry_s: float = 30.0
    patience_s: float = 120.0
    parting_s: float = 4.0

    def backoff(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row: doubling, with jitter, bounded."""
        longest = min(self.longest_retry_s, self.retry_s * 2.0 ** min(failures - 1, 16))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
