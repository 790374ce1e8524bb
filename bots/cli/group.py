"""What a group that is played knows of the sources: how they stand, as `kimas sources` shows it."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bots.cli.sources import read_states
from bots.common.terminal import console, printable
from bots.console.adapter import LOOKS_EVERY_S, Group
from bots.console.commands import OWNER
from bots.console.convert import PLATFORM
from bots.daemon.bootstrap import open_app, require_knowledge
from core.errors import StoreError, UsageError
from core.messaging.commands.dispatcher import Desk
from core.messaging.feedback.escalation import first_id
from core.messaging.feedback.handler import NO_ANSWER
from core.messaging.processor import Intake
from core.observability.recorder import Meter, Settled, Unmetered
from core.runtime.locks import play_lock
from core.runtime.tasks import task_group
from core.settings import Settings
from core.storage.engine import Database
from core.storage.messages import Journal
from core.types import Message, SourceState

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


EDITED, EDITED_LATE = "(edited)", "(too late: it is being answered, or settled already)"
WAS_DELETED = "the question was deleted before it was answered"
# Presses and deletions are settled without an answer, and were told about already.
_TOLD = ("feedback on ", NO_ANSWER, " answered once more", WAS_DELETED)


class PlayedJournal(Journal):
    """Prints whether a new text came in time. What was deleted before its answer was shown is settled at once."""

    def __init__(self, database: Database, meter: Meter, out: Console) -> None:
        super().__init__(database, meter)
        self._out = out
        self._shown: set[str] = set()

    async def posting(self, message: Message) -> None:
        """Note that the reply is about to be shown."""
        # Before anything is waited for: a reply looks whether its question was deleted right before this.
        self._shown.add(message.id)
        await super().posting(message)

    async def edited(self, message: Message) -> bool:
        """Take over the new text of a message, and print whether its answer had begun. False when it is too late."""
        taken = await super().edited(message)
        self._out.print(EDITED if taken else EDITED_LATE, style="dim", markup=False, soft_wrap=True)
        return taken

    async def deleted(self, number: str) -> bool:
        """Settle what was deleted before it was answered: no later play takes it up. False when it was settled."""
        pending = [one for one, _ in await self.pending(PLATFORM) if first_id(one.id) == number]
        waiting = [one for one in pending if one.id not in self._shown]
        for one in waiting:
            await self.silent(one, WAS_DELETED)
        return bool(waiting)


class Looking:
    """Implements `core.ports.Upkeep` for who only looks: nothing is refreshed from a play."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def states(self) -> Sequence[SourceState]:
        """Return how every stored source stands, in the order of the configuration. Raises `StoreError`."""
        return list((await read_states(self._settings)).values())

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Raise `UsageError`."""
        raise UsageError("I cannot refresh sources here: `kimas run` does, and `kimas ingest` by hand.")

    async def pause(self, name: str) -> None:
        """Raise `UsageError`."""
        raise _no_plan()

    async def resume(self, name: str) -> None:
        """Raise `UsageError`."""
        raise _no_plan()


def _no_plan() -> UsageError:
    return UsageError("I do not refresh sources here: `kimas sources pause NAME` and `resume NAME` do the same.")
