"""Telegram's intervals, and its errors besides those of `bots/common/connection.py`, by what to do about them.

Importing this module imports nothing of aiogram.
"""

from __future__ import annotations

from dataclasses import dataclass

from bots.common.connection import Intervals, Refused
from core.errors import PlatformError


@dataclass(frozen=True, slots=True)
class TelegramIntervals(Intervals):
    """All intervals in seconds. The defaults keep within the limits of Telegram's own servers.

    A group takes about 20 messages and edits a minute from one bot, which `edit_s` allows for; drafts in
    private chats are cheaper. The typing notice fades after 5 s.
    """

    poll_s: int = 25
    edit_s: float = 3.0
    draft_s: float = 1.0
    typing_s: float = 4.5


class Conflict(PlatformError):
    """Somebody else takes this bot's updates: a second poller, or a webhook."""


class MarkupRejected(Refused):
    """Telegram cannot parse the entities of a text: send it without."""


class RichRefused(PlatformError):
    """A rich message is not taken: another message may be. `is_unknown`: the server knows of no rich messages."""

    def __init__(self, message: str, *, is_unknown: bool = False) -> None:
        super().__init__(message)
        self.is_unknown = is_unknown


class NotModified(PlatformError):
    """An edit changes nothing: the message looks like that already."""


class ChatMigrated(PlatformError):
    """A group was upgraded to a supergroup and has the id `chat_id` now."""

    def __init__(self, message: str, chat_id: int) -> None:
        super().__init__(message)
        self.chat_id = chat_id


@dataclass(slots=True)
class ServerCapabilities:
    """The capabilities of the Bot API server, as far as they are known."""

    has_rich_messages: bool = True
