"""Cosines of vectors with all of a table in memory, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

import numpy as np

from knowledge.ports import Vectors

T = TypeVar("T")

# So many vectors at most are compared together.
MOST_TOGETHER = 32


class Comparison:
    """Compares vectors with all of a version's: who comes while others are compared is compared with the next ones.

    Many vectors together cost little more than one, for most of the time the memory is waited for.
    """

    def __init__(self, blocks: Sequence[Vectors]) -> None:
        ends = np.cumsum([len(block) for block in blocks]).tolist()
        self._blocks = [(block, slice(end - len(block), end)) for block, end in zip(blocks, ends, strict=True)]
        self._passages = ends[-1] if ends else 0
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[Vectors, asyncio.Future[Vectors]]] = []

    def now(self, unit: Vectors) -> Vectors:
        """Return the cosines of a unit vector with all passages, block after block, shape (passages,)."""
        found: Vectors = np.empty((1, self._passages), np.float32)
        _compare(self._blocks, unit[None], found)
        only: Vectors = found[0]
        return only

    async def cosines(self, executor: Executor, unit: Vectors) -> Vectors:
        """Return the same, of many who wait together."""
        done: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, done))
        try:
            async with self._turn:
                if not done.done():
                    await self._together(executor)
            return await done
        finally:
            self._waiting = [one for one in self._waiting if one[1] is not done]

    async def _together(self, executor: Executor) -> None:
        """Compare all who wait. When it is cut off they go on waiting: the next one's turn is theirs."""
        taken = self._waiting[:MOST_TOGETHER]
        units = np.array([unit for unit, _ in taken])
        found = np.empty((len(taken), self._passages), np.float32)
        # Two halves at the same time, where there are two processors free.
        halves = (partial(_compare, self._blocks[first::2], units, found) for first in (0, 1))
        await asyncio.gather(*(elsewhere(executor, half) for half in halves))
        for cosines, (_, done) in zip(found, taken, strict=True):
            if not done.done():
                done.set_result(cosines)
        self._waiting = [one for one in self._waiting if not one[1].done()]


def _compare(blocks: Sequence[tuple[Vectors, slice]], units: Vectors, found: Vectors) -> None:
    """Write the cosines of unit vectors with the passages of some blocks into `found`, shape (units, passages)."""
    for block, places in blocks:
        # This way round the product of a few vectors takes some 60% of the time that `units @ block.T` takes.
        np.clip((block @ units.T).T, -1, 1, out=found[:, places])


async def elsewhere(executor: Executor, work: Callable[[], T]) -> T:
    """Return what work in a thread of the executor returns."""
    return await asyncio.get_running_loop().run_in_executor(executor, work)
