"""How many pictures are looked at: of one message, of one person in an hour, and at the same time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from core.settings.limits import LimitsSettings
from core.types import Question

WINDOW_S = 3600.0
MAX_IMAGES_PER_MESSAGE = 3
# Each holds up to that many pictures of 4 MB three times: as bytes, as text, and in its request.
MAX_MESSAGES_AT_ONCE = 4
MAX_REMEMBERED_PEOPLE = 10_000


@dataclass(frozen=True, slots=True)
class ImageAllowance:
    """How many pictures of a message may be looked at; `wait_s` is how long until the next one where there is none."""

    count: int
    wait_s: float = 0.0


class ImageQuota:
    """Counts the pictures of each person. `turns` lets few messages at a time hold pictures in memory."""

    def __init__(self, get_limits: Callable[[], LimitsSettings] = LimitsSettings) -> None:
        self._get_limits = get_limits
        self._times: dict[tuple[str, str], deque[float]] = {}
        self.turns = asyncio.Semaphore(MAX_MESSAGES_AT_ONCE)

    def take(self, question: Question) -> ImageAllowance:
        """Return how many pictures of a question may be looked at, and count them; the terminal's are not counted."""
        limits = self._get_limits()
        now = time.monotonic()
        count = min(len(question.image_loaders), MAX_IMAGES_PER_MESSAGE)
        if question.key is None:
            return ImageAllowance(count)
        self._forget(now)
        times = self._times.setdefault((question.key.platform, question.author_id), deque())
        count = max(0, min(count, limits.images_per_hour - len(times)))
        times.extend([now] * count)
        return ImageAllowance(count, 0.0 if count else times[0] + WINDOW_S - now)

    def _forget(self, now: float) -> None:
        """Drop entries older than the window, and the people silent for longest where too many are recorded."""
        for person, times in list(self._times.items()):
            while times and times[0] <= now - WINDOW_S:
                times.popleft()
            if not times:
                del self._times[person]
        while len(self._times) >= MAX_REMEMBERED_PEOPLE:
            del self._times[next(iter(self._times))]
