"""What a command that was killed has left of the data directory: whole copies of it, which nothing else would delete.

Everything here blocks.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from core.observability.logs import get_logger

_log = get_logger(__name__)

# How the names of such copies begin, in the data directory and beside a backup.
RESTORING_PREFIX = ".restoring-"
SAVING_PREFIX = ".saving-"
# Whoever still saves writes all the time.
MAX_PAUSE_S = 3600.0


def is_left_over(name: str) -> bool:
    """Return whether a file or folder of this name is a copy that is being made, or was left unfinished."""
    return name.startswith((RESTORING_PREFIX, SAVING_PREFIX))


def has_left_restores(data_dir: Path) -> bool:
    """Return whether restores have left anything, or one is running."""
    return any(data_dir.glob(f"{RESTORING_PREFIX}*"))


def remove_left_restores(data_dir: Path) -> None:
    """Remove what restores have left. Hold the lock of the daemon, as they do: none runs meanwhile."""
    _remove(data_dir.glob(f"{RESTORING_PREFIX}*"))


def remove_left_backups(folder: Path) -> None:
    """Remove what backups have left in a folder, except those that may still run."""
    oldest_at = time.time() - MAX_PAUSE_S
    _remove(path for path in folder.glob(f"{SAVING_PREFIX}*") if _find_last_change(path) < oldest_at)


def _find_last_change(path: Path) -> float:
    try:
        return max(each.stat().st_mtime for each in (path, *path.rglob("*")))
    except OSError:
        # It is being changed.
        return time.time()


def _remove(paths: Iterator[Path]) -> None:
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        _log.info("data_dir.left_over_removed", path=str(path))
