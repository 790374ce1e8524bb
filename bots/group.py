"""`kimas chat --group`: a group played in the terminal, on the line of the daemon, to see when the bot speaks.

Every line is a message of somebody (`bots.played`). Its journal is its own; without a folder it is gone at the end.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bots.actions import require_knowledge
from bots.app import open_app
from bots.console import console, printable
from bots.played.adapter import LOOKS_EVERY_S, Group
from bots.played.lines import PLATFORM
from bots.terminal import OWNER
from core.administration.desk import Desk
from core.database import Database
from core.errors import StoreError
from core.feedback.desk import NO_ANSWER
from core.intake import Intake
from core.journal import Journal
from core.meter import Settled, Unmetered
from core.settings import Settings
from core.tasks import task_group
from core.types import Message
from knowledge.locks import play_lock

if TYPE_CHECKING:
    from rich.console import Console

# How long the next line waits for what the bot says to this one: lines from a file come faster than anybody types.
TYPING_S = 2.0
# What an answer may take beyond its budget.
GRACE_S = 5.0
WELCOME = """\
A group in which {name} is. `Ben: text` is said by Ben, any other line by you. `@kimas` means the bot, and what begins \
with ^ replies to what was said last.
`Ben (in release): text` stands in a thread, `Ben (alone): text` is for the bot alone, `Robot (bot): text` comes from \
another bot.
`Ben: /good`, `/bad` and `/again` are about the last answer; `/edit text` and `/delete` change what Ben said last. \
/mode auto lets the bot speak unasked.
{kept}"""
# Presses are settled without an answer, and were told about already.
_OF_PRESSES = ("feedback on ", NO_ANSWER, " answered once more")


class Overheard(Unmetered):
    """Shows the reason of every silence."""

    def __init__(self, out: Console) -> None:
        self._out = out

    def settled(self, platform: str, outcome: Settled, reason: str = "") -> None:
        """Show why the bot is silent."""
        if outcome == "silent" and not any(one in reason for one in _OF_PRESSES):
            self._out.print(f"(silent: {printable(reason)})", style="dim", markup=False, soft_wrap=True)


async def play(settings: Settings, descriptor: int | None = None, folder: Path | None = None) -> int:
    """Play a group until the end of input, which is standard input or a file descriptor.

    A folder keeps its journal, and the next play in it goes on with what was said. Raises `StoreError`, and
    `StoreLocked` while somebody else plays there.
    """
    settings, out = _open_to_all(settings), console()
    group = Group(sys.stdin.fileno() if descriptor is None else descriptor, out)
    async with AsyncExitStack() as stack:
        kept = _kept(folder, stack)
        journal = Journal(await Database.open(kept / "group.db"), Overheard(out))
        stack.push_async_callback(journal.close)
        app = await stack.enter_async_context(open_app(settings, database=journal.database))
        require_knowledge(app)
        out.print(_welcome(settings, folder), style="dim", markup=False, soft_wrap=True)
        desk = Desk(settings, journal, library=app.parts.library)
        intake = Intake(settings, journal, app.answer, app.parts.library, desk)
        stack.push_async_callback(intake.drain, 0)
        async with task_group() as tasks:
            tasks.create_task(app.warm_up())
            receive = intake.receiver(group)

            async def take(message: Message) -> None:
                await receive(message)
                await _settled(intake, TYPING_S)

            await intake.resume(group)
            await group.listen(take)
            # Whoever has said everything waits for what the bot says to it, also where that leaves people time first.
            await _settled(intake, settings.gate.wait_s + settings.budget.deadline_s + GRACE_S)
    return 0


def _kept(folder: Path | None, stack: AsyncExitStack) -> Path:
    """Return the folder of the journal, held for as long as the play lasts. Raises `StoreError`, `StoreLocked`."""
    if folder is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kimas-group-")))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise StoreError(
            f"--keep {folder} cannot be used: {fault.strerror or fault}; choose a folder that you may write to"
        ) from fault
    # What is pending there would be taken up by two plays, and answered twice.
    stack.enter_context(play_lock(folder))
    return folder


def _welcome(settings: Settings, folder: Path | None) -> str:
    kept = f"What is said is kept in {folder}." if folder else "Nothing of this is kept."
    return WELCOME.format(name=settings.name, kept=kept)


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
