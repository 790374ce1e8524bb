"""The journal around a reply: records each step of posting it, and finds what the last run did not finish."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from core.observability.logs import get_logger, log_context
from core.ports import Adapter, Sink
from core.storage.messages import Journal
from core.types import Message, Reply

# A stop must not take long. Unless the connection is broken, the outcome is known by then.
POSTING_GRACE_S = 5.0


class JournaledDelivery:
    """Implements `core.ports.Delivery`: records in the journal how the posting of a reply's first part goes.

    `is_visible` says whether people can see anything of the reply, as far as is known. `is_in_doubt` is whether the
    last run ended while it posted the reply; `final_reply` is the reply that is to be delivered, once it is known.
    """

    def __init__(self, journal: Journal, message: Message, previous_reply_id: str = "") -> None:
        self.previous_reply_id = previous_reply_id
        self._journal = journal
        self._message = message
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_visible = self.is_in_doubt = False
        self.final_reply: Reply | None = None
        self.parts: dict[int, str] = {}

    @property
    def is_resumed(self) -> bool:
        """Whether the answer began before a restart."""
        return bool(self.previous_reply_id) or self.is_in_doubt or self.final_reply is not None

    @classmethod
    async def open(cls, journal: Journal, message: Message, previous_reply_id: str) -> JournaledDelivery:
        """Return the delivery of a message's reply, with what the journal knows of it."""
        delivery = cls(journal, message, previous_reply_id)
        delivery.is_in_doubt, delivery.final_reply, delivery.parts = await journal.get_delivery(message)
        delivery.is_visible = delivery.is_in_doubt
        return delivery

    async def mark_final(self, reply: Reply) -> None:
        """Record the final reply before it is posted: the next start delivers what is left of it."""
        if self.final_reply is None:
            self.final_reply = reply
            await self._journal.mark_delivery(self._message, reply, self.parts)

    async def mark_part(self, number: int, part_id: str) -> None:
        """Record that a further part is posted under an id; "": that it is about to be posted."""
        self.parts[number] = part_id
        if self.final_reply is not None:
            await self._journal.mark_delivery(self._message, self.final_reply, self.parts)

    async def mark_posting(self) -> None:
        """Record that the first part is about to be posted."""
        self._idle.clear()
        self.is_visible = True
        await self._journal.mark_posting(self._message)

    async def mark_rejected(self) -> None:
        """Record that nothing was posted."""
        self.is_visible = self.is_in_doubt = False
        await self._journal.mark_rejected(self._message)
        self._idle.set()

    async def mark_posted(self, reply_id: str) -> None:
        """Record that the first part was posted, under this id."""
        await self._journal.mark_posted(self._message, reply_id)
        self.is_in_doubt = False
        self._idle.set()

    async def wait_for_posting(self) -> None:
        """Wait up to `POSTING_GRACE_S` seconds for a posting that has begun, so that its outcome is known."""
        try:
            async with asyncio.timeout(POSTING_GRACE_S):
                await self._idle.wait()
        except TimeoutError:
            get_logger(__name__).warning("reply.in_doubt", waited_s=POSTING_GRACE_S)


class RecordedSink:
    """Passes a reply to another sink, and records its final form first."""

    def __init__(self, sink: Sink, delivery: JournaledDelivery) -> None:
        self._sink = sink
        self._delivery = delivery

    async def open(self) -> None:
        """Show that an answer is coming."""
        await self._sink.open()

    async def update(self, text: str) -> None:
        """Show the reply so far."""
        await self._sink.update(text)

    async def finish(self, reply: Reply) -> None:
        """Record the final reply, and show it."""
        await self._delivery.mark_final(reply)
        await self._sink.finish(reply)

    async def fail(self, text: str) -> None:
        """Show that the answer failed."""
        await self._sink.fail(text)


BOT_REMOVED_REASON = "the bot that received it is no longer configured"


def bot_log_context(adapter: Adapter) -> AbstractContextManager[None]:
    """Add the bot's name, if it has one, to every event that is logged inside the `with` block."""
    name = adapter.label.partition(":")[2]
    return log_context(bot_name=name) if name else nullcontext()


async def recover_pending(journal: Journal, adapters: Sequence[Adapter]) -> list[tuple[Adapter, Message, str]]:
    """Return the unfinished messages of one platform, oldest first, each with its adapter and its reply's id or "".

    `adapters` are all adapters of one platform. Messages of a bot that was removed go to the first of them.
    """
    platform = adapters[0].name
    uncertain_count = await journal.restart_begun(platform)
    if not adapters[0].can_settle_doubt:
        await journal.fail_uncertain(platform)
    pending_messages = await journal.get_pending(platform)
    if uncertain_count or pending_messages:
        get_logger(__name__).info(
            "intake.resumed", platform=platform, pending=len(pending_messages), doubtful=uncertain_count
        )
    adapters_by_bot_id = {adapter.bot_id: adapter for adapter in adapters}
    first_adapter = adapters[0]
    assignments: list[tuple[Adapter, Message, str]] = []
    for message, previous_reply_id in pending_messages:
        owner = adapters_by_bot_id.get(message.bot)
        if owner is None and not first_adapter.can_take_over:
            await journal.mark_failed(message, BOT_REMOVED_REASON)
        else:
            assignments.append((owner or first_adapter, message, previous_reply_id))
    return assignments
