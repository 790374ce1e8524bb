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

from bots.common.terminal import strip_control_characters
from bots.console.convert import (
    PLATFORM,
    RATING_CHOICES,
    Deletion,
    IgnoredLine,
    LastMessage,
    TypedLine,
    to_change,
    to_message,
    to_rating,
    to_typed_line,
)
from bots.console.sink import GroupReplySink, RatingNoticeSink
from core.messaging.feedback.rating_buttons import is_press
from core.ports import Adapter, Delivery, MessageHandler, Sink
from core.types import ConversationKey, Message

if TYPE_CHECKING:
    from rich.console import Console


POLL_INTERVAL_S, READ_BYTES = 0.05, 65536

DELETED, DELETED_LATE = "deleted", "deleted; what came of it before stays"
# Settles what was deleted, by its id; False when it was settled before.
CompleteDeleted = Callable[[str], Awaitable[bool]]


async def _already_completed(_message_id: str) -> bool:
    return False


class ConsoleGroupAdapter(Adapter):
    """A group in a terminal. `skipped` counts lines that became no message, by reason."""

    name = PLATFORM

    def __init__(
        self, file_descriptor: int, out: Console, complete_deleted: CompleteDeleted = _already_completed
    ) -> None:
        self._file_descriptor = file_descriptor
        self._out = out
        self._complete_deleted = complete_deleted
        # A journal that is kept knows the ids of earlier runs.
        self._run_id = uuid.uuid4().hex[:8]
        self._message_count = 0
        self._last_messages: dict[ConversationKey, LastMessage] = {}
        self._rateable_ids: dict[ConversationKey, str] = {}
        self._newest_ids: dict[tuple[ConversationKey, str], str] = {}
        self._deleted_ids: set[str] = set()
        self.skipped: Counter[str] = Counter()

    async def open(self) -> None:
        """Do nothing: the terminal is there."""

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver every line that is typed, to the end of input."""
        async for line in _read_lines(self._file_descriptor):
            if not line.strip():
                continue
            event = self.parse_line(line.strip())
            if isinstance(event, Message):
                await receive(event)
            elif isinstance(event, Deletion):
                self.mark_deleted(event.id)
                self._print_note(DELETED if await self._complete_deleted(event.id) else DELETED_LATE)
            else:
                self.skipped[event.reason] += 1
                self._print_note(f"ignored: {strip_control_characters(event.reason)}")

    def parse_line(self, line: str) -> Message | Deletion | IgnoredLine:
        """Return what a line is in the group."""
        typed_line = to_typed_line(line)
        if typed_line.action in RATING_CHOICES:
            answer_id = (
                self._get_last_message(typed_line).id
                if typed_line.is_reply
                else self._rateable_ids.get(typed_line.key, "")
            )
            return to_rating(typed_line, self.next_message_id(), answer_id)
        if typed_line.action:
            return self._apply_change(typed_line)
        message_id = self.next_message_id()
        event = to_message(typed_line, message_id, self._get_last_message(typed_line))
        self._last_messages[typed_line.key] = LastMessage(
            message_id, event.text if isinstance(event, Message) else typed_line.text
        )
        if isinstance(event, Message):
            self._newest_ids[typed_line.key, typed_line.author_id] = message_id
        return event

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that prints the reply once it is complete, below what is typed meanwhile."""
        return (
            RatingNoticeSink(self._out, message)
            if is_press(message)
            else GroupReplySink(self, self._out, message, delivery)
        )

    def record_bot_message(self, key: ConversationKey, message_id: str, text: str, *, is_rateable: bool) -> None:
        """Note what the bot has said, and whether people may say what it is worth."""
        self._last_messages[key] = LastMessage(message_id, text, is_from_bot=True)
        if is_rateable:
            self._rateable_ids[key] = message_id

    def mark_deleted(self, message_id: str) -> None:
        """Note that what has this id was deleted."""
        self._deleted_ids.add(message_id)

    def is_deleted(self, message: Message) -> bool:
        """Say whether a message was deleted."""
        return message.question_id in self._deleted_ids

    def next_message_id(self) -> str:
        """Return the id of what is said next."""
        self._message_count += 1
        return f"{self._run_id}-{self._message_count}"

    async def close(self) -> None:
        """Do nothing: the terminal stays."""

    def _print_note(self, text: str) -> None:
        self._out.print(f"({text})", style="dim", markup=False, soft_wrap=True)

    def _get_last_message(self, typed_line: TypedLine) -> LastMessage:
        return self._last_messages.get(typed_line.key, LastMessage())

    def _apply_change(self, typed_line: TypedLine) -> Message | Deletion | IgnoredLine:
        """Change what its author said last."""
        event = to_change(typed_line, self._newest_ids.get((typed_line.key, typed_line.author_id), ""))
        last_message = self._get_last_message(typed_line)
        if isinstance(event, Message) and last_message.id == event.id:
            self._last_messages[typed_line.key] = replace(last_message, text=event.text)
        if isinstance(event, Deletion):
            del self._newest_ids[typed_line.key, typed_line.author_id]
            if last_message.id == event.id:
                del self._last_messages[typed_line.key]
        return event


async def _read_lines(file_descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a file descriptor while other tasks go on."""
    buffer = b""
    while True:
        # A thread that reads could not be stopped, and the event loop takes no files: one looks, again and again.
        while not (await asyncio.to_thread(select.select, [file_descriptor], [], [], POLL_INTERVAL_S))[0]:
            continue
        chunk = os.read(file_descriptor, READ_BYTES)
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        if not chunk:
            yield buffer.decode("utf-8", "replace")
            return
