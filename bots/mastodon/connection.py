"""Mastodon's intervals, and what the status of a response means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from bots.common.connection import Intervals, NotAllowed, Refused, RetryLater, TokenRefused, Unreachable
from core.errors import MessageDeleted, PlatformError
from core.runtime.retry_after import read_retry_after

# The longest pause that the server may ask for: its limits are counted over 5 and 30 minutes.
MAX_RETRY_AFTER_S = 3600.0
DEFAULT_WAIT_S = 60.0
MAX_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class MastodonIntervals(Intervals):
    """All intervals in seconds.

    A stream sends a sign of life every 15 s, so that one that is silent for `silence_s` is dead. Notifications are read
    when the stream announces one, and at least every `read_s`. `timeout_s` bounds a call.
    """

    silence_s: float = 45.0
    read_s: float = 120.0
    timeout_s: float = 20.0


def to_platform_error(call: str, status: int, headers: Mapping[str, str], reason: str) -> PlatformError:
    """Return the error that a response means; `reason` is what the server says."""
    said = f"{call} was answered with status {status}: {reason[:MAX_REASON_CHARS] or 'no reason given'}"
    if 300 <= status < 400:
        host = urlsplit(headers.get("Location", "")).netloc
        return PlatformError(f"mastodon.url redirects to {host or 'another address'}: write that address there")
    if status == 429 or (status == 503 and "Retry-After" in headers):
        wait_s = read_retry_after(headers, max_s=MAX_RETRY_AFTER_S)
        return RetryLater(said, DEFAULT_WAIT_S if wait_s is None else wait_s)
    if status >= 500 or status == 408:
        return Unreachable(said)
    classes: dict[int, type[PlatformError]] = {
        401: TokenRefused,
        403: NotAllowed,
        404: MessageDeleted,
        410: MessageDeleted,
        422: Refused,
    }
    return classes.get(status, PlatformError)(said)
