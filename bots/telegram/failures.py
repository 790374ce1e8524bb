"""What can go wrong with one call to the Bot API, told apart by what to do about it.

PlatformError
├── TokenRefused      the token is wrong or was revoked: nothing will work
├── Unreachable       no answer, or one that makes no sense: try again
├── RetryLater        too fast: try again after `seconds`
├── Conflict          another poller or a webhook takes the updates
├── NotAllowed        the bot may not write in this chat
├── MarkupRejected    the entities cannot be parsed: send it as plain text
├── NotModified       the message already looks like that
├── NotEditable       the message is there but cannot be edited any more
├── Moved             the group became a supergroup with the id `chat_id`
└── MessageGone       (of core.errors) the question, its topic or the bot's reply was deleted
"""

from __future__ import annotations

from bots.posting.failures import NotAllowed, RetryLater, TokenRefused, Unreachable
from core.errors import PlatformError

__all__ = [
    "Conflict",
    "MarkupRejected",
    "Moved",
    "NotAllowed",
    "NotEditable",
    "NotModified",
    "RetryLater",
    "TokenRefused",
    "Unreachable",
]


class Conflict(PlatformError):
    """Somebody else takes this bot's updates: a second poller, or a webhook."""


class MarkupRejected(PlatformError):
    """Telegram cannot parse the entities of a text."""


class NotModified(PlatformError):
    """An edit changes nothing."""


class NotEditable(PlatformError):
    """A message can no longer be edited."""


class Moved(PlatformError):
    """A group was upgraded to a supergroup and has the id `chat_id` now."""

    def __init__(self, message: str, chat_id: int) -> None:
        super().__init__(message)
        self.chat_id = chat_id
