"""The journal of a group that is played: it tells what became of changes, and settles what was deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bots.played.lines import PLATFORM
from core.database import Database
from core.feedback.calling import first_id
from core.journal import Journal
from core.meter import Meter
from core.types import Message

if TYPE_CHECKING:
    from rich.console import Console

EDITED, EDITED_LATE = "(edited)", "(too late: it is being answered, or settled already)"
WAS_DELETED = "the question was deleted before it was answered"


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
