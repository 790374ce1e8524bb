"""The terminal's adapters: a simulated group, and one person alone with the bot."""

from __future__ import annotations

import asyncio
import os
import re
import select
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from bots.common.reply_sink import FinalTextSink
from bots.console.convert import (
    DEFAULT_SPEAKER,
    NO_ANSWER,
    OWNER_ID,
    PLATFORM,
    RATING_CHOICES,
    TERMINAL_KEY,
    USAGE,
    Deletion,
    IgnoredLine,
    LastMessage,
    TypedLine,
    to_change,
    to_message,
    to_rating,
    to_typed_line,
)
from bots.console.render import ConsoleSink
from bots.console.sink import GroupReplySink, RatingNoticeSink
from core.formatting import strip_control_characters
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.policy.command_table import get_command
from core.ports import Adapter, Delivery, MessageHandler, Sink
from core.types import ConversationKey, Message, Reply

POLL_INTERVAL_S = 0.05
READ_BYTES = 65536

DELETED = "deleted"
DELETED_LATE = "deleted; what came of it before stays"
# Completes a deleted message, by its id; False when it was completed before.
CompleteDeleted = Callable[[str], Awaitable[bool]]
COMMAND_PATTERN = re.compile(r"/[A-Za-z_]+")
GROUP_COMMANDS = frozenset({"/escalate", "/learn"})


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
        """Return what a line means in the group."""
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
        """Record a reply of the bot, and whether people may rate it."""
        self._last_messages[key] = LastMessage(message_id, text, is_from_bot=True)
        if is_rateable:
            self._rateable_ids[key] = message_id

    def mark_deleted(self, message_id: str) -> None:
        """Record that a message was deleted."""
        self._deleted_ids.add(message_id)

    def is_deleted(self, message: Message) -> bool:
        """Return whether a message was deleted."""
        return message.question_id in self._deleted_ids

    def next_message_id(self) -> str:
        """Return the id of the next message."""
        self._message_count += 1
        return f"{self._run_id}-{self._message_count}"

    async def close(self) -> None:
        """Do nothing: the terminal stays."""

    def _print_note(self, text: str) -> None:
        self._out.print(f"({text})", style="dim", markup=False, soft_wrap=True)

    def _get_last_message(self, typed_line: TypedLine) -> LastMessage:
        return self._last_messages.get(typed_line.key, LastMessage())

    def _apply_change(self, typed_line: TypedLine) -> Message | Deletion | IgnoredLine:
        """Edit or delete the author's last message."""
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
        # A reading thread cannot be stopped, and the event loop accepts no regular files: so poll.
        while not (await asyncio.to_thread(select.select, [file_descriptor], [], [], POLL_INTERVAL_S))[0]:
            continue
        chunk = os.read(file_descriptor, READ_BYTES)
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        if not chunk:
            yield buffer.decode("utf-8", "replace")
            return


class TerminalAdapter(Adapter):
    """Lines become messages of the bot's owner; replies stream into the terminal.

    `read_line` returns the next line, or None at the end. `answer_id` is the question that ratings are about, "" for
    none.
    """

    name = TERMINAL_KEY.platform

    def __init__(self, out: Console, read_line: Callable[[], Awaitable[str | None]]) -> None:
        self._out = out
        self._read_line = read_line
        self._sink = ConsoleSink(out)
        self.answer_id = ""

    async def open(self) -> None:
        """Do nothing: the terminal is there."""

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver every line that is typed, to the end of input."""
        while (line := await self._read_line()) is not None:
            await self.process_line(line, receive)

    async def process_line(self, line: str, receive: MessageHandler) -> None:
        """Deliver one line, or print why it is no message."""
        event = parse_line(line, self.answer_id) if line else None
        if isinstance(event, Message):
            await receive(event)
        elif event and event.reason in (NO_ANSWER, USAGE):
            self._print_note(event.reason)
        elif event:
            await ConsoleSink(self._out).finish(Reply(event.reason))

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that streams the reply, or says what became of a rating."""
        if is_press(message):
            return _NoteSink(self._print_note)
        self._sink = ConsoleSink(self._out)
        return _TerminalSink(self._sink, delivery)

    async def close(self) -> None:
        """Give the terminal back as it was, with its cursor."""
        self._sink.close()

    def _print_note(self, text: str) -> None:
        self._out.print(text, style="dim", markup=False)


class _TerminalSink(FinalTextSink):
    """Streams one reply, and records its delivery."""

    def __init__(self, sink: ConsoleSink, delivery: Delivery) -> None:
        self._sink = sink
        self._delivery = delivery

    async def open(self) -> None:
        await self._sink.open()

    async def update(self, text: str) -> None:
        await self._sink.update(text)

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        await self._delivery.mark_posting()
        await (self._sink.fail(reply.text) if is_error else self._sink.finish(reply))
        await self._delivery.mark_posted(uuid.uuid4().hex)


class _NoteSink(FinalTextSink):
    """Prints the result of a rating."""

    def __init__(self, print_note: Callable[[str], None]) -> None:
        self._print_note = print_note

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        self._print_note(reply.text)


def parse_line(line: str, answer_id: str = "") -> Message | IgnoredLine:
    """Return what a line is: a question, a command, a rating of the answer with this id ("" for none), or nothing."""
    first_word, *rest = line.split(maxsplit=1) or [""]
    if first_word.lower() in GROUP_COMMANDS:
        return IgnoredLine(f"`{first_word}` concerns other people: it works in groups. `kimas chat --group` plays one.")
    if first_word in RATING_CHOICES:
        return _to_rating(line, answer_id)
    command = get_command(first_word[1:].lower()) if line.startswith("/") else None
    if command is None and line == first_word and COMMAND_PATTERN.fullmatch(line):
        return IgnoredLine(f"I do not know `{line}`. `/help` shows the commands.")
    return Message(
        uuid.uuid4().hex,
        TERMINAL_KEY,
        OWNER_ID,
        OWNER_ID,
        "".join(rest) if command else line,
        datetime.now(UTC),
        private=True,
        addressed=True,
        command=command.name if command else "",
    )


def _to_rating(line: str, answer_id: str) -> Message | IgnoredLine:
    if not answer_id:
        return IgnoredLine(NO_ANSWER)
    event = to_rating(TypedLine(DEFAULT_SPEAKER, line, is_private=True), uuid.uuid4().hex, answer_id)
    if isinstance(event, IgnoredLine):
        return event
    return replace(event, key=replace(event.key, chat=TERMINAL_KEY.chat), author=OWNER_ID)
