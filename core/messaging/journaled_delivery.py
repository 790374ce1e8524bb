"""What the journal is told around the posting of a reply."""

from __future__ import annotations

import asyncio

from core.observability.logs import logger
from core.storage.messages import Journal
from core.types import Message

# A stop must not take long; what is posted by then or not at all is known for all but a broken connection.
LAST_POSTING_S = 5.0


class Noted:
    """Implements `core.ports.Delivery`: tells the journal around the posting of one reply's first part.

    `seen` says whether anything of the reply is there to be seen, as far as is known.
    """

    def __init__(self, journal: Journal, message: Message) -> None:
        self._journal = journal
        self._message = message
        self._clear = asyncio.Event()
        self._clear.set()
        self.seen = False

    async def posting(self) -> None:
        """Note that the first part is about to be posted."""
        self._clear.clear()
        self.seen = True
        await self._journal.posting(self._message)

    async def refused(self) -> None:
        """Note that nothing was posted."""
        self.seen = False
        await self._journal.refused(self._message)
        self._clear.set()

    async def posted(self, reply_id: str) -> None:
        """Note that it was, under this id."""
        await self._journal.posted(self._message, reply_id)
        self._clear.set()

    async def settle(self) -> None:
        """Wait a little for a posting on its way, so that its outcome is known before the answer is given up."""
        try:
            async with asyncio.timeout(LAST_POSTING_S):
                await self._clear.wait()
        except TimeoutError:
            logger(__name__).warning("reply.in_doubt", waited_s=LAST_POSTING_S)
