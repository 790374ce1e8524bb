"""Why files are unusable, by the id of their content: checked once, because content under an id never changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import aclosing
from pathlib import Path

from core.observability.logs import get_logger
from knowledge.sources.common.documents import unusable_reason
from knowledge.sources.common.state_files import read_json, write_atomically
from knowledge.sources.git.command import Git

# Raise it when the rules for what can be used change.
_FORMAT = 1
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_MAX_LFS_POINTER_BYTES = 1024


class BlobCheckCache:
    """The check results of one source's blobs, kept in a file between refreshes."""

    def __init__(self, name: str, file: Path) -> None:
        self._name = name
        self._file = file
        self._reasons: dict[str, str] | None = None

    async def check(self, git: Git, blobs: Collection[str], binary_blobs: Collection[str]) -> Mapping[str, str]:
        """Return why each blob is unusable, or an empty text; `binary_blobs` may be binary. Missing blobs are left out.

        Raises `GitError` when the repository is damaged.
        """
        cached = await asyncio.to_thread(self._read) if self._reasons is None else self._reasons
        keys = {blob: f"{blob}+" if blob in binary_blobs else blob for blob in blobs}
        reasons = {key: cached[key] for key in keys.values() if key in cached}
        async with aclosing(git.blobs(sorted(blob for blob, key in keys.items() if key not in reasons))) as contents:
            async for blob, data in contents:
                reasons[keys[blob]] = blob_unusable_reason(data, allow_binary=blob in binary_blobs)
        if reasons != cached:
            await asyncio.to_thread(self._write, reasons)
        self._reasons = reasons
        return {blob: reasons[key] for blob, key in keys.items() if key in reasons}

    async def clear(self) -> None:
        """Look at everything again the next time."""
        self._reasons = {}
        await asyncio.to_thread(self._write, {})

    def _read(self) -> dict[str, str]:
        try:
            data = read_json(self._file)
            if data["format"] != _FORMAT:
                return {}
            return {str(key): str(reason) for reason, keys in data["faults"].items() for key in keys}
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            # Never written, or damaged: everything is looked at again.
            return {}

    def _write(self, reasons: Mapping[str, str]) -> None:
        keys_by_reason: dict[str, list[str]] = {}
        for key, reason in reasons.items():
            keys_by_reason.setdefault(reason, []).append(key)
        try:
            write_atomically(self._file, json.dumps({"format": _FORMAT, "faults": keys_by_reason}))
        except OSError as error:
            get_logger(__name__).warning("source.not_remembered", source=self._name, error=str(error))


def blob_unusable_reason(data: bytes, *, allow_binary: bool) -> str:
    """Return why content cannot be used, or an empty text."""
    if len(data) <= _MAX_LFS_POINTER_BYTES and data.startswith(_LFS_POINTER):
        return "LFS pointer"
    return unusable_reason(data, allow_binary=allow_binary)
