"""Results of paid calls, kept in a file: an interrupted comparison continues where it stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import UsageError
from core.runtime.data_dir import make_data_dir


def make_key(*parts: object) -> str:
    """Return the key of what was made from these parts: JSON values or texts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class ResultCache:
    """A JSON Lines file of results by key. A line that was cut off by a kill is skipped, and written again later."""

    def __init__(self, path: Path, values: dict[str, Mapping[str, Any]]) -> None:
        self._path = path
        self._values = values
        self._lock = asyncio.Lock()

    @classmethod
    def open(cls, path: Path, *, is_fresh: bool = False) -> ResultCache:
        """Read the file, if there is one; `is_fresh` leaves unread what it has. Blocking. Raises `UsageError`."""
        values: dict[str, Mapping[str, Any]] = {}
        try:
            make_data_dir(path.parent)
            lines = [] if is_fresh or not path.exists() else path.read_text("utf-8", errors="replace").split("\n")
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
        for line in lines:
            try:
                record = json.loads(line)
                values[record["key"]] = record["value"]
            except (ValueError, TypeError, KeyError):
                continue
        return cls(path, values)

    def discard(self) -> None:
        """Delete what is kept. Blocking. Raises `UsageError` when the file cannot be deleted."""
        self._values.clear()
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{self._path} cannot be deleted: {error.strerror or error}") from error

    def get(self, key: str) -> Mapping[str, Any] | None:
        """Return a kept result, or None."""
        return self._values.get(key)

    async def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a result. Raises `UsageError` when the file cannot be written."""
        self._values[key] = value
        async with self._lock:
            await asyncio.to_thread(self._append, json.dumps({"key": key, "value": value}, ensure_ascii=False))

    def _append(self, line: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                # The line break comes first: the last line may have been cut off.
                file.write(f"\n{line}\n")
        except OSError as error:
            raise UsageError(f"{self._path} cannot be written: {error.strerror or error}") from error
