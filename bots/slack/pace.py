"""How fast things go: the intervals of streaming and retrying, and the turns that all replies share."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bots.posting.pace import BasicPace


@dataclass(frozen=True, slots=True)
class Pace(BasicPace):
    """All intervals in seconds. The defaults keep within the limits of Slack's own servers.

    Slack counts calls per method and workspace: some 50 edits and 100 appended pieces a minute are always allowed,
    and about one post a second in a channel. `ping_s` is how often a silent connection is tried,
    `answer_s` how long a call may take, `submit_s` how long Slack is kept waiting for what a form has changed: it waits
    for three seconds.
    """

    post_s: float = 1.0
    edit_s: float = 1.2
    append_s: float = 0.6
    ping_s: float = 10.0
    answer_s: float = 20.0
    submit_s: float = 2.0


class Turns:
    """Calls that share a limit take turns, one every so many seconds by name."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def take(self, name: str, interval_s: float) -> float:
        """Reserve the next turn and return the seconds until it comes."""
        now = time.monotonic()
        if len(self._next) > 1000:
            self._next = {one: at for one, at in self._next.items() if at > now}
        turn = max(now, self._next.get(name, 0.0))
        self._next[name] = turn + interval_s
        return turn - now
