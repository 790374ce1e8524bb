"""Whether messages of a platform can arrive, for those who watch the daemon."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Line:
    """The connection to one platform. `outages` counts how often it was lost, or could not be made."""

    def __init__(self) -> None:
        self.connected = False
        self.outages = 0
        self._lost = False

    def up(self) -> None:
        """Note that messages can arrive; again and again is once."""
        self.connected, self._lost = True, False

    def interrupted(self) -> None:
        """Note that the connection is being made anew: an outage only where that fails."""
        self.connected = False

    def down(self) -> None:
        """Note that they cannot; again and again is one outage."""
        self.outages += not self._lost
        self.connected, self._lost = False, True


@runtime_checkable
class Watched(Protocol):
    """An adapter that says whether its messages can arrive."""

    line: Line
