"""`kimas chat --group`: a group played in the terminal, on the line of the daemon, to see when the bot speaks.

Every line is a message of somebody (`bots.played`). Its journal is its own; without a folder it is gone at the end.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bots.actions import require_knowledge
from bots.app import open_app
from bots.console import console, printable
from bots.played.adapter import LOOKS_EVERY_S, Group
from bots.played.lines import PLATFORM
from bots.played.record import WAS_DELETED, PlayedJournal
from bots.played.upkeep import Looking
from bots.terminal import OWNER
from core.administration.desk import Desk
from core.database import Database
from core.errors import StoreError
from core.feedback.desk import NO_ANSWER
from core.intake import Intake
from core.meter import Settled, Unmetered
from core.settings import Settings
from core.tasks import task_group
from core.types import Message
from knowledge.locks import play_lock

if TYPE_CHECKING:
    from rich.console import Console

# How long the next line waits for what the bot says to this one: lines from a file come faster than anybody types.
TYPING_S = 2.0
# The first look whether nothing is in hand; the next ones come ever later, up to LOOKS_EVERY_S.
FIRST_LOOK_S = 0.002
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
# Presses and deletions are settled without an answer, and were told about already.
_TOLD = ("feedback on ", NO_ANSWER, " answered once more", WAS_DELETED)


class Overheard(Unmetered):
    """Shows the reason of every silence. `count` is how many messages were settled."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self.count = 0

    def settled(self, platform: str, outcome: Settled, reason: str = "") -> None:
        """Count it, and show why the bot is silent."""
        self.count += 1
        if outcome == "silent" and not any(one in reason for one in _TOLD):
            self._out.print(f"(silent: {printable(reason)})", style="dim", markup=False, soft_wrap=True)


async def play(settings: Settings, descriptor: int | None = None, folder: Path | None = None) -> int:
    """Play a group until the end of input, which is standard input or a file descriptor; 1 when answers are missing.

    A folder keeps its journal, and the next play in it goes on with what was said. Raises `StoreError`, and
    `StoreLocked` while somebody else plays there.
    """
    settings, out = _open_to_all(settings), console()
    async with AsyncExitStack() as stack:
        kept = _kept(folder, stack)
        heard = Overheard(out)
        journal = PlayedJournal(await Database.open(kept / "group.db"), heard, out)
        stack.push_async_callback(journal.close)
        app = await stack.enter_async_context(open_app(settings, database=journal.database))
        require_knowledge(app)
        out.print(_welcome(settings, folder), style="dim", markup=False, soft_wrap=True)
        group = Group(sys.stdin.fileno() if descriptor is None else descriptor, out, journal.deleted)
        desk = Desk(settings, journal, upkeep=Looking(settings), library=app.parts.library)
        intake = Intake(settings, journal, app.answer, app.parts.library, desk)
        stack.push_async_callback(intake.drain, 0)
        async with task_group() as tasks:
            tasks.create_task(app.warm_up())
            receive = intake.receiver(group)

            async def take(message: Message) -> None:
                await receive(message)
                await settled(intake, TYPING_S)

            await intake.resume(group)
            await group.listen(take)
            # Whoever has said everything waits for what the bot says to it, also where that leaves people time first.
            # Questions in one place wait for each other, so that no time in all would do for any number of them.
            longest_s = settings.gate.wait_s + settings.budget.deadline_s + GRACE_S
            await settled(intake, longest_s, lambda: heard.count - intake.in_hand)
            left = len(await journal.pending(PLATFORM))
        if left:
            out.print(f"({left} not answered: the play is over)", style="dim", markup=False, soft_wrap=True)
    return 1 if left else 0


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


async def settled(intake: Intake, longest_s: float, progress: Callable[[], int] = int) -> int:
    """Wait until nothing is in hand; return how much is left when there was no progress for so long."""
    seen, until, pause_s = progress(), time.monotonic() + longest_s, FIRST_LOOK_S
    while intake.in_hand and time.monotonic() < until:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LOOKS_EVERY_S)
        if progress() != seen:
            seen, until = progress(), time.monotonic() + longest_s
    return intake.in_hand


def _open_to_all(settings: Settings) -> Settings:
    """Return settings under which the group is one of the bot's, and who sits there owns it."""
    owners = (*settings.administration.owners, f"{PLATFORM}:{OWNER}")
    return settings.model_copy(
        update={
            "administration": settings.administration.model_copy(update={"owners": owners}),
            "gate": settings.gate.model_copy(update={"chats": ()}),
        }
    )
