"""How long a server asks to wait: Retry-After, and the headers of rate limits that stand in for it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# A wrong clock, or an absurd value, must not stop anything for good.
MAX_WAIT_S = 86_400.0
# A reset beyond this many seconds is a point in time: GitHub and GitLab send one, the IETF's draft a span.
MIN_EPOCH_S = 1e9
MIN_EPOCH_MS = 1e12
# The headers that say when a rate limit is reset, the clearest one first.
RESET_HEADERS = ("x-ratelimit-reset-after", "ratelimit-reset", "x-ratelimit-reset")

# "1m30s", "250ms", "20 seconds": how Go, JSON's protocol buffers and people write a span.
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_UNIT = r"(?:milliseconds?|minutes?|seconds?|hours?|mins?|secs?|ms|[smh])(?![a-z])"
_SPAN = rf"(?:{_NUMBER}\s{{0,3}}{_UNIT},?\s{{0,3}}){{1,4}}"
_SPAN_PART = re.compile(rf"({_NUMBER})\s{{0,3}}(ms|mil|[smh])")
_UNIT_S = {"ms": 0.001, "mil": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_IS_SPAN = re.compile(_SPAN, re.IGNORECASE)
_WISH = re.compile(rf"(?:try again|retry|retrying|wait)\s(?:(?:in|after|for)\s)?({_SPAN})", re.IGNORECASE)
# `RateLimit: "default";r=0;t=30`, and `limit=10, remaining=0, reset=30` of an earlier draft.
_RATE_LIMIT_RESET = re.compile(r"[;,\s](?:t|reset)=(\d{1,12})(?![\d.])")


def read_retry_after(headers: Mapping[str, str], words: str = "", *, max_s: float = MAX_WAIT_S) -> float | None:
    """Return the seconds that a response asks to wait, from 0 to `max_s`; None where it does not say.

    By its headers, or else in the `words` of its body.

    A point in time is compared with the response's own Date, so that our clock may be wrong.

    >>> read_retry_after({"Retry-After": "2.5"}), read_retry_after({"retry-after-ms": "300"}), read_retry_after({})
    (2.5, 0.3, None)
    >>> read_retry_after({}, "Limit reached. Please try again in 7.66s.")
    7.66
    >>> read_retry_after({"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:28:09 GMT"})
    9.0
    """
    values = {str(name).lower(): str(value).strip() for name, value in dict(headers).items()}
    date = parse_date(values.get("date", ""))
    now = time.time() if date is None else date
    milliseconds = _parse_number(values.get("retry-after-ms", ""))
    wait_s = _parse_wait(values.get("retry-after", ""), now) if milliseconds is None else milliseconds / 1000
    wait_s = _read_reset(values, now) if wait_s is None else wait_s
    if wait_s is None and (wish := _WISH.search(words)):
        wait_s = _parse_wait(wish[1].rstrip(" ,"), now)
    return None if wait_s is None else min(max(0.0, wait_s), max_s)


def parse_retry_after(value: str) -> float | None:
    """Return the seconds that one value asks to wait, from 0 to a day; None for what is no span and no date.

    >>> parse_retry_after("2.5"), parse_retry_after("1m30s"), parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (2.5, 90.0, 0.0)
    """
    wait_s = _parse_wait(value, time.time())
    return None if wait_s is None else min(max(0.0, wait_s), MAX_WAIT_S)


def parse_date(value: str) -> float | None:
    """Return an HTTP date, in any of its three forms, or an ISO date in seconds since 1970; None for what is none.

    >>> parse_date("Wed, 21 Oct 2015 07:28:00 GMT"), parse_date("2015-10-21"), parse_date("soon")
    (1445412480.0, 1445385600.0, None)
    """
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            date = parse(value)
            # The oldest form has no zone, and means UTC.
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError, IndexError):
            continue
    return None


def _parse_wait(value: str, now: float) -> float | None:
    value = value.strip()
    if _IS_SPAN.fullmatch(value):
        return sum(float(number) * _UNIT_S[unit] for number, unit in _SPAN_PART.findall(value.lower()))
    seconds = _parse_number(value)
    date = parse_date(value) if seconds is None else None
    return seconds if date is None else date - now


def _read_reset(values: Mapping[str, str], now: float) -> float | None:
    """Return in how many seconds a rate limit is reset."""
    rate_limit = _RATE_LIMIT_RESET.search(values.get("ratelimit", ""))
    if rate_limit is not None:
        return float(rate_limit[1])
    wait_s = next(
        (wait for name in RESET_HEADERS if (wait := _parse_wait(values.get(name, ""), now)) is not None), None
    )
    if wait_s is None or wait_s < MIN_EPOCH_S:
        return wait_s
    return (wait_s / 1000 if wait_s >= MIN_EPOCH_MS else wait_s) - now


def _parse_number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
