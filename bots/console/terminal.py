"""One person alone with the bot, as a platform: what `kimas chat` reads and prints."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bots.console.convert import (
    DEFAULT_SPEAKER,
    NO_ANSWER,
    OWNER_ID,
    RATING_CHOICES,
    TERMINAL_KEY,
    USAGE,
    IgnoredLine,
    TypedLine,
    to_rating,
)
from bots.console.render import ConsoleSink
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.policy.command_table import get_command
from core.ports import Adapter
from core.types import Message, Reply

if TYPE_CHECKING:
    from rich.console import Console

    from core.ports import Delivery, MessageHandler, Sink

COMMAND_PATTERN = re.compile(r"/[A-Za-z_]+")
GROUP_COMMANDS = frozenset({"/escalate", "/learn"})


class TerminalAdapter(Adapter):
    """Lines become messages of the bot's owner; replies stream into the terminal.

    `read_line` returns the next line, or None at the end. `answer_id` is the question that ratings are about, "" for
    none.
    """

    name = TERMINAL_KEY.platform

    def __init__(self, out: Console, read_line: Callable[[], str | None] = lambda: None) -> None:
        self._out = out
        self._read_line = read_line
        self._sink = ConsoleSink(out)
        self.answer_id = ""

    async def open(self) -> None:
        """Do nothing: the terminal is there."""

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver every line that is typed, to the end of input."""
        while (line := self._read_line()) is not None:
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


class _TerminalSink:
    """Streams one reply, and journals that it is shown."""

    def __init__(self, sink: ConsoleSink, delivery: Delivery) -> None:
        self._sink = sink
        self._delivery = delivery
        self.open = sink.open
        self.update = sink.update

    async def finish(self, reply: Reply) -> None:
        await self._delivery.mark_posting()
        await self._sink.finish(reply)
        await self._delivery.mark_posted(uuid.uuid4().hex)

    async def fail(self, text: str) -> None:
        await self._delivery.mark_posting()
        await self._sink.fail(text)
        await self._delivery.mark_posted(uuid.uuid4().hex)


class _NoteSink:
    """Says what became of a rating."""

    def __init__(self, print_note: Callable[[str], None]) -> None:
        self._print_note = print_note

    async def open(self) -> None:
        pass

    async def update(self, text: str) -> None:
        pass

    async def finish(self, reply: Reply) -> None:
        self._print_note(reply.text)

    async def fail(self, text: str) -> None:
        self._print_note(text)


def parse_line(line: str, answer_id: str = "") -> Message | IgnoredLine:
    """Return what a line is: a question, a command, a rating of the answer with this id ("" for none), or nothing."""
    first_word, *rest = line.split(maxsplit=1)
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
