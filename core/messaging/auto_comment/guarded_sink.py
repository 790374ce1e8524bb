"""The one error of the auto-comment mode: a comment that is better not posted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from core.errors import CommentSuppressed
from core.ports import Delivery, Sink
from core.types import Reply, Skip, SkipReason, skip

# Returns why the comment is better not posted, or None.
Precondition = Callable[[], Awaitable[Skip | None]]


class AwaitableDelivery(Delivery, Protocol):
    """A delivery that can also be waited for."""

    async def wait_for_posting(self) -> None:
        """Wait a little for a posting on its way."""
        ...


class BufferedSink:
    """Hands the finished reply on to another sink, and nothing before it.

    `unfit` says why a reply is better not posted, or returns None. `reply` is what was handed on, without the
    `heading` that is shown above it.
    """

    def __init__(self, sink: Sink, reject_reason: Callable[[Reply], Skip | None], heading: str = "") -> None:
        self._sink = sink
        self._reject_reason = reject_reason
        self._heading = heading
        self.reply: Reply | None = None

    async def open(self) -> None:
        """Show nothing: a sign of life would promise a comment that may never come."""

    async def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, reply: Reply) -> None:
        """Hand on the whole reply. Raises `CommentSuppressed` for one that is unfit."""
        if reason := self._reject_reason(reply):
            raise CommentSuppressed(reason)
        self.reply = reply
        await self._sink.finish(replace(reply, text=self._heading + reply.text))

    async def fail(self, text: str) -> None:
        """Raise `CommentSuppressed`: nobody asked, so nobody is told."""
        raise CommentSuppressed(skip(SkipReason.COMMENT_FAILED, error=text))


class GuardedDelivery:
    """Takes a last look right before the first part is posted, and again before every retry of it.

    `is_posted` and `in_doubt` say what is known of the comment: is it there, or may it be? `reply_id` is the
    platform's id of it.
    """

    def __init__(self, delivery: AwaitableDelivery, precondition: Precondition) -> None:
        self._delivery = delivery
        self._precondition = precondition
        self.is_posted = self.in_doubt = False
        self.reply_id = ""

    async def mark_posting(self) -> None:
        """Note it, then look: what is written down first costs no time in which others come first.

        Raises `CommentSuppressed` when the look says no; nothing is posted then.
        """
        await self._delivery.mark_posting()
        if reason := await self._precondition():
            # What an earlier try may have left there stays in doubt.
            if not self.in_doubt:
                await self._delivery.mark_rejected()
            raise CommentSuppressed(reason)
        self.in_doubt = True

    async def mark_rejected(self) -> None:
        """Note that nothing was posted."""
        self.in_doubt = False
        await self._delivery.mark_rejected()

    async def mark_posted(self, reply_id: str) -> None:
        """Note that the first part is there."""
        await self._delivery.mark_posted(reply_id)
        self.is_posted, self.in_doubt, self.reply_id = True, False, reply_id

    async def wait_for_posting(self) -> None:
        """Wait a little for a posting on its way."""
        await self._delivery.wait_for_posting()
