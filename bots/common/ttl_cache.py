"""Answers of a platform that are remembered for a moment."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class TtlCache(Generic[Value]):
    """Values by key, each for `ttl_s` seconds; at most `limit` of them."""

    def __init__(self, ttl_s: float, limit: int) -> None:
        self._ttl_s = ttl_s
        self._limit = limit
        self._values: dict[str, tuple[float, Value]] = {}

    async def get(self, key: str, fetch: Callable[[], Awaitable[Value]]) -> Value:
        """Return the value of a key, fetched where it is unknown or too old. Raises what `fetch` raises."""
        if key in self._values and time.monotonic() - self._values[key][0] < self._ttl_s:
            return self._values[key][1]
        value = await fetch()
        if len(self._values) >= self._limit:
            self._values.clear()
        self._values[key] = (time.monotonic(), value)
        return value
