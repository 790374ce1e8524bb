"""What the tests of all sinks share."""

from __future__ import annotations

from core.errors import StoreError


class Delivered:
    """Notes what it is told, in order; `down` makes it fail."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.down = False

    async def posting(self) -> None:
        if self.down:
            raise StoreError("the journal is locked")
        self.told.append("posting")

    async def refused(self) -> None:
        self.told.append("refused")

    async def posted(self, reply_id: str) -> None:
        self.told.append(reply_id)
