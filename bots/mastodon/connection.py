"""Mastodon's intervals."""

from __future__ import annotations

from dataclasses import dataclass

from bots.common.connection import Intervals

# The longest pause that the server may ask for: its limits are counted over 5 and 30 minutes.
MAX_RETRY_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class MastodonIntervals(Intervals):
    """All intervals in seconds.

    A stream sends a sign of life every 15 s, so that one that is silent for `silence_s` is dead. Notifications are read
    when the stream announces one, and at least every `read_s`. `timeout_s` bounds a call.
    """

    silence_s: float = 45.0
    read_s: float = 120.0
    timeout_s: float = 20.0
