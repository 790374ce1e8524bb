"""Cosines of vectors with all of a table in memory, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

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
        self._blocks = blocks
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[Vectors, asyncio.Future[list[Vectors]]]] = []

    async def cosines(self, executor: Executor, unit: Vectors) -> list[Vectors]:
        """Return the cosines of a unit vector with the passages of every block."""
        done: asyncio.Future[list[Vectors]] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, done))
        try:
            async with self._turn:
                if not done.done():
                    await self._compare(executor)
            return await done
        finally:
            self._waiting = [one for one in self._waiting if one[1] is not done]

    async def _compare(self, executor: Executor) -> None:
        """Compare all who wait. When it is cut off they go on waiting: the next one's turn is theirs."""
        taken = self._waiting[:MOST_TOGETHER]
        units = np.array([unit for unit, _ in taken])
        # Two halves at the same time, where there are two processors free.
        halves = [elsewhere(executor, partial(products, self._blocks[first::2], units)) for first in (0, 1)]
        found: list[Any] = [None] * len(self._blocks)
        found[::2], found[1::2] = await asyncio.gather(*halves)
        for at, (_, done) in enumerate(taken):
            if not done.done():
                done.set_result([block[at] for block in found])
        self._waiting = [one for one in self._waiting if not one[1].done()]


def products(blocks: Sequence[Vectors], units: Vectors) -> list[Vectors]:
    """Return the cosines of unit vectors with the passages of each block, shape (units, passages)."""
    return [(units @ block.T).clip(-1, 1) for block in blocks]


async def elsewhere(executor: Executor, work: Callable[[], T]) -> T:
    """Return what work in a thread of the executor returns."""
    return await asyncio.get_running_loop().run_in_executor(executor, work)
