"""Caches of a platform's data: for a moment, or of the newest entries."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedDict(OrderedDict[Key, Value]):
    """The `limit` newest entries."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)


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

    def forget(self, key: str) -> None:
        """Fetch the value of a key anew the next time."""
        self._values.pop(key, None)
