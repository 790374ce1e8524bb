"""What a rewrite gets and gives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from core.budget import Budget, Why
from core.logs import logger
from core.parts import Parts
from core.settings import AgentSettings
from core.types import Passage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """One search.

    `text` is the query as a person would put it. `words`, where given, is what is looked up by its words in its place,
    and `dense` what is compared by meaning.
    """

    text: str
    words: str = ""
    dense: str = ""

    def lexical(self) -> str:
        """Return what is looked up by its words."""
        return self.words or self.text

    def meaning(self) -> str:
        """Return what is compared by meaning."""
        return self.dense or self.text


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """For whom a rewrite works, and with what.

    `name` and `agent` are the retrieval agent and its settings. `first` waits for the passages of the search with the
    question as it is, which runs meanwhile; there are none when it failed. `ends` is the monotonic time, in seconds, by
    which the rewrite has to be done.
    """

    name: str
    agent: AgentSettings
    parts: Parts
    budget: Budget
    first: Callable[[], Awaitable[Sequence[Passage]]]
    ends: float

    def remaining(self) -> float:
        """Return the seconds left for this rewrite, never below zero."""
        return max(0.0, self.ends - time.monotonic())

    async def within(self, stage: str, work: Awaitable[T]) -> T | None:
        """Await work inside the time left; None, with the stage cut, when it overruns."""
        try:
            async with asyncio.timeout(self.remaining()) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            self.cut(stage, "overran its share", "late")
        return None

    def cut(self, stage: str, reason: str, why: Why = "failed") -> None:
        """Note that the stage's stand-in is used: why, as the trace says it, and the reason in words for the log."""
        self.budget.cut_off(stage, why)
        logger(__name__).warning("rewrite.stand_in", stage=stage, agent=self.name, reason=reason)


class Rewrite(Protocol):
    """A strategy: makes other queries of those it is given, in the order in which they matter.

    What it raises, and what it does not finish in time, leaves the queries as they were.
    """

    async def __call__(self, queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
        """Return the queries to go on with; none at all means those it was given."""
        ...
