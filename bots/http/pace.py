"""How fast things go: the intervals of sending and retrying."""

from __future__ import annotations

from dataclasses import dataclass

from bots.posting.pace import BasicPace


@dataclass(frozen=True, slots=True)
class Pace(BasicPace):
    """All intervals in seconds. `partial_s` is the pause between two states of a reply that is being written."""

    partial_s: float = 1.0
    retry_s: float = 0.5
    longest_retry_s: float = 30.0
