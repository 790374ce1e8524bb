"""Outages of Discord, and what becomes of what was missed."""

from __future__ import annotations

from dataclasses import dataclass

from bots.common.connection import (
    Intervals,
    NotAllowed,
    RetryLater,
    RetryLoop,
    TokenRefused,
    Unreachable,
)
from core.errors import PlatformError
from core.ports import ConnectionStatus


@dataclass(frozen=True, slots=True)
class DiscordIntervals(Intervals):
    """All intervals in seconds. The defaults keep within the limits of Discord's own servers.

    A channel takes about five messages or edits in five seconds from one bot; a typing notice fades after ten, and so
    long, `typed_s`, somebody else's counts.
    `identify_s` is the pause before a session is begun anew, `steady_s` how long a connection must have lasted so that
    the next one is opened without a pause, `acknowledge_s` how long a slash command waits for its acknowledgement to
    succeed, `unanswered_s` after which one that nobody answers is cleared away.
    """

    edit_s: float = 1.3
    typing_s: float = 8.0
    typing_ttl_s: float = 10.0
    max_retry_s: float = 30.0
    identify_delay_s: float = 5.0
    stable_after_s: float = 10.0
    acknowledge_timeout_s: float = 2.5
    unanswered_timeout_s: float = 840.0


__all__ = [
    "AlreadyAcknowledged",
    "GatewayRefused",
    "IntentRefused",
    "InteractionExpired",
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


class InteractionExpired(PlatformError):
    """A slash command can no longer be answered by its token, which lives 15 minutes."""


class AlreadyAcknowledged(PlatformError):
    """A slash command was acknowledged before: the answer to the first try was lost."""


# No event of Discord's: a connection ended, and another one is being made.
INTERRUPTED = "interrupted"


def make_retry_loop(
    activity: str, intervals: DiscordIntervals, connection: ConnectionStatus | None = None
) -> RetryLoop:
    """Return a row of failures of this kind, to be waited out."""
    return RetryLoop("discord", activity, intervals, _hint, connection)


def _hint(error: Exception) -> str:
    if isinstance(error, PlatformError):
        return "retrying; what was missed is read afterwards"
    return "a message could not be made safe"
