"""Where an adapter has read to, kept across restarts."""

from __future__ import annotations

from typing import Protocol


class PositionStore(Protocol):
    """Reading positions by name."""

    async def load(self, name: str) -> int | None:
        """Return a position, or None when it was never saved."""
        ...

    async def save(self, name: str, position: int) -> None:
        """Save a position durably."""
        ...
