"""What the tests of all sinks share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from core.catalogue import ENGLISH
from core.errors import ClaimLost, StoreError, UsageError
from core.ports import Sink
from core.types import Question, Reply
from core.types.replies import Trace

# Only what hangs takes so long, however busy the machine is.
LONGEST_S = 30.0


class DeliveryLog:
    """Notes what it is told, in order; `down` makes it fail, and `is_lost` says that another daemon has the message."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_in_doubt = False
        self.parts: dict[int, str] = {}
        self.down = False
        self.is_lost = False
        self.are_rights_lost = False

    async def require_claim(self) -> None:
        if self.is_lost:
            raise ClaimLost("message 1 was taken over")

    async def require_rights(self) -> None:
        if self.are_rights_lost:
            raise UsageError("a source was closed")

    async def mark_posting(self) -> None:
        if self.down:
            raise StoreError("the journal is locked")
        await self.require_rights()
        self.events.append("posting")

    async def mark_part(self, number: int, part_id: str) -> None:
        if not part_id:
            await self.require_rights()
        self.parts[number] = part_id

    async def mark_rejected(self) -> None:
        self.events.append("refused")

    async def mark_posted(self, reply_id: str) -> None:
        self.events.append(reply_id)


async def update_until_stopped(sink: Sink, text: str = "some words") -> None:
    """Go on writing until the sink raises what made it impossible to show what was written before."""
    async with asyncio.timeout(LONGEST_S):
        while True:
            await sink.update(text)
            await asyncio.sleep(0.005)


async def update_until(sink: Sink, enough: Callable[[], object]) -> int:
    """Write states much faster than any is shown, ten at once, until it is enough; return how many were written.

    Those that end in 0 are the latest wherever another one could be shown.
    """
    write_count = 0
    async with asyncio.timeout(LONGEST_S):
        while not enough():
            for _ in range(10):
                write_count += 1
                await sink.update(f"word {write_count}")
            await asyncio.sleep(0.005)
    return write_count


STOPPED = Trace("How?", "single", ("docs",), {}, degraded=("write",), degrade_reasons={"write": "stopped"})


async def write_until_stopped(question: Question, sink: Sink) -> Reply:
    """Write half a sentence, and wait to be stopped, as the pipeline does."""
    await sink.open()
    await sink.update("Half an answer")
    if question.stop and "stop" in question.text:
        await question.stop.wait()
        reply = Reply(f"Half an answer …\n\n{ENGLISH.answer_stopped}", trace=STOPPED)
    else:
        reply = Reply("The whole answer", trace=replace(STOPPED, degraded=(), degrade_reasons={}))
    await sink.finish(reply)
    return reply
