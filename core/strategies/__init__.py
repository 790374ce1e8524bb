"""How evidence is gathered: one module per strategy, each with `gather(question, parts, budget) -> Gathered`."""

from __future__ import annotations

from dataclasses import dataclass

from core.types import Passage


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a strategy found: the query that was searched, the agents that were asked, their passages."""

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]
