"""Who administers a chat, and which commands Telegram's menus show to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bots.common.caches import TtlCache
from core.catalogue import ENGLISH, Messages
from core.messaging.policy.command_table import Command
from core.types import Message

if TYPE_CHECKING:
    from bots.telegram.client import CommandMenu, TelegramClient

# How long it may take until the bot knows that somebody became an administrator, or is none any more.
CACHE_TTL_S = 30.0
MAX_CHATS = 1000


class AdministratorCache:
    """The administrators of groups, each group's remembered for a moment."""

    def __init__(self, ttl_s: float = CACHE_TTL_S) -> None:
        self._admin_ids = TtlCache[frozenset[int]](ttl_s, MAX_CHATS)

    async def is_admin(self, client: TelegramClient, message: Message) -> bool:
        """Return whether the author is one of them. Raises a `PlatformError` when Telegram cannot be asked.

        Somebody who writes in the group's own name is one: Telegram allows it to nobody else. A channel is not.
        """
        chat = message.key.chat
        if message.private:
            return False
        if message.author_id == chat:
            return True
        if not message.author_id.isdecimal():
            return False
        admin_ids = await self._admin_ids.get(chat, lambda: client.get_administrators(int(chat)))
        return int(message.author_id) in admin_ids


def build_menus(commands: Sequence[Command], texts: Messages = ENGLISH) -> tuple[CommandMenu, CommandMenu]:
    """Return the menus for everybody and for a group's administrators. They are hints: rights are checked later."""

    def get_entries(role: str) -> list[tuple[str, str]]:
        return [(item.name, texts.command_summaries[item.name]) for item in commands if item.required_role == role]

    everyone_menu = get_entries("everyone")
    admin_entries = get_entries("admin")
    # Administrators do not need /start.
    return everyone_menu, [*(entry for entry in everyone_menu if entry[0] != "start"), *admin_entries]
