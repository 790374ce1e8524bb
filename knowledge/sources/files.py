"""A folder, or a single file."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path

from core.errors import SourceError
from core.settings import FilesSource
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import DOCUMENT_KINDS, PathFilter, fill_template, fingerprint, unusable_reason
from knowledge.sources.formats import read_document


class FilesFolder:
    """The files below a folder, each a document with its path relative to that folder.

    Hidden folders, virtual environments and what tools generate are not entered; symbolic links count only when they
    lead to a file inside that is not reached otherwise.
    """

    def __init__(self, name: str, settings: FilesSource) -> None:
        self.name = name
        self._settings = settings
        self._path = settings.path.expanduser()
        self._path_filter = PathFilter(name, settings)

    async def listing(self) -> Listing:
        """List and fingerprint the files. Raises `SourceError` when the path is missing or holds nothing usable."""
        try:
            return await asyncio.to_thread(self._list)
        except OSError as error:
            path = error.filename or self._path
            raise SourceError(f"source {self.name}: {path} cannot be read: {error.strerror}. Check path.") from error

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the files as they are now; one that vanished or became unusable is left out."""
        for path in paths:
            if path not in listing.fingerprints:
                continue
            content = await asyncio.to_thread(self._read, path)
            if content is not None:
                text, kind = content
                yield Document(path=path, text=text, kind=kind, url=fill_template(self._settings.link, path))

    def _list(self) -> Listing:
        skipped: Counter[str] = Counter()
        fingerprints: dict[str, str] = {}
        for path, file in self._candidates(skipped):
            try:
                data = file.read_bytes()
            except OSError:
                skipped["unreadable"] += 1
                continue
            reason = unusable_reason(data, allow_binary=self._path_filter.get_kind(path) in DOCUMENT_KINDS)
            if reason:
                skipped[reason] += 1
            else:
                fingerprints[path] = fingerprint(data)
        if not fingerprints:
            raise SourceError(self._describe_nothing_usable(skipped))
        return Listing(fingerprints, skipped=dict(skipped))

    def _describe_nothing_usable(self, skipped: Counter[str]) -> str:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items()))
        problem = f"holds no file that can be used (skipped: {counts})" if counts else "holds no files"
        return f"source {self.name}: {self._path} {problem}. Check path, include and exclude."

    def _candidates(self, skipped: Counter[str]) -> Iterator[tuple[str, Path]]:
        if self._path.is_file():
            size = self._path.stat().st_size
            if size <= self._settings.max_file_kb * 1024:
                yield self._path.name, self._path
            else:
                skipped["too large"] += 1
            return
        if not self._path.is_dir():
            raise SourceError(f"source {self.name}: {self._path} does not exist. Check path, or create the folder.")
        # One that cannot be listed at all is an error; below it, that is counted.
        os.listdir(self._path)
        for path, size in self._walk(skipped):
            if not self._path_filter.matches(path):
                continue
            reason = self._path_filter.skip_reason(path, size)
            if reason:
                skipped[reason] += 1
            else:
                yield path, self._path / path

    def _walk(self, skipped: Counter[str]) -> Iterator[tuple[str, int]]:
        """Yield path and size of every file, in the order of their paths; links last."""
        root = self._path.resolve()
        seen_files: set[Path] = set()
        symlinks: list[os.DirEntry[str]] = []
        folders = [root]
        while folders:
            try:
                entries = sorted(os.scandir(folders.pop()), key=lambda entry: entry.name, reverse=True)
            except OSError:
                skipped["unreadable"] += 1
                continue
            for entry in entries:
                path = Path(entry.path).relative_to(root).as_posix()
                if not _is_valid_unicode(path):
                    skipped["unreadable name"] += 1
                elif entry.is_symlink():
                    symlinks.append(entry)
                elif entry.is_dir():
                    if self._should_enter(entry, path):
                        folders.append(Path(entry.path))
                elif entry.is_file():
                    size = _get_size(Path(entry.path))
                    if size is None:
                        skipped["unreadable"] += 1
                        continue
                    seen_files.add(Path(entry.path))
                    yield path, size
        yield from self._follow_symlinks(root, seen_files, symlinks, skipped)

    def _should_enter(self, entry: os.DirEntry[str], path: str) -> bool:
        is_virtual_environment = os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
        return not entry.name.startswith(".") and not is_virtual_environment and self._path_filter.should_enter(path)

    @staticmethod
    def _follow_symlinks(
        root: Path, seen_files: set[Path], symlinks: list[os.DirEntry[str]], skipped: Counter[str]
    ) -> Iterator[tuple[str, int]]:
        for entry in symlinks:
            try:
                target = Path(entry.path).resolve(strict=True)
            except (OSError, RuntimeError):
                skipped["broken link"] += 1
                continue
            if target in seen_files:
                continue
            size = _get_size(target)
            if not target.is_relative_to(root):
                skipped["link leading outside"] += 1
            elif size is None:
                skipped["unreadable"] += 1
            elif not target.is_file():
                skipped["link to a folder"] += 1
            else:
                seen_files.add(target)
                yield Path(entry.path).relative_to(root).as_posix(), size

    def _read(self, path: str) -> tuple[str, str] | None:
        try:
            file = self._path if self._path.is_file() else self._path / path
            data = file.read_bytes()
        except OSError:
            return None
        kind = self._path_filter.get_kind(path) or "text"
        return None if unusable_reason(data, allow_binary=kind in DOCUMENT_KINDS) else read_document(path, kind, data)


def _get_size(file: Path) -> int | None:
    """Return a file's size in bytes, or None when it cannot be read: its folder may be listed but not searched."""
    try:
        return file.stat().st_size
    except OSError:
        return None


def _is_valid_unicode(name: str) -> bool:
    """Return whether a file's name is valid Unicode: others cannot be stored or linked."""
    return name.encode("utf-8", "ignore").decode("utf-8") == name
