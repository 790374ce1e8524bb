"""The group as a platform: lines of a file descriptor become messages, replies are printed."""

from __future__ import annotations

import asyncio
import os
import select
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from bots.common.terminal import printable
from bots.console.convert import (
    ABOUT_ANSWERS,
    PLATFORM,
    Deleted,
    Ignored,
    Last,
    Line,
    read,
    to_change,
    to_message,
    to_press,
)
from bots.console.sink import NoteSink, ReplySink
from core.messaging.feedback.escalation import first_id
from core.messaging.feedback.rating_buttons import is_press
from core.types import ConversationKey, Message

if TYPE_CHECKING:
    from rich.console import Console

    from core.ports import Delivery, Receive, Sink

LOOKS_EVERY_S, READS = 0.05, 65536

DELETED, DELETED_LATE = "deleted", "deleted; what came of it before stays"
# Settles what was deleted, by its id; False when it was settled before.
SettleDeleted = Callable[[str], Awaitable[bool]]


async def _settled_before(_number: str) -> bool:
    return False


class Group:
    """Implements `core.ports.Adapter`. `skipped` counts lines that became no message, by reason."""

    name = PLATFORM

    def __init__(self, descriptor: int, out: Console, settle_deleted: SettleDeleted = _settled_before) -> None:
        self._descriptor = descriptor
        self._out = out
        self._settle_deleted = settle_deleted
        # A journal that is kept knows the ids of earlier runs.
        self._run = uuid.uuid4().hex[:8]
        self._count = 0
        self._last: dict[ConversationKey, Last] = {}
        self._rated: dict[ConversationKey, str] = {}
        self._newest: dict[tuple[ConversationKey, str], str] = {}
        self._deleted: set[str] = set()
        self.skipped: Counter[str] = Counter()

    async def open(self) -> None:
        """Do nothing: the terminal is there."""

    async def listen(self, receive: Receive) -> None:
        """Deliver every line that is typed, to the end of input."""
        async for line in _lines(self._descriptor):
            if not line.strip():
                continue
            heard = self.hear(line.strip())
            if isinstance(heard, Message):
                await receive(heard)
            elif isinstance(heard, Deleted):
                self.delete(heard.id)
                self._note(DELETED if await self._settle_deleted(heard.id) else DELETED_LATE)
            else:
                self.skipped[heard.reason] += 1
                self._note(f"ignored: {printable(heard.reason)}")

    def hear(self, line: str) -> Message | Deleted | Ignored:
        """Return what a line is in the group."""
        said = read(line)
        if said.word in ABOUT_ANSWERS:
            answer = self._at(said).id if said.replies else self._rated.get(said.key, "")
            return to_press(said, self.next_id(), answer)
        if said.word:
            return self._changed(said)
        number = self.next_id()
        heard = to_message(said, number, self._at(said))
        self._last[said.key] = Last(number, heard.text if isinstance(heard, Message) else said.text)
        if isinstance(heard, Message):
            self._newest[said.key, said.author_id] = number
        return heard

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return a sink that prints the reply once it is complete, below what is typed meanwhile."""
        return NoteSink(self._out, message) if is_press(message) else ReplySink(self, self._out, message, delivery)

    def said(self, key: ConversationKey, number: str, text: str, *, rated: bool) -> None:
        """Note what the bot has said, and whether people may say what it is worth."""
        self._last[key] = Last(number, text, ours=True)
        if rated:
            self._rated[key] = number

    def delete(self, number: str) -> None:
        """Note that what has this id was deleted."""
        self._deleted.add(number)

    def is_deleted(self, message: Message) -> bool:
        """Say whether a message was deleted."""
        return first_id(message.id) in self._deleted

    def next_id(self) -> str:
        """Return the id of what is said next."""
        self._count += 1
        return f"{self._run}-{self._count}"

    async def close(self) -> None:
        """Do nothing: the terminal stays."""

    def _note(self, told: str) -> None:
        self._out.print(f"({told})", style="dim", markup=False, soft_wrap=True)

    def _at(self, said: Line) -> Last:
        return self._last.get(said.key, Last())

    def _changed(self, said: Line) -> Message | Deleted | Ignored:
        """Change what its author said last."""
        heard = to_change(said, self._newest.get((said.key, said.author_id), ""))
        last = self._at(said)
        if isinstance(heard, Message) and last.id == heard.id:
            self._last[said.key] = replace(last, text=heard.text)
        if isinstance(heard, Deleted):
            del self._newest[said.key, said.author_id]
            if last.id == heard.id:
                del self._last[said.key]
        return heard


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a file descriptor while other tasks go on."""
    held = b""
    while True:
        # A thread that reads could not be stopped, and the event loop takes no files: one looks, again and again.
        while not (await asyncio.to_thread(select.select, [descriptor], [], [], LOOKS_EVERY_S))[0]:
            continue
        came = os.read(descriptor, READS)
        *lines, held = (held + came).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        if not came:
            yield held.decode("utf-8", "replace")
            return
