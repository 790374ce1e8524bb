"""What a retrieval strategy returns."""

from __future__ import annotations

from dataclasses import dataclass

from core.settings import Strategy
from core.types import Passage, SearchRound


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What a strategy found: the query that was searched, the agents that were asked, their passages.

    `strategy` is its name. `ranked` passages are in their final order, best first: those of several searches must not
    be ordered by one query again. Without `searched` no search was made, because none was needed. `rounds` are those of
    a strategy that judges what it found.
    """

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]
    strategy: Strategy = "single"
    is_ranked: bool = False
    was_searched: bool = True
    rounds: tuple[SearchRound, ...] = ()

    def low_quality_reason(self) -> str:
        """Return why the evidence was judged poor in the end, or an empty string where it was not."""
        last_round = self.rounds[-1] if self.rounds else SearchRound(())
        return (last_round.reason or "it does not answer the question") if last_round.quality == "poor" else ""
