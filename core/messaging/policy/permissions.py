"""Who may give which command. Asked at every command: what a menu shows or hides permits nothing."""

from __future__ import annotations

from core.errors import PlatformError, UsageError
from core.messaging.policy.command_table import UserRole, has_role
from core.observability.logs import get_logger
from core.ports import Adapter
from core.storage.overrides import LiveSettings, get_chat_name
from core.types import Message


class PermissionDenied(UsageError):
    """Somebody gave a command that is not theirs to give: `text` for them, `audit_text` for the audit."""

    def __init__(self, text: str, audit_text: str = "") -> None:
        super().__init__(text)
        self.audit_text = audit_text or text


class Permissions:
    """Owners by the configuration, people whom they named for a chat, and the chat's own administrators if allowed."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live

    def cached_role(self, message: Message) -> UserRole:
        """Return the author's standing as far as it is known without asking the platform."""
        if not message.author_id or _is_anonymous_admin(message):
            return "everyone"
        if f"{message.key.platform}:{message.author_id}" in self._live.settings.administration.owners:
            return "owner"
        return "admin" if message.author_id in self._live.overrides.admins(get_chat_name(message)) else "everyone"

    async def resolve_role(self, message: Message, adapter: Adapter | None) -> UserRole:
        """Return the author's standing. A platform that cannot be asked makes nobody an administrator."""
        role = self.cached_role(message)
        asks_platform = self._live.settings.administration.platform_admins
        if role != "everyone" or message.private or not asks_platform or adapter is None:
            return role
        try:
            return "admin" if await adapter.is_admin(message) else "everyone"
        except PlatformError as error:
            get_logger(__name__).warning("administrator.not_known", platform=message.key.platform, error=str(error))
            return "everyone"

    async def is_admin(self, message: Message, adapter: Adapter | None) -> bool:
        """Say whether the author looks after the bot in the message's chat. Raises `StoreError`."""
        await self._live.load()
        return has_role(await self.resolve_role(message, adapter), "admin")


def _is_anonymous_admin(message: Message) -> bool:
    """Say whether the group itself is the author: so Telegram shows every administrator who stays anonymous."""
    return not message.private and message.author_id == message.key.chat
