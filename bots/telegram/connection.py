"""Telegram's intervals and errors, told apart by what to do about them.

PlatformError
├── TokenRefused      the token is wrong or was revoked: nothing will work
├── Unreachable       no answer, or one that makes no sense: try again
├── RetryLater        too fast: try again after some seconds
├── Conflict          another poller or a webhook takes the updates
├── NotAllowed        the bot may not write in this chat
├── MarkupRejected    the entities cannot be parsed: send it as plain text
├── NotModified       the message already looks like that
├── NotEditable       the message is there but cannot be edited any more
├── ChatMigrated      the group became a supergroup with the id `chat_id`
└── MessageDeleted    (of core.errors) the question, its topic or the bot's reply was deleted

Importing this module imports nothing of aiogram.
"""

from __future__ import annotations

from dataclasses import dataclass

from bots.common.connection import Intervals
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


class MarkupRejected(PlatformError):
    """Telegram cannot parse the entities of a text."""


class NotModified(PlatformError):
    """An edit changes nothing."""


class ChatMigrated(PlatformError):
    """A group was upgraded to a supergroup and has the id `chat_id` now."""

    def __init__(self, message: str, chat_id: int) -> None:
        super().__init__(message)
        self.chat_id = chat_id
