"""What is known about a clone besides its objects: which branches were fetched when, and which sources follow them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

STATE_FILE = "kimas.json"
# For so long another source may use what one has fetched, seconds: sources of one repository are refreshed in a row.
ROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetch of a branch: in which round, and when it began (seconds since 1970)."""

    round: int
    at: float


@dataclass(slots=True)
class CloneState:
    """The state of a clone of a remote (without credentials). The branch "" is the default branch.

    A round ends when a source comes for the second time. `present` are those that were there in this round, `followers`
    the branches of all that read from the clone.
    """

    remote: str
    round: int = 1
    present: list[str] = field(default_factory=list)
    fetched: dict[str, Fetched] = field(default_factory=dict)
    followers: dict[str, list[str]] = field(default_factory=dict)

    def wanted(self, branches: Sequence[str]) -> list[str]:
        """Return these branches, then those of all followers."""
        others = (branch for followed in self.followers.values() for branch in followed)
        return list(dict.fromkeys((*branches, *others)))

    def news_for(self, name: str, branches: Sequence[str]) -> bool:
        """Tell whether a source needs no fetch: another one has made it in this round, not long ago."""
        fetches = [self.fetched.get(branch) for branch in branches]
        recent = all(one and one.round == self.round and 0 <= time.time() - one.at < ROUND_S for one in fetches)
        return recent and name not in self.present

    def follow(self, name: str, branches: Sequence[str]) -> None:
        """Note that a source has seen its branches as they are now."""
        self.followers[name] = list(branches)
        self.present = [*self.present, name]

    def note(self, name: str, branches: Sequence[str], at: float) -> None:
        """Note a fetch of branches by a source that began at a time."""
        if name in self.present:
            self.round += 1
            self.present = []
        self.fetched |= dict.fromkeys(branches, Fetched(self.round, at))


def read_state(clone: Path) -> CloneState | None:
    """Return the state of a clone; None where there is none that can be understood."""
    try:
        kept: dict[str, Any] = json.loads((clone / STATE_FILE).read_text("utf-8"))
        fetched = {str(branch): Fetched(int(one["round"]), float(one["at"])) for branch, one in kept["fetched"].items()}
        followers = {str(name): list(map(str, followed)) for name, followed in kept["followers"].items()}
        present = list(map(str, kept["present"]))
        return CloneState(str(kept["remote"]), int(kept["round"]), present, fetched, followers)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


def write_state(clone: Path, state: CloneState) -> None:
    """Put a state in the place of the old one. Raises `OSError`."""
    write_atomically(clone / STATE_FILE, json.dumps(asdict(state)))


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step. Raises `OSError`."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, "utf-8")
    draft.replace(path)
