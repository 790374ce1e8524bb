"""Discord's intervals, and its errors besides those of `bots/common/connection.py`, by what to do about them."""

from __future__ import annotations

from dataclasses import dataclass

from bots.common.connection import EXIT_REFUSED, Intervals, Refused, RetryLoop
from core.errors import PlatformError

# Not an event of Discord: a connection ended, and another one is being opened.
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class DiscordIntervals(Intervals):
    """All intervals in seconds. The defaults keep within the limits of Discord's own servers.

    A channel takes about five messages or edits in five seconds from one bot. A typing notice fades after ten seconds;
    somebody else's counts for `typing_ttl_s`. `identify_delay_s` is the pause before a new session. A connection that
    lasted `stable_after_s` is followed by the next one without a pause. `acknowledge_timeout_s` bounds the
    acknowledgement of a slash command; one that nobody answers is removed after `unanswered_timeout_s`.
    """

    edit_s: float = 1.3
    typing_s: float = 8.0
    typing_ttl_s: float = 10.0
    max_retry_s: float = 30.0
    identify_delay_s: float = 5.0
    stable_after_s: float = 10.0
    acknowledge_timeout_s: float = 2.5
    unanswered_timeout_s: float = 840.0


class IntentRefused(PlatformError):
    """The gateway refuses an intent that was not granted in the developer portal: connect without it."""


class GatewayRefused(PlatformError):
    """The gateway refuses the connection for good."""

    exit_code = EXIT_REFUSED


class ReplyRefused(Refused):
    """The bot may write in the channel but, without its history, not reply to a message: post without that."""


class InteractionExpired(PlatformError):
    """A slash command can no longer be answered by its token, which lives 15 minutes: write into the channel."""


class AlreadyAcknowledged(PlatformError):
    """A slash command was acknowledged before: the answer to the first try was lost."""


def make_retry_loop(activity: str, intervals: DiscordIntervals) -> RetryLoop:
    """Return the loop that waits out the failures of an activity."""
    return RetryLoop("discord", activity, intervals, hint)


def hint(error: Exception) -> str:
    """Return what happens to messages during an outage."""
    if isinstance(error, PlatformError):
        return "retrying; what was missed is read afterwards"
    return "a message could not be made safe"
