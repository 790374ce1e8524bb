"""How far the reading or the filling of a source is, and how long the rest takes at the pace so far."""

from __future__ import annotations

import time
from collections.abc import Callable

from knowledge.ingestion.sync import SyncProgress

# Before so many seconds a pace says nothing.
MIN_S = 3.0


class Pace:
    """The pace of one source. Call `note` with its progress; a stage that begins has a pace of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._progress: SyncProgress | None = None
        self._started_at = 0.0
        self._done_at_start = 0

    def note(self, progress: SyncProgress) -> None:
        """Take note of how far it is."""
        done, _ = _get_amount(progress)
        former = self._progress
        if former is None or former.stage != progress.stage or _get_amount(former)[0] > done:
            self._started_at = self._clock()
            self._done_at_start = done
        self._progress = progress

    @property
    def documents(self) -> tuple[int, int]:
        """How many documents are read, and how many are to be; zeros while none are."""
        progress = self._progress
        is_reading = progress is not None and progress.stage != "embedding"
        return (progress.documents_done, progress.documents_total) if progress and is_reading else (0, 0)

    @property
    def seconds_left(self) -> float | None:
        """How long the stage still takes; None while nobody can say."""
        if self._progress is None:
            return None
        done, total = _get_amount(self._progress)
        done_since = done - self._done_at_start
        elapsed_s = self._clock() - self._started_at
        return elapsed_s / done_since * (total - done) if done_since and elapsed_s >= MIN_S else None


def _get_amount(progress: SyncProgress) -> tuple[int, int]:
    """Return what is done, and what is to be done in all."""
    if progress.stage == "embedding":
        return progress.filled, progress.passages
    return progress.documents_done, progress.documents_total
