"""Who may give which command. Asked at every command: what a menu shows or hides permits nothing."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from core.errors import PlatformError, UsageError
from core.messaging.policy.command_table import Who
from core.observability.logs import logger
from core.settings import AdministrationSettings
from core.storage.overrides import Steering, chat_of
from core.types import Message


class Refused(UsageError):
    """Somebody gave a command that is not theirs to give."""


@runtime_checkable
class KnowsAdministrators(Protocol):
    """What an adapter can tell beyond the messages themselves."""

    async def is_administrator(self, message: Message) -> bool:
        """Say whether the platform has the author as an administrator of the chat. Raises `PlatformError`."""
        ...


class Permissions:
    """Owners by the configuration, people whom they named for a chat, and the chat's own administrators if allowed."""

    def __init__(self, settings: AdministrationSettings, steering: Steering) -> None:
        self._settings = settings
        self._steering = steering

    def adopt(self, settings: AdministrationSettings) -> None:
        """Go by other settings from now on."""
        self._settings = settings

    def known(self, message: Message) -> Who:
        """Return the author's standing as far as it is known without asking the platform."""
        if not message.author_id or _is_stand_in(message):
            return "everyone"
        if f"{message.key.platform}:{message.author_id}" in self._settings.owners:
            return "owner"
        return "admin" if message.author_id in self._steering.admins(chat_of(message)) else "everyone"

    async def standing(self, message: Message, adapter: object) -> Who:
        """Return the author's standing. A platform that cannot be asked makes nobody an administrator."""
        known = self.known(message)
        if known != "everyone" or message.private or not self._settings.platform_admins:
            return known
        if not isinstance(adapter, KnowsAdministrators):
            return known
        try:
            return "admin" if await adapter.is_administrator(message) else "everyone"
        except PlatformError as fault:
            logger(__name__).warning("administrator.not_known", platform=message.key.platform, error=str(fault))
            return "everyone"


def _is_stand_in(message: Message) -> bool:
    """Say whether the group itself is the author: so Telegram shows every administrator who stays anonymous."""
    return not message.private and message.author_id == message.key.chat
