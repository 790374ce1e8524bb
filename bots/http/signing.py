"""Signatures in both directions (HMAC-SHA256 over the time and the body), and protection against replayed events."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict

TIMESTAMP = "X-Kimas-Timestamp"
SIGNATURE = "X-Kimas-Signature"
# A recorded request cannot be replayed after this time.
MAX_CLOCK_SKEW_S = 300
OWN_CLOCK = "this machine's clock"

# The chat and the id of a message.
EventKey = tuple[str, str]


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a body sent at a time (seconds since 1970, as decimal digits)."""
    payload = timestamp.encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), payload, hashlib.sha256).hexdigest()


def verify(secret: str, timestamp: str, signature: str, body: bytes, now: float) -> str:
    """Return what is wrong with a signed request, or an empty string."""
    if not timestamp or not signature:
        return f"the headers {TIMESTAMP} and {SIGNATURE} are missing"
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return f"{TIMESTAMP} is not the seconds since 1970"
    expected = sign(secret, timestamp, body)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
        return f"{SIGNATURE} does not fit the body, the time and the secret"
    skew_s = int(timestamp) - now
    if abs(skew_s) > MAX_CLOCK_SKEW_S:
        direction = "ahead of" if skew_s > 0 else "behind"
        allowed = f"{MAX_CLOCK_SKEW_S} s are allowed"
        return f"{TIMESTAMP} is {abs(skew_s):.0f} s {direction} {OWN_CLOCK}; {allowed}"
    return ""


class IdempotencyKeys:
    """The events of the last `window_s` seconds. An older one is refused for its timestamp."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._expiry_times: OrderedDict[EventKey, float] = OrderedDict()

    def contains(self, key: EventKey, now: float) -> bool:
        """Return whether an event was noted."""
        while self._expiry_times and next(iter(self._expiry_times.values())) < now:
            self._expiry_times.popitem(last=False)
        return key in self._expiry_times

    def add(self, key: EventKey, now: float) -> None:
        """Note an event that is safe: one that is not may come again."""
        self._expiry_times[key] = now + self._window_s
