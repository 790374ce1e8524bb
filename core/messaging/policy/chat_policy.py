"""Where the bot may speak: by the configuration, and by what commands have set above it."""

from __future__ import annotations

from core.settings.messaging import GateMode
from core.storage.overrides import LiveSettings, get_chat_name
from core.text.formatting import format_until
from core.types import Message, Skip, SkipReason, skip


class ChatPolicy:
    """The mode, the threshold and the pause of every chat."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live

    async def refresh(self) -> None:
        """See what commands have set; comes before every other question. Raises `StoreError`."""
        await self._live.load()

    def block_reason(self, message: Message) -> Skip | None:
        """Return why the bot must not speak in the message's chat, or None."""
        return self.excluded_reason(message) or (
            disabled_reason(message) if self.is_off(message) else self.paused_reason(message)
        )

    def excluded_reason(self, message: Message) -> Skip | None:
        """Return why the bot is not there for this chat at all, or None."""
        settings, chat = self._live.settings.gate, get_chat_name(message)
        if message.private and not settings.private:
            return skip(SkipReason.PRIVATE_CHATS_OFF)
        if not message.private and settings.chats and chat not in settings.chats:
            return skip(SkipReason.CHAT_NOT_LISTED, chat=chat)
        return None

    def is_off(self, message: Message) -> bool:
        """Say whether the bot is switched off in the chat."""
        return self.mode(message) == "off"

    def paused_reason(self, message: Message) -> Skip | None:
        """Return that the chat is paused, and until when, or None."""
        until = self._live.paused_until(get_chat_name(message))
        return skip(SkipReason.PAUSED, chat=get_chat_name(message), until=format_until(until)) if until else None

    def mode(self, message: Message) -> GateMode:
        """Return the chat's mode."""
        return self._live.mode(get_chat_name(message), private=message.private)

    def threshold(self, message: Message) -> float:
        """Return the chat's threshold."""
        return self._live.threshold(get_chat_name(message))


def disabled_reason(message: Message) -> Skip:
    """Return the reason of the silence in a chat where the bot is switched off."""
    return skip(SkipReason.CHAT_OFF, chat=get_chat_name(message))
