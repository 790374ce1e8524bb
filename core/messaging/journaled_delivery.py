"""What the journal is told around the posting of a reply."""

from __future__ import annotations

import asyncio

from core.observability.logs import get_logger
from core.storage.messages import Journal
from core.types import Message

# A stop must not take long; what is posted by then or not at all is known for all but a broken connection.
POSTING_GRACE_S = 5.0


class JournaledDelivery:
    """Implements `core.ports.Delivery`: tells the journal around the posting of one reply's first part.

    `seen` says whether anything of the reply is there to be seen, as far as is known.
    """

    def __init__(self, journal: Journal, message: Message) -> None:
        self._journal = journal
        self._message = message
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_visible = False

    async def mark_posting(self) -> None:
        """Note that the first part is about to be posted."""
        self._idle.clear()
        self.is_visible = True
        await self._journal.mark_posting(self._message)

    async def mark_rejected(self) -> None:
        """Note that nothing was posted."""
        self.is_visible = False
        await self._journal.mark_rejected(self._message)
        self._idle.set()

    async def mark_posted(self, reply_id: str) -> None:
        """Note that it was, under this id."""
        await self._journal.mark_posted(self._message, reply_id)
        self._idle.set()

    async def wait_for_posting(self) -> None:
        """Wait a little for a posting on its way, so that its outcome is known before the answer is given up."""
        try:
            async with asyncio.timeout(POSTING_GRACE_S):
                await self._idle.wait()
        except TimeoutError:
            get_logger(__name__).warning("reply.in_doubt", waited_s=POSTING_GRACE_S)
