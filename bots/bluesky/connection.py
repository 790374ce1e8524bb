"""Bluesky's intervals, and what the error of a response means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bots.common.connection import Intervals, Refused, TokenRefused, Unreachable
from bots.common.json_client import MAX_REASON_CHARS, to_platform_error
from core.errors import MessageDeleted, PlatformError

# The longest pause that a server may ask for: its limits are counted over five minutes, an hour and a day.
MAX_WAIT_S = 86_400.0
# By their names: most have status 400.
_CLASSES: Mapping[str, type[PlatformError]] = {
    "ExpiredToken": TokenRefused,
    "InvalidToken": TokenRefused,
    "AuthFactorTokenRequired": TokenRefused,
    "AccountTakedown": TokenRefused,
    "AccountDeactivated": TokenRefused,
    "NotFound": MessageDeleted,
    "RecordNotFound": MessageDeleted,
}


class RecordExists(Refused):
    """A record with this key is there already."""


@dataclass(frozen=True, slots=True)
class BlueskyIntervals(Intervals):
    """All intervals in seconds.

    Notifications and feeds are each read every `poll_s`: a server takes 3,000 calls in five minutes, so about fifteen
    feeds. `timeout_s` bounds a call.
    """

    poll_s: float = 2.0
    timeout_s: float = 20.0


def to_bluesky_error(call: str, status: int, headers: Mapping[str, str], values: Mapping[str, Any]) -> PlatformError:
    """Return the error that a response means, whose body has these values."""
    name = str(values.get("error") or "")
    reason = f"{name} {values.get('message') or ''}".strip()
    said = f"{call} was answered with status {status}: {reason[:MAX_REASON_CHARS]}"
    if name == "InvalidSwap":
        return RecordExists(said)
    if 400 <= status < 500 and name in _CLASSES:
        return _CLASSES[name](said)
    if status in (400, 413):
        return Refused(said)
    if status in (404, 410):
        # What is gone is said by name. Without one it was a proxy, or a server that starts.
        return Unreachable(said)
    return to_platform_error("bluesky.url", call, status, headers, reason, max_wait_s=MAX_WAIT_S)
