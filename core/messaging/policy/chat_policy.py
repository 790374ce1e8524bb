"""Where the bot may speak: by the configuration, and by what commands have set above it."""

from __future__ import annotations

from core.settings import GateSettings
from core.settings.platforms import GateMode
from core.storage.overrides import Steering, chat_of
from core.text.formatting import until_words
from core.types import Message


class Place:
    """The mode, the threshold and the pause of every chat. Without `steering` the configuration alone counts."""

    def __init__(self, settings: GateSettings, steering: Steering | None = None) -> None:
        self._settings = settings
        self._steering = steering

    def adopt(self, settings: GateSettings) -> None:
        """Go by other settings from now on."""
        self._settings = settings

    async def look(self) -> None:
        """See what commands have set; comes before every other question. Raises `StoreError`."""
        if self._steering:
            await self._steering.load()

    def against(self, message: Message) -> str:
        """Return why the bot must not speak in the message's chat, or nothing."""
        return self.closed(message) or (off(message) if self.is_off(message) else self.paused(message))

    def closed(self, message: Message) -> str:
        """Return why the bot is not there for this chat at all, or nothing."""
        settings, chat = self._settings, chat_of(message)
        if message.private and not settings.private:
            return "private chats are switched off (gate.private)"
        if not message.private and settings.chats and chat not in settings.chats:
            return f"{chat} is not among gate.chats"
        return ""

    def is_off(self, message: Message) -> bool:
        """Say whether the bot is switched off in the chat."""
        return self.mode(message) == "off"

    def paused(self, message: Message) -> str:
        """Return that the chat is paused, and until when, or nothing."""
        until = self._steering.paused(chat_of(message)) if self._steering else ""
        return f"{chat_of(message)} is paused {until_words(until)} (/pause)" if until else ""

    def mode(self, message: Message) -> GateMode:
        """Return the chat's mode."""
        chat = chat_of(message)
        set_here = self._steering.mode(chat) if self._steering else None
        return set_here or self._settings.mode_of(chat, private=message.private)

    def threshold(self, message: Message) -> float:
        """Return the chat's threshold."""
        chat = chat_of(message)
        set_here = self._steering.threshold(chat) if self._steering else None
        return self._settings.threshold_of(chat) if set_here is None else set_here


def off(message: Message) -> str:
    """Return the reason of the silence in a chat where the bot is switched off."""
    return f"{chat_of(message)} is switched off (gate.mode)"
