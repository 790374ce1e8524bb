"""Clones that nobody reads from any more: those of former addresses, of removed sources, and of earlier versions."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Set
from pathlib import Path

from knowledge.sources.git_lock import try_lock, unlock
from knowledge.sources.git_state import STATE_FILE, read_state, write_state


def leave_others(clone: Path, name: str) -> None:
    """Let a source follow no other clone than this one, and delete those that nobody follows then.

    One that is being written to right now is left for the next time. Blocking.
    """
    # Before clones were shared, each was named after its source.
    former = clone.with_name(name)
    if (former / STATE_FILE).is_file():
        shutil.rmtree(former, ignore_errors=True)
    for other in _clones(clone.parent):
        if other != clone:
            _leave(other, {name})


def forget_sources(data_dir: Path, kept: Collection[str]) -> None:
    """Delete the clones that none of these sources follows, and what was remembered of all others. Blocking."""
    folder = data_dir.expanduser() / "git"
    for clone in _clones(folder):
        state = read_state(clone)
        _leave(clone, set(state.followers) - set(kept) if state else set())
    for file in folder.glob("*.json"):
        if file.stem not in kept:
            file.unlink(missing_ok=True)


def _clones(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob(f"*/{STATE_FILE}"))


def _leave(clone: Path, names: Set[str]) -> None:
    state = read_state(clone)
    if state is None or not names & state.followers.keys():
        return
    lock = clone.with_name(f"{clone.name}.lock")
    descriptor = try_lock(lock)
    if descriptor is None:
        return
    try:
        # It may have changed before the lock was ours.
        state = read_state(clone)
        if state is None:
            return
        for name in names:
            state.followers.pop(name, None)
        if state.followers:
            write_state(clone, state)
        else:
            shutil.rmtree(clone, ignore_errors=True)
            lock.unlink(missing_ok=True)
    finally:
        unlock(descriptor)
