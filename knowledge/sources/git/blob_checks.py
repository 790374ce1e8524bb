"""What is wrong with files, by the id of their content: looked at once, for content under an id never changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import aclosing
from pathlib import Path

from core.observability.logs import logger
from knowledge.sources.common.documents import defect
from knowledge.sources.git.command import Git
from knowledge.sources.git.state import write_atomically

# Raise it when the rules for what can be used change.
_FORMAT = 1
_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTER_BYTES = 1024


class LookedAt:
    """What was found out about the blobs of one source, kept in a file from one refresh to the next."""

    def __init__(self, name: str, file: Path) -> None:
        self._name = name
        self._file = file
        self._faults: dict[str, str] | None = None

    async def faults(self, git: Git, blobs: Collection[str], packed: Collection[str]) -> Mapping[str, str]:
        """Return what is wrong with each blob, or an empty text; `packed` may be binary. Missing blobs are left out.

        Raises `GitFailure` when the repository is damaged.
        """
        known = await asyncio.to_thread(self._read) if self._faults is None else self._faults
        keys = {blob: f"{blob}+" if blob in packed else blob for blob in blobs}
        seen = {key: known[key] for key in keys.values() if key in known}
        async with aclosing(git.blobs(sorted(blob for blob, key in keys.items() if key not in seen))) as contents:
            async for blob, data in contents:
                seen[keys[blob]] = fault_of(data, packed=blob in packed)
        if seen != known:
            await asyncio.to_thread(self._write, seen)
        self._faults = seen
        return {blob: seen[key] for blob, key in keys.items() if key in seen}

    async def forget(self) -> None:
        """Look at everything again the next time."""
        self._faults = {}
        await asyncio.to_thread(self._write, {})

    def _read(self) -> dict[str, str]:
        try:
            kept = json.loads(self._file.read_text("utf-8"))
            if kept["format"] != _FORMAT:
                return {}
            return {str(key): str(fault) for fault, keys in kept["faults"].items() for key in keys}
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            # Never written, or damaged: everything is looked at again.
            return {}

    def _write(self, seen: Mapping[str, str]) -> None:
        by_fault: dict[str, list[str]] = {}
        for key, fault in seen.items():
            by_fault.setdefault(fault, []).append(key)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps({"format": _FORMAT, "faults": by_fault}))
        except OSError as error:
            logger(__name__).warning("source.not_remembered", source=self._name, error=str(error))


def fault_of(data: bytes, *, packed: bool) -> str:
    """Return why content cannot be used, or an empty text."""
    if len(data) <= _POINTER_BYTES and data.startswith(_POINTER):
        return "LFS pointer"
    return defect(data, packed=packed)
