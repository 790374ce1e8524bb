"""Showing a reply while it is being written: one task beside the answer, which ends with it at the latest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from bots.common.connection import wait_for
from core.errors import KimasError


class Showing:
    """The task that shows a reply's newest state, and what it and the sink tell each other.

    It belongs to the task that makes this. `news` is set when there is a state to show, `over` when none is to be shown
    any more. A call that fails for good ends the task and is kept as `failure`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._owner = asyncio.current_task()
        self.text = ""
        self.news = asyncio.Event()
        self.over = asyncio.Event()
        self.failure: KimasError | None = None

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the work."""
        self._task = asyncio.create_task(self._run(work), name=self._name)
        if self._owner is not None:
            self._owner.add_done_callback(lambda _: self._end())

    def tell(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to show the states before."""
        self.check()
        self.text = text
        self.news.set()

    def check(self) -> None:
        """Raise what went wrong for good, if anything."""
        if self.failure is not None:
            raise self.failure

    def halt(self) -> None:
        """Show nothing more after what is on its way."""
        self.over.set()
        self.news.set()

    async def ended(self) -> None:
        """Halt and wait for what is on its way. Raises what went wrong for good."""
        self.halt()
        if self._task is not None:
            # Not cancelled: a message on its way must still report its id.
            await asyncio.wait({self._task})
        self.check()

    async def each_state(
        self,
        show: Callable[[], Awaitable[float]],
        sign: Callable[[], Awaitable[None]] | None = None,
        sign_s: float | None = None,
    ) -> None:
        """Call `show` for the newest state and pause for the seconds it returns, again and again until it is over.

        Until there is a text, `sign` is called every `sign_s` seconds in its place.
        """
        while not self.over.is_set():
            if self.news.is_set():
                self.news.clear()
                await wait_for(self.over, await show())
                continue
            waiting = sign is not None and not self.text
            if sign is not None and waiting:
                await sign()
            await wait_for(self.news, sign_s if waiting else None)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except KimasError as failure:
            self.failure = self.failure or failure

    def _end(self) -> None:
        self.halt()
        if self._task is not None:
            self._task.cancel()
