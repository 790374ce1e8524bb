"""What earlier listings learned of the files of a folder: one that has not changed since is not read again.

Everything here blocks: call it in a worker thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

from pydantic import TypeAdapter

from core.settings import FilesSource
from knowledge.formats.references import Outline
from knowledge.sources.common.facts import FactsFile

FILE_FACTS = "files"
# Two changes within a tick of the file system's clock leave the same times: FAT has the longest, of two seconds.
_MAX_TICK_NS = 3 * 10**9
# What is mounted where, and those of its file systems that note each change of a file by this machine's clock, so that
# nobody can set it back. On FAT the time of a change is that of its content, on a network share it is another clock's.
_MOUNTS = Path("/proc/self/mountinfo")
_KNOWN_FILE_SYSTEMS = frozenset(
    (
        "bcachefs",
        "btrfs",
        "erofs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "overlay",
        "ramfs",
        "squashfs",
        "tmpfs",
        "xfs",
        "zfs",
    )
)


class FileState(NamedTuple):
    """What shows that a file has changed: its size in bytes, its times in nanoseconds, and which file it is.

    Whoever sets `mtime_ns` back cannot set `ctime_ns`.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def from_stat(cls, result: os.stat_result) -> FileState:
        """Return the state that a look at a file found."""
        return cls(result.st_size, result.st_mtime_ns, result.st_ctime_ns, result.st_ino, result.st_dev)

    def settled(self) -> FileState:
        """Return this state, or `UNSETTLED` where a later change may not show. Call it before the file is read.

        A change within the same tick as the last one does not show; how old a time in the future is, nobody knows.
        """
        is_settled = max(self.mtime_ns, self.ctime_ns) < time.time_ns() - _MAX_TICK_NS
        return self if is_settled else UNSETTLED


# The state of a file that has to be read again next time.
UNSETTLED = FileState(-1, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a listing needs of a file.

    `reason` says why it cannot be used, or is empty. The fingerprint is that of the text with what it includes, which
    is in `included_paths`. `loaded_states` are the states of all files that it asked for, None for those that are not
    there.
    """

    state: FileState
    reason: str = ""
    fingerprint: str = ""
    outline: Outline | None = None
    included_paths: tuple[str, ...] = ()
    loaded_states: Mapping[str, FileState | None] = field(default_factory=dict)

    @property
    def are_lasting(self) -> bool:
        """Return whether they hold for as long as no state changes."""
        return UNSETTLED not in (self.state, *self.loaded_states.values())


def open_file_facts(name: str, settings: FilesSource, data_dir: Path) -> FactsFile[FileFacts]:
    """Return where the facts of one source's files are kept between refreshes."""
    # Fingerprints of earlier versions do not say what takes something from other files.
    rules = f"2 {settings.model_dump_json(exclude={'refresh', 'audience', 'link'})}"
    return FactsFile(name, data_dir.expanduser() / FILE_FACTS / f"{name}.json", rules, _get_form)


def notes_changes(folder: Path) -> bool:
    """Return whether the file systems of a folder, and those mounted within it, are known to note each change.

    Nobody knows it where the system has no table of them.
    """
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
        place = folder.resolve()
    except OSError:
        return False
    # The last one mounted on a place is the one that is seen.
    systems = {_read_mount_point(line): line.partition(" - ")[2].partition(" ")[0] for line in lines}
    around = sorted((point for point in systems if place.is_relative_to(point)), key=lambda point: len(point.parts))
    points = (*around[-1:], *(point for point in systems if point.is_relative_to(place)))
    return bool(around) and all(systems[point] in _KNOWN_FILE_SYSTEMS for point in points)


def _read_mount_point(line: str) -> PurePath:
    point = line.split(" ")[4]
    # As the kernel writes blanks, and at last the sign of that itself.
    for code in ("040", "011", "012", "134"):
        point = point.replace(f"\\{code}", chr(int(code, 8)))
    return PurePath(point)


def delete_file_facts(data_dir: Path, names_to_keep: Collection[str]) -> None:
    """Delete the facts of all sources but these."""
    for file in (data_dir.expanduser() / FILE_FACTS).glob("*.json"):
        if file.stem not in names_to_keep:
            file.unlink(missing_ok=True)


@cache
def _get_form() -> TypeAdapter[tuple[str, FileFacts]]:
    return TypeAdapter(tuple[str, FileFacts])
