"""Answers that nobody asked the bot for: they are not worth showing when they say that nothing was found."""

from __future__ import annotations

from core.errors import AnswerWithheld, CommentSuppressed, KimasError, MessageDeleted
from core.messaging.journaling import RecordedSink
from core.storage.details import get_detail
from core.types import Reply, Skip, SkipReason, skip

FIRST_CITATION = "[1]"


class NothingToSay(KimasError):
    """The answer would only say that nothing was found, and nobody had asked for it."""


def to_skip(error: MessageDeleted | NothingToSay | CommentSuppressed | AnswerWithheld) -> Skip:
    """Return why a question is left without its answer."""
    if isinstance(error, CommentSuppressed | AnswerWithheld):
        return error.skip
    return skip(SkipReason.DELETED if isinstance(error, MessageDeleted) else SkipReason.NOTHING_FOUND)


class UnpromptedSink:
    """Passes a reply to another sink, unless it found nothing.

    Nothing is shown, not even that an answer is coming, before the text has its first citation.
    """

    def __init__(self, sink: RecordedSink) -> None:
        self._sink = sink
        self._is_open = False

    async def open(self) -> None:
        """Show nothing: nobody waits, and the answer may never come."""

    async def update(self, text: str) -> None:
        """Show the reply so far, as soon as it cites anything."""
        if self._is_open or FIRST_CITATION in text:
            await self._open()
            await self._sink.update(text)

    async def finish(self, reply: Reply) -> None:
        """Show the final reply, unless it only says why there is no answer.

        Raises `NothingToSay` for one that found nothing.
        """
        if not self._is_open and reply.failure:
            return
        if not self._is_open and get_detail(reply) == "nothing_found":
            raise NothingToSay
        await self._open()
        await self._sink.finish(reply)

    async def fail(self, text: str) -> None:
        """Show that the answer failed."""
        await self._sink.fail(text)

    async def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            await self._sink.open()
