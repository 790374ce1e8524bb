"""The state of a clone that sources share, and the removal of clones that no source reads from any more."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from core.runtime.locks import try_file_lock
from knowledge.sources.common.state_files import read_json, write_atomically

STATE_FILE = "kimas.json"
# How the file ends that keeps what was learned of a source's blobs.
OUTLINES = ".outlines"
# Seconds for which other sources may use a fetch: sources of one repository are refreshed one after the other.
ROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class BranchFetch:
    """A fetch of a branch: in which round, and when it began (seconds since 1970)."""

    fetch_round: int
    at: float


@dataclass(slots=True)
class CloneState:
    """The state of a clone of a remote (without credentials). The branch "" is the default branch.

    A round ends when a source comes for the second time. `round_sources` are the sources of this round, `followers` the
    branches of all that read from the clone.
    """

    remote: str
    fetch_round: int = 1
    round_sources: list[str] = field(default_factory=list)
    fetches: dict[str, BranchFetch] = field(default_factory=dict)
    followers: dict[str, list[str]] = field(default_factory=dict)

    def all_branches(self, branches: Sequence[str]) -> list[str]:
        """Return these branches, then those of all followers."""
        followed_branches = (branch for source_branches in self.followers.values() for branch in source_branches)
        return list(dict.fromkeys((*branches, *followed_branches)))

    def is_fresh_for(self, name: str, branches: Sequence[str]) -> bool:
        """Return whether a source needs no fetch: another one has made it in this round, not long ago."""
        fetches = [self.fetches.get(branch) for branch in branches]
        is_recent = all(
            fetch and fetch.fetch_round == self.fetch_round and 0 <= time.time() - fetch.at < ROUND_S
            for fetch in fetches
        )
        return is_recent and name not in self.round_sources

    def follow(self, name: str, branches: Sequence[str]) -> None:
        """Note that a source has seen its branches as they are now."""
        self.followers[name] = list(branches)
        self.round_sources = [*self.round_sources, name]

    def record_fetch(self, name: str, branches: Sequence[str], started_at: float) -> None:
        """Note a fetch of branches by a source that began at a time."""
        if name in self.round_sources:
            self.fetch_round += 1
            self.round_sources = []
        self.fetches |= dict.fromkeys(branches, BranchFetch(self.fetch_round, started_at))


def read_state(clone: Path) -> CloneState | None:
    """Return the state of a clone, or None when it is missing or damaged."""
    try:
        data: dict[str, Any] = read_json(clone / STATE_FILE)
        fetches = {
            str(branch): BranchFetch(int(fetch["fetch_round"]), float(fetch["at"]))
            for branch, fetch in data["fetches"].items()
        }
        followers = {str(name): list(map(str, branches)) for name, branches in data["followers"].items()}
        round_sources = list(map(str, data["round_sources"]))
        return CloneState(str(data["remote"]), int(data["fetch_round"]), round_sources, fetches, followers)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


def write_state(clone: Path, state: CloneState) -> None:
    """Put a state in the place of the old one. Raises `OSError`."""
    write_atomically(clone / STATE_FILE, json.dumps(asdict(state)))


def unfollow_other_clones(clone: Path, name: str) -> None:
    """Let a source follow no other clone than this one, and delete those that nobody follows then.

    One that is being written to right now is left for the next time. Blocking.
    """
    # Before clones were shared, each was named after its source.
    legacy_clone = clone.with_name(name)
    if (legacy_clone / STATE_FILE).is_file():
        shutil.rmtree(legacy_clone, ignore_errors=True)
    for other in _list_clones(clone.parent):
        if other != clone:
            _unfollow(other, {name})


def delete_unused_clones(data_dir: Path, source_names: Collection[str]) -> None:
    """Delete the clones that none of these sources follows, and what was remembered of all others. Blocking."""
    folder = data_dir.expanduser() / "git"
    for clone in _list_clones(folder):
        state = read_state(clone)
        _unfollow(clone, set(state.followers) - set(source_names) if state else set())
    for file in (*folder.glob("*.json"), *folder.glob(f"*{OUTLINES}")):
        if file.stem not in source_names:
            file.unlink(missing_ok=True)


def delete_git_state(data_dir: Path, name: str) -> None:
    """Delete the clones that this source alone follows, and what was remembered of it. Blocking."""
    folder = data_dir.expanduser() / "git"
    for clone in _list_clones(folder):
        _unfollow(clone, {name})
    for suffix in (".json", OUTLINES):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _list_clones(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob(f"*/{STATE_FILE}"))


def _unfollow(clone: Path, names: Set[str]) -> None:
    state = read_state(clone)
    if state is None or not names & state.followers.keys():
        return
    lock = clone.with_name(f"{clone.name}.lock")
    held_lock = try_file_lock(lock)
    if held_lock is None:
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
        held_lock.release()
