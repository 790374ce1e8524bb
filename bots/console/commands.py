"""Commands in the terminal: the same table as on every platform, and who sits there is the owner."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bots.daemon.bootstrap import open_journal
from core.messaging.policy.command_table import find
from core.ports import Upkeep
from core.settings import Settings
from core.types import ConversationKey, Message, Reply

if TYPE_CHECKING:
    from core.messaging.commands.context import Reread
    from core.storage.engine import Database
    from core.storage.messages import Journal

HERE = ConversationKey("console", "terminal")
OWNER = "owner"


class Terminal:
    """Answers commands over the deployment's database; a daemon beside it sees a change within seconds.

    `upkeep` returns what keeps the sources up to date, over that database.
    """

    def __init__(
        self, settings: Settings, upkeep: Callable[[Database], Upkeep] | None = None, reread: Reread | None = None
    ) -> None:
        owners = (*settings.administration.owners, f"{HERE.platform}:{OWNER}")
        administration = settings.administration.model_copy(update={"owners": owners})
        self._settings = settings.model_copy(update={"administration": administration})
        self._upkeep = upkeep
        self._reread = reread
        self._last: Reply | None = None

    def answered(self, reply: Reply) -> None:
        """Note the newest answer, which `/why` explains: no journal has it."""
        self._last = reply

    def forgotten(self) -> None:
        """Let go of the newest answer."""
        self._last = None

    async def silence(self) -> str:
        """Return why nothing is answered here, as commands or the configuration have it, or nothing.

        Whether private chats are answered at all is no matter: who sits here runs the bot. Raises `StoreError`.
        """
        from core.messaging.policy.chat_policy import Place, off
        from core.storage.overrides import Steering

        asked = self._message("", "")
        place = Place(self._settings.gate)
        # Nobody can have given a command before there is a journal.
        if not await asyncio.to_thread((self._settings.data_dir / "journal.db").exists):
            return off(asked) if place.is_off(asked) else ""
        journal = await open_journal(self._settings)
        try:
            place = Place(self._settings.gate, Steering(journal.database))
            await place.look()
            return off(asked) if place.is_off(asked) else place.paused(asked)
        finally:
            await journal.close()

    async def heard(self, line: str) -> str | None:
        """Return what to say to a command, or None for any other line, a question that follows `/ask` too.

        Raises `UsageError` for arguments that make no sense, `StoreError`.
        """
        name, *rest = line.strip().split(maxsplit=1)
        command = find(name.removeprefix("/").lower())
        if not line.startswith("/") or command is None or (command.name == "ask" and rest):
            return None
        given = "".join(rest)
        if command.name == "why" and self._last is not None and not given:
            return _why(self._last)
        journal = await open_journal(self._settings)
        try:
            return await self._answer(command.name if command.name != "ask" else "help", given, journal)
        finally:
            await journal.close()

    async def _answer(self, name: str, given: str, journal: Journal) -> str:
        from core.messaging.commands.dispatcher import Desk

        upkeep = self._upkeep(journal.database) if self._upkeep else None
        desk = Desk(self._settings, journal, upkeep=upkeep, reread=self._reread)
        desk.office.platforms.add(HERE.platform)
        return await desk.answer(self._message(name, given), None)

    @staticmethod
    def _message(name: str, given: str) -> Message:
        number, now = uuid.uuid4().hex, datetime.now(UTC)
        return Message(number, HERE, OWNER, OWNER, given, now, private=True, addressed=True, command=name)


def question_in(line: str) -> str:
    """Return the question of a line: what follows `/ask`, or all of it."""
    name, *rest = line.split(maxsplit=1) or [""]
    return rest[0] if name.lower() == "/ask" and rest else line


def _why(reply: Reply) -> str:
    from core.messaging.commands.explain_command import Settled, explained

    trace = {name: getattr(reply.trace, name) for name in type(reply.trace).__slots__}
    cited = [{"source": one.source} for one in reply.citations]
    return explained(Settled("answered", "", reply.text, cited, trace), inside=True)
