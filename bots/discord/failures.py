"""What can go wrong between us and Discord, told apart by what to do about it.

PlatformError
├── TokenRefused      the token is wrong or was reset: nothing will work
├── IntentRefused     a privileged intent that the developer portal does not grant: go on without it
├── GatewayRefused    the gateway does not want us, and trying again would not help
├── Unreachable       no answer, or one that makes no sense: try again
├── RetryLater        too fast: try again after `seconds`
├── NotAllowed        the bot may not read or write in this channel
├── ReplyRefused      the channel takes messages but no replies to a message
├── Acknowledged      the slash command was acknowledged before
├── Expired           the token of a slash command no longer works: write into the channel instead
└── MessageGone       (of core.errors) the question, its channel or the bot's reply was deleted
"""

from __future__ import annotations

from bots.posting.failures import NotAllowed, RetryLater, TokenRefused, Unreachable
from core.errors import PlatformError

__all__ = [
    "Acknowledged",
    "Expired",
    "GatewayRefused",
    "IntentRefused",
    "NotAllowed",
    "ReplyRefused",
    "RetryLater",
    "TokenRefused",
    "Unreachable",
]


class IntentRefused(PlatformError):
    """The gateway refuses an intent that was not granted in the developer portal."""


class GatewayRefused(PlatformError):
    """The gateway refuses the connection for good."""


class ReplyRefused(PlatformError):
    """The bot may write in the channel but, without its history, not reply to a message."""


class Expired(PlatformError):
    """A slash command can no longer be answered by its token, which lives 15 minutes."""


class Acknowledged(PlatformError):
    """A slash command was acknowledged before: the answer to the first try was lost."""
