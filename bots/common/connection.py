"""The errors that every platform's calls can raise, and retrying through an outage, logged once at its start and end.

PlatformError
├── PlatformUnavailable  (in `core/errors.py`) a reply that fails with it is delivered later, from the journal
│   ├── TokenRefused     the credential is wrong or was revoked: nothing works until it is replaced
│   ├── Unreachable      no answer, or one that makes no sense: try again
│   └── RetryLater       too fast: try again after `seconds`
├── NotAllowed           the bot may not write in this chat
└── Refused              this text, form or place is not taken: another may be
    └── NotEditable      the message is there but cannot be edited any more
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from core.errors import JournalError, PlatformError, PlatformUnavailable
from core.observability.logs import get_logger
from core.ports import NOT_CONNECTED, ConnectionStatus

_log = get_logger(__name__)

Result = TypeVar("Result")

# EX_NOPERM of sysexits.h: a platform refuses the bot, and will until somebody changes something. The systemd unit
# starts the daemon again after other failures, but not after this one.
EXIT_REFUSED = 77


class TokenRefused(PlatformUnavailable):
    """The credential is wrong, is of no use or was revoked."""

    exit_code = EXIT_REFUSED


class Unreachable(PlatformUnavailable):
    """The platform could not be reached, or its answer made no sense."""


class RetryLater(PlatformUnavailable):
    """The platform took nothing and wants a pause of `seconds` before this call."""


class NotAllowed(PlatformError):
    """The bot was removed from the place, blocked, or may not write there."""


class Refused(PlatformError):
    """The platform does not take this call as it is: another text, form or place may do."""


class NotEditable(Refused):
    """A message can no longer be edited."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals in seconds.

    `retry_s` is the first pause after a failure and `max_retry_s` the longest. `retry_timeout_s` bounds how long a
    final reply is retried before it waits in the journal for its next turn, `shutdown_grace_s` how long a message that
    is being posted may delay a shutdown.
    """

    retry_s: float = 1.0
    max_retry_s: float = 60.0
    retry_timeout_s: float = 30.0
    shutdown_grace_s: float = 4.0

    def backoff(self, failure_count: int) -> float:
        """Return the seconds to wait after so many failures in a row: doubling, with jitter, bounded."""
        max_delay_s = min(self.max_retry_s, self.retry_s * 2.0 ** min(failure_count - 1, 16))
        return max_delay_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


class RetryLoop:
    """Waits longer after each failure of an activity, and logs the first failure and the recovery.

    The log events are `{platform}.{activity}_stopped` and `{platform}.{activity}_resumed`; `hint` returns what happens
    to messages in the meantime. `connection` is updated too, where messages arrive this way.
    """

    def __init__(
        self,
        platform: str,
        activity: str,
        intervals: Intervals,
        hint: Callable[[Exception], str],
        connection: ConnectionStatus | None = None,
    ) -> None:
        self._event = f"{platform}.{activity}"
        self._intervals = intervals
        self._hint = hint
        self._connection = connection
        self._failure_count = 0
        self._last_error_type: type[Exception] | None = None

    async def wait(self, error: Exception) -> None:
        """Log the failure unless the last one was of the same type, and wait."""
        self._failure_count += 1
        if self._connection:
            self._connection.mark_disconnected(_describe_problem(error))
        wait_s = error.seconds if isinstance(error, RetryLater) else self._intervals.backoff(self._failure_count)
        if type(error) is not self._last_error_type:
            self._last_error_type = type(error)
            hint = self._hint(error)
            rounded_wait_s = round(wait_s, 2)
            _log.error(f"{self._event}_stopped", error=str(error), hint=hint, retry_in_s=rounded_wait_s)
        await asyncio.sleep(wait_s)

    def mark_recovered(self) -> None:
        """Note that the activity works."""
        if self._connection:
            self._connection.mark_connected()
        if self._failure_count:
            _log.info(f"{self._event}_resumed", failures=self._failure_count)
        self._failure_count = 0
        self._last_error_type = None

    async def retry_until_ok(
        self, call: Callable[[], Awaitable[Result]], errors: tuple[type[Exception], ...] = (RetryLater, Unreachable)
    ) -> Result:
        """Repeat a call until it raises none of these errors: the network may come up later than the bot."""
        while True:
            try:
                result = await call()
            except errors as error:
                await self.wait(error)
            else:
                self.mark_recovered()
                return result


def _describe_problem(error: Exception) -> str:
    """Return why no messages arrive, to follow the platform's name."""
    if isinstance(error, PlatformError):
        return NOT_CONNECTED
    cause = "the journal cannot be written" if isinstance(error, JournalError) else "one cannot be recorded"
    return f"takes no messages: {cause}"
