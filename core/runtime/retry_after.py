"""How long a server asks to wait: the header Retry-After and its relatives, and what a body says instead."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_UNIT = r"(?:milliseconds?|minutes?|seconds?|hours?|mins?|secs?|ms|[smh])(?![a-z])"
_DURATION = rf"(?:{_NUMBER}\s{{0,3}}{_UNIT},?\s{{0,3}}){{1,4}}"
_DURATION_PART = re.compile(rf"({_NUMBER})\s{{0,3}}(ms|mil|[smh])")
_UNIT_S = {"ms": 0.001, "mil": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_IS_DURATION = re.compile(_DURATION, re.IGNORECASE)
_WISH = re.compile(rf"(?:try again|retry|retrying|wait)\s(?:(?:in|after|for)\s)?({_DURATION})", re.IGNORECASE)


def parse_retry_after(value: str) -> float | None:
    """Return the seconds that a Retry-After header asks to wait, 0 and more; None for what is neither number nor date.

    Durations with units are read as well: bodies of responses have them.

    >>> parse_retry_after("2.5"), parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), parse_retry_after("soon")
    (2.5, 0.0, None)
    >>> parse_retry_after("1m2.5s"), parse_retry_after("250ms"), parse_retry_after("20 seconds")
    (62.5, 0.25, 20.0)
    """
    value = value.strip()
    try:
        seconds = float(value)
    except ValueError:
        if _IS_DURATION.fullmatch(value):
            parts = _DURATION_PART.findall(value.lower())
            return sum(float(number) * _UNIT_S[unit] for number, unit in parts)
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def read_retry_after(headers: Mapping[str, str], words: str = "") -> float | None:
    """Return the seconds that a response asks to wait: by its headers (names in lower case), or else in its words.

    >>> read_retry_after({"retry-after-ms": "1500"}), read_retry_after({}, "Limit reached. Please try again in 7.66s.")
    (1.5, 7.66)
    """
    if milliseconds := headers.get("retry-after-ms"):
        seconds = parse_retry_after(f"{milliseconds.strip()}ms")
        if seconds is not None:
            return seconds
    if (seconds := parse_retry_after(headers.get("retry-after", ""))) is not None:
        return seconds
    wish = _WISH.search(words)
    return parse_retry_after(wish[1].rstrip(" ,")) if wish else None
