"""Results that are used again for a while, and requests on their way that several askers share."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from core.types import Passage

KEPT_QUERIES = 256


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a query; `whole` says whether it may be used again."""

    passages: Sequence[Passage]
    whole: bool = True


@dataclass(slots=True)
class _Asked:
    """A request on its way, and how many wait for it."""

    task: asyncio.Task[Found]
    waiting: int = 0


class Kept:
    """The results of one source, each for `seconds`; with 0 nothing is kept and nothing is shared."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._found: OrderedDict[str, tuple[float, Sequence[Passage]]] = OrderedDict()
        self._asked: dict[str, _Asked] = {}

    async def result(self, query: str, ask: Callable[[str], Awaitable[Found]]) -> Sequence[Passage]:
        """Return what is kept for a query, else what `ask` finds: once for all who want it at the same time.

        Raises what `ask` does, for each of them. Whoever is cancelled leaves the others their answer; with the last one
        the request goes, too.
        """
        kept = self._found.get(query)
        if kept is not None and time.monotonic() - kept[0] < self._seconds:
            return kept[1]
        if self._seconds <= 0:
            return (await ask(query)).passages
        asked = self._asked.get(query)
        if asked is None:
            asked = self._asked[query] = _Asked(asyncio.create_task(self._ask(query, ask)))
        asked.waiting += 1
        try:
            return (await asyncio.shield(asked.task)).passages
        finally:
            asked.waiting -= 1
            if not asked.waiting:
                await self._leave(query, asked)

    async def _ask(self, query: str, ask: Callable[[str], Awaitable[Found]]) -> Found:
        found = await ask(query)
        if found.whole:
            self._found[query] = (time.monotonic(), found.passages)
            self._found.move_to_end(query)
            if len(self._found) > KEPT_QUERIES:
                self._found.popitem(last=False)
        return found

    async def _leave(self, query: str, asked: _Asked) -> None:
        """Forget a request that nobody waits for any more; one that is still on its way is broken off."""
        if self._asked.get(query) is asked:
            del self._asked[query]
        if not asked.task.done():
            asked.task.cancel()
            await asyncio.wait([asked.task])
            if not asked.task.cancelled():
                # Seen, so that asyncio does not complain of a failure that nobody wants to hear of.
                asked.task.exception()
