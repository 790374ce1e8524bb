"""Notices that the time of day was set."""

from __future__ import annotations

import time
from dataclasses import dataclass

from core.observability.logs import get_logger

_log = get_logger(__name__)

# Corrections by the network are smaller.
MIN_JUMP_S = 60.0
# What a jump has upset is over by then, or somebody else says it.
REMEMBERED_S = 3600.0


@dataclass(frozen=True, slots=True)
class ClockJump:
    """By how many seconds the time of day jumped, and when: `noticed_at` is of the monotonic clock."""

    seconds: float
    noticed_at: float


class ClockWatch:
    """Compares the time of day with the time that passes, whenever `look` is called.

    They part when the clock is set, and when the machine sleeps: the monotonic clock stands still then.
    """

    def __init__(self) -> None:
        self._offset_s = _measure_offset()
        self._last_jump: ClockJump | None = None

    async def look(self) -> None:
        """Log a jump since the last look, and remember it."""
        offset_s = _measure_offset()
        jump_s = offset_s - self._offset_s
        self._offset_s = offset_s
        if abs(jump_s) >= MIN_JUMP_S:
            self._last_jump = ClockJump(jump_s, time.monotonic())
            hint = "the clock was set, or the machine slept: what is due by the time of day follows it"
            _log.warning("clock.jumped", seconds=round(jump_s), hint=hint)

    @property
    def recent_jump(self) -> ClockJump | None:
        """The last jump, if it was noticed within the last hour."""
        jump = self._last_jump
        return jump if jump and time.monotonic() - jump.noticed_at < REMEMBERED_S else None


def _measure_offset() -> float:
    return time.time() - time.monotonic()
