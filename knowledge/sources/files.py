"""A folder, or a single file."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path

from core.errors import SourceError
from core.settings import FilesSource
from knowledge.ports import Document, Listing
from knowledge.sources.reading import decode, fill_link, is_binary, kind_of, left_out, selector


class Files:
    """Implements `Source` over a file system. Paths are relative to the folder; links out of it are not followed."""

    def __init__(self, name: str, settings: FilesSource) -> None:
        self.name = name
        self._settings = settings
        self._root = settings.path.expanduser()

    async def listing(self) -> Listing:
        """List and fingerprint all wanted files. Raises `SourceError` when the path is missing or holds nothing."""
        return await asyncio.to_thread(self._list)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield these files; one that vanished or became unreadable meanwhile is left out."""
        for path in paths:
            text = await asyncio.to_thread(self._read, path)
            if text is not None:
                yield Document(path, text, kind_of(path), url=fill_link(self._settings.link, path))

    def _list(self) -> Listing:
        if not self._root.exists():
            raise SourceError(f"source {self.name}: {self._root} does not exist; correct its path in the configuration")
        wanted, fingerprints, skipped = selector(self._settings), dict[str, str](), Counter[str]()
        for path in self._walk(skipped):
            reason = left_out(path, named=bool(self._settings.include) or self._root.is_file())
            if reason or not wanted(path):
                skipped[reason or "not included"] += 1
                continue
            fingerprint, reason = self._fingerprint(path)
            if reason:
                skipped[reason] += 1
            else:
                fingerprints[path] = fingerprint
        if not fingerprints:
            seen = ", ".join(f"{count} {reason}" for reason, count in skipped.items()) or "no files at all"
            raise SourceError(
                f"source {self.name}: {self._root} holds nothing to read ({seen}); see include and exclude"
            )
        return Listing(fingerprints, skipped=dict(skipped))

    def _walk(self, skipped: Counter[str]) -> Iterator[str]:
        if self._root.is_file():
            yield self._root.name
            return

        def unreadable(_fault: OSError) -> None:
            skipped["unreadable folder"] += 1

        for folder, folders, files in os.walk(self._root, onerror=unreadable):
            folders[:] = sorted(name for name in folders if name != ".git")
            for name in sorted(files):
                yield (Path(folder) / name).relative_to(self._root).as_posix()

    def _file(self, path: str) -> Path:
        return self._root if self._root.is_file() else self._root / path

    def _fingerprint(self, path: str) -> tuple[str, str]:
        """Return the file's fingerprint, or why it is skipped."""
        file = self._file(path)
        try:
            if file.is_symlink() and not file.resolve().is_relative_to(self._root.resolve()):
                return "", "link outside"
            if not kind_of(path):
                return "", "no text"
            if file.stat().st_size > self._settings.max_file_kb * 1024:
                return "", "too large"
            data = file.read_bytes()
        except OSError:
            return "", "unreadable"
        return ("", "binary") if is_binary(data) else (hashlib.sha256(data).hexdigest()[:32], "")

    def _read(self, path: str) -> str | None:
        try:
            return decode(self._file(path).read_bytes())
        except OSError:
            return None
