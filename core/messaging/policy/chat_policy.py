"""Where the bot may speak: by the configuration, and by what commands have set above it."""

from __future__ import annotations

from core.settings import GateSettings
from core.settings.platforms import GateMode
from core.storage.overrides import RuntimeOverrides, get_chat_name
from core.text.formatting import format_until
from core.types import Message


class ChatPolicy:
    """The mode, the threshold and the pause of every chat. Without `steering` the configuration alone counts."""

    def __init__(self, settings: GateSettings, overrides: RuntimeOverrides | None = None) -> None:
        self._settings = settings
        self._overrides = overrides

    def on_reload(self, settings: GateSettings) -> None:
        """Go by other settings from now on."""
        self._settings = settings

    async def refresh(self) -> None:
        """See what commands have set; comes before every other question. Raises `StoreError`."""
        if self._overrides:
            await self._overrides.load()

    def block_reason(self, message: Message) -> str:
        """Return why the bot must not speak in the message's chat, or nothing."""
        return self.excluded_reason(message) or (
            disabled_reason(message) if self.is_off(message) else self.paused_reason(message)
        )

    def excluded_reason(self, message: Message) -> str:
        """Return why the bot is not there for this chat at all, or nothing."""
        settings, chat = self._settings, get_chat_name(message)
        if message.private and not settings.private:
            return "private chats are switched off (gate.private)"
        if not message.private and settings.chats and chat not in settings.chats:
            return f"{chat} is not among gate.chats"
        return ""

    def is_off(self, message: Message) -> bool:
        """Say whether the bot is switched off in the chat."""
        return self.mode(message) == "off"

    def paused_reason(self, message: Message) -> str:
        """Return that the chat is paused, and until when, or nothing."""
        until = self._overrides.paused_until(get_chat_name(message)) if self._overrides else ""
        return f"{get_chat_name(message)} is paused {format_until(until)} (/pause)" if until else ""

    def mode(self, message: Message) -> GateMode:
        """Return the chat's mode."""
        chat = get_chat_name(message)
        override = self._overrides.mode(chat) if self._overrides else None
        return override or self._settings.get_mode(chat, private=message.private)

    def threshold(self, message: Message) -> float:
        """Return the chat's threshold."""
        chat = get_chat_name(message)
        override = self._overrides.threshold(chat) if self._overrides else None
        return self._settings.get_threshold(chat) if override is None else override


def disabled_reason(message: Message) -> str:
    """Return the reason of the silence in a chat where the bot is switched off."""
    return f"{get_chat_name(message)} is switched off (gate.mode)"
