"""Who administers a chat, as Telegram has it, and which commands its menus show to whom."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.messaging.policy.command_table import Command
from core.types import Message

if TYPE_CHECKING:
    from bots.telegram.client import Client, Menu

# So long somebody who was made an administrator, or is none any more, may have to wait.
REMEMBERED_S = 30.0
CHATS = 1000


class Administrators:
    """The administrators of groups, each group's remembered for a moment."""

    def __init__(self, remembered_s: float = REMEMBERED_S) -> None:
        self._remembered_s = remembered_s
        self._known: dict[str, tuple[float, frozenset[int]]] = {}

    async def include(self, client: Client, message: Message) -> bool:
        """Say whether the author is one of them. Raises a `PlatformError` when Telegram cannot be asked.

        Who writes in the group's own name is one: Telegram lets nobody else. Who writes as a channel is not.
        """
        chat = message.key.chat
        if message.private:
            return False
        if message.author_id == chat:
            return True
        if not message.author_id.isdecimal():
            return False
        return int(message.author_id) in await self._of(client, chat)

    async def _of(self, client: Client, chat: str) -> frozenset[int]:
        at, known = self._known.get(chat, (-float("inf"), frozenset[int]()))
        if time.monotonic() - at < self._remembered_s:
            return known
        found = await client.administrators(int(chat))
        if len(self._known) >= CHATS:
            self._known.clear()
        self._known[chat] = (time.monotonic(), found)
        return found


def menus(commands: Sequence[Command]) -> tuple[Menu, Menu]:
    """Return the menus for everybody and for a group's administrators. They are hints: rights are checked later."""
    everybody = [(one.name, one.summary) for one in commands if one.who == "everyone"]
    # Nobody says hello to see what else there is to say.
    others = [(one.name, one.summary) for one in commands if one.who == "admin"]
    return everybody, [*(one for one in everybody if one[0] != "start"), *others]
