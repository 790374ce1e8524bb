"""How many requests a live source may still get today, counted over restarts and over processes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

from core.errors import SourceError

# "2026-11-20 00000123": always as long, so that a count is replaced in one write.
DIGITS = 8


class Allowance:
    """The requests of one source from midnight to midnight, where the machine is. The count is kept in `file`."""

    def __init__(self, name: str, file: Path, limit: int, today: Callable[[], date] = date.today) -> None:
        self._name = name
        self._file = file
        self._limit = limit
        self._today = today

    async def take(self, requests: int) -> None:
        """Count requests that are about to be sent. Raises `SourceError`, and counts none, when so many are not left.

        A count that cannot be kept is a `SourceError` too: nobody knows then how many were sent.
        """
        await asyncio.to_thread(self._take, requests)

    def _take(self, requests: int) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as count:
                # Held for as long as two system calls take; who closes the file lets go of it.
                fcntl.flock(count, fcntl.LOCK_EX)
                sent = self._sent(count.read()) + requests
                if sent > self._limit:
                    raise SourceError(
                        f"source {self._name}: its requests_per_day ({self._limit}) are used up until midnight"
                    )
                count.seek(0)
                count.write(f"{self._today().isoformat()} {sent:0{DIGITS}}".encode())
        except OSError as fault:
            raise SourceError(
                f"source {self._name}: its requests cannot be counted in {self._file}: {fault.strerror or fault}"
            ) from fault

    def _sent(self, stored: bytes) -> int:
        day, _, sent = stored.decode("ascii", "replace").partition(" ")
        return int(sent) if day == self._today().isoformat() and sent.isdecimal() else 0
