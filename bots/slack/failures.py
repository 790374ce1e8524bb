"""What can go wrong with one call to Slack, told apart by what to do about it.

PlatformError
├── TokenRefused      a token or secret is wrong or was revoked: nothing will work
├── Unreachable       no answer, or one that makes no sense: try again
├── RetryLater        too fast: try again after `seconds`
├── NotAllowed        the bot may not write in this channel
├── Unavailable       this workspace, channel or set of scopes does not have the method: do without it
├── StreamOver        a streamed message takes no more: edit it instead
├── StillStreaming    a streamed message cannot be edited yet: stop the stream first
├── NotEditable       a message is there but cannot be edited any more
├── TooLate           what a person did can no longer be answered by a form
└── MessageGone       (of core.errors) the question, its thread or the bot's reply was deleted
"""

from __future__ import annotations

from bots.posting.failures import NotAllowed, RetryLater, TokenRefused, Unreachable
from core.errors import PlatformError

__all__ = [
    "NotAllowed",
    "NotEditable",
    "RetryLater",
    "StillStreaming",
    "StreamOver",
    "TokenRefused",
    "TooLate",
    "Unavailable",
    "Unreachable",
]


class Unavailable(PlatformError):
    """The workspace, the channel or the token's scopes do not have this method."""


class StreamOver(PlatformError):
    """A streamed message was closed: by Slack after some minutes, by a person, or because it is full."""


class StillStreaming(PlatformError):
    """A message cannot be edited while it is being streamed."""


class TooLate(PlatformError):
    """A form can no longer be opened: the moment after the command is over, or was used for one already."""


class NotEditable(PlatformError):
    """A message can no longer be edited."""
