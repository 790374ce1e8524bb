"""The header Retry-After, by which a server says how long to wait."""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime


def parse_retry_after(value: str) -> float | None:
    """Return the seconds that a Retry-After header asks to wait, 0 and more; None for what is neither number nor date.

    >>> parse_retry_after("2.5"), parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), parse_retry_after("soon")
    (2.5, 0.0, None)
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
