"""`kimas chat --group`: a group played in the terminal, on the line of the daemon, to see when the bot speaks.

Every line is a message of somebody. Its journal is its own and is gone at the end.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bots.actions import require_knowledge
from bots.app import open_app
from bots.console import ConsoleSink, console, printable
from bots.terminal import OWNER
from core.administration.desk import Desk
from core.commands import find
from core.database import Database
from core.intake import Intake
from core.journal import Journal
from core.meter import Settled, Unmetered
from core.settings import Settings
from core.tasks import task_group
from core.types import ConversationKey, Message, Reply

if TYPE_CHECKING:
    from rich.console import Console

    from core.ports import Delivery, Receive, Sink

PLATFORM, CHAT, YOU = "console", ConversationKey("console", "group"), "You"
LOOKS_EVERY_S, READS = 0.05, 65536
# How long the next line waits for what the bot says to this one: lines from a file come faster than anybody types.
TYPING_S = 2.0
# What an answer may take beyond its budget.
GRACE_S = 5.0
WELCOME = (
    "A group in which {name} is. `Ben: text` is said by Ben, any other line by you. `@kimas` means the bot, and "
    "what begins with ^ replies to what was said last. /mode auto lets it speak unasked. Nothing of this is kept."
)
_SAID = re.compile(r"(?:(?P<name>[^\W\d_][\w-]{0,30}):\s+)?(?P<reply>\^\s*)?(?P<text>.*)", re.DOTALL)
_COMMAND = re.compile(r"/(?P<name>[A-Za-z_]+)(?:@\w+)?(?:\s+(?P<text>.*))?", re.DOTALL)
_MENTION = re.compile(r"@kimas\b[,:]?\s*", re.IGNORECASE)


class Group:
    """Implements `core.ports.Adapter`: lines of a file descriptor become messages, replies are printed."""

    name = PLATFORM

    def __init__(self, descriptor: int, out: Console) -> None:
        self._descriptor = descriptor
        self._out = out
        self._count = 0
        # What was said last: its id, its text, and whether the bot said it.
        self._last: tuple[str, str, bool] = ("", "", False)

    async def open(self) -> None:
        """Do nothing: the terminal is there."""

    async def listen(self, receive: Receive) -> None:
        """Deliver every line that is typed, to the end of input."""
        async for line in _lines(self._descriptor):
            if line.strip():
                await receive(self.message(line.strip()))

    def message(self, line: str) -> Message:
        """Return a line as a message of the group."""
        found = _SAID.fullmatch(line)
        name, said = (found["name"] or YOU, found["text"]) if found else (YOU, line)
        before, quoted, ours = self._last if found and found["reply"] else ("", "", False)
        order = _COMMAND.fullmatch(said)
        command = order["name"].lower() if order and find(order["name"].lower()) else ""
        text = (order["text"] or "") if order and command else _MENTION.sub("", said)
        self._count += 1
        number = str(self._count)
        self._last = (number, text, False)
        return Message(
            id=number,
            key=CHAT,
            author_id=OWNER if name == YOU else name.lower(),
            author=name,
            text=text,
            sent_at=datetime.now(UTC),
            addressed=bool(command or ours or _MENTION.search(said)),
            command=command,
            reply_to=before,
            quoted=quoted,
        )

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return a sink that prints the reply once it is complete, below what is typed meanwhile."""
        return _Printed(self, self._out, delivery)

    def said(self, number: str, text: str) -> None:
        """Note what the bot has said."""
        self._last = (number, text, True)

    def next_id(self) -> str:
        """Return the id of what the bot says next."""
        self._count += 1
        return str(self._count)

    async def close(self) -> None:
        """Do nothing: the terminal stays."""


class Overheard(Unmetered):
    """Shows the reason of every silence."""

    def __init__(self, out: Console) -> None:
        self._out = out

    def settled(self, platform: str, outcome: Settled, reason: str = "") -> None:
        """Show why the bot is silent."""
        if outcome == "silent":
            self._out.print(f"(silent: {printable(reason)})", style="dim", markup=False, soft_wrap=True)


class _Printed:
    """Prints one reply."""

    def __init__(self, group: Group, out: Console, delivery: Delivery) -> None:
        self._group = group
        self._out = out
        self._delivery = delivery

    async def open(self) -> None:
        """Show nothing: somebody may be typing."""

    async def update(self, text: str) -> None:
        """Show nothing: somebody may be typing."""

    async def finish(self, reply: Reply) -> None:
        """Print the reply."""
        await self._show(reply, failed=False)

    async def fail(self, text: str) -> None:
        """Print what went wrong."""
        await self._show(Reply(text), failed=True)

    async def _show(self, reply: Reply, *, failed: bool) -> None:
        number = self._group.next_id()
        await self._delivery.posting()
        self._out.print("kimas:", style="bold")
        sink = ConsoleSink(self._out)
        await (sink.fail(reply.text) if failed else sink.finish(reply))
        self._out.print()
        self._group.said(number, reply.text)
        await self._delivery.posted(number)


async def play(settings: Settings, descriptor: int | None = None) -> int:
    """Play a group until the end of input, which is standard input or a file descriptor."""
    settings, out = _open_to_all(settings), console()
    group = Group(sys.stdin.fileno() if descriptor is None else descriptor, out)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kimas-group-")))
        journal = Journal(await Database.open(folder / "journal.db"), Overheard(out))
        stack.push_async_callback(journal.close)
        app = await stack.enter_async_context(open_app(settings, database=journal.database))
        require_knowledge(app)
        out.print(WELCOME.format(name=settings.name), style="dim", markup=False, soft_wrap=True)
        desk = Desk(settings, journal, library=app.parts.library)
        intake = Intake(settings, journal, app.answer, app.parts.library, desk)
        stack.push_async_callback(intake.drain, 0)
        async with task_group() as tasks:
            tasks.create_task(app.warm_up())
            receive = intake.receiver(group)

            async def take(message: Message) -> None:
                await receive(message)
                await _settled(intake, TYPING_S)

            await group.listen(take)
            # Whoever has said everything waits for what the bot says to it, also where that leaves people time first.
            await _settled(intake, settings.gate.wait_s + settings.budget.deadline_s + GRACE_S)
    return 0


async def _settled(intake: Intake, longest_s: float) -> None:
    """Wait until nothing is in hand, at most so long."""
    for _ in range(round(longest_s / LOOKS_EVERY_S)):
        if not intake.in_hand:
            return
        await asyncio.sleep(LOOKS_EVERY_S)


def _open_to_all(settings: Settings) -> Settings:
    """Return settings under which the group is one of the bot's, and who sits there owns it."""
    owners = (*settings.administration.owners, f"{PLATFORM}:{OWNER}")
    return settings.model_copy(
        update={
            "administration": settings.administration.model_copy(update={"owners": owners}),
            "gate": settings.gate.model_copy(update={"chats": ()}),
        }
    )


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a file descriptor while other tasks go on."""
    held = b""
    while True:
        # A thread that reads could not be stopped, and the event loop takes no files: one looks, again and again.
        while not (await asyncio.to_thread(select.select, [descriptor], [], [], LOOKS_EVERY_S))[0]:
            continue
        read = os.read(descriptor, READS)
        *lines, held = (held + read).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        if not read:
            yield held.decode("utf-8", "replace")
            return
