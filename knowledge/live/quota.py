"""The daily request quota of a live source, counted across restarts and processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

from core.errors import SourceError
from core.runtime.locks import blocking_file_lock

# "2026-11-20 00000123": always the same length, so that one write replaces the count.
COUNT_DIGITS = 8


class DailyQuota:
    """The requests of one source from midnight to midnight, local time. The count is in `file`."""

    def __init__(self, name: str, file: Path, daily_limit: int, today: Callable[[], date] = date.today) -> None:
        self._name = name
        self._file = file
        self._daily_limit = daily_limit
        self._today = today

    async def reserve(self, request_count: int) -> None:
        """Count requests that are about to be sent. Raises `SourceError`, and counts none, when fewer are left.

        A count that cannot be written is a `SourceError`, too: nobody would know how many were sent.
        """
        await asyncio.to_thread(self._reserve, request_count)

    def _reserve(self, request_count: int) -> None:
        try:
            with (
                # Held for as long as two system calls take.
                blocking_file_lock(self._file.with_name(f"{self._file.name}.lock")),
                os.fdopen(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as counter_file,
            ):
                sent_count = self._parse_count(counter_file.read()) + request_count
                if sent_count > self._daily_limit:
                    raise SourceError(
                        f"source {self._name}: its requests_per_day ({self._daily_limit}) are used up until midnight"
                    )
                counter_file.seek(0)
                counter_file.write(f"{self._today().isoformat()} {sent_count:0{COUNT_DIGITS}}".encode())
        except OSError as error:
            raise SourceError(
                f"source {self._name}: its requests cannot be counted in {self._file}: {error.strerror or error}"
            ) from error

    def _parse_count(self, content: bytes) -> int:
        day, _, count = content.decode("ascii", "replace").partition(" ")
        return int(count) if day == self._today().isoformat() and count.isdecimal() else 0
