"""What a retrieval strategy returns."""

from __future__ import annotations

from dataclasses import dataclass

from core.settings import Strategy
from core.types import Passage, Round


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a strategy found: the query that was searched, the agents that were asked, their passages.

    `strategy` is its name. `ranked` passages are in their final order, best first: those of several searches must not
    be ordered by one query again. Without `searched` no search was made, because none was needed. `rounds` are those of
    a strategy that judges what it found.
    """

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]
    strategy: Strategy = "single"
    ranked: bool = False
    searched: bool = True
    rounds: tuple[Round, ...] = ()

    def doubt(self) -> str:
        """Return why the evidence was judged poor in the end, or an empty string where it was not."""
        last = self.rounds[-1] if self.rounds else Round(())
        return (last.reason or "it does not answer the question") if last.quality == "poor" else ""
