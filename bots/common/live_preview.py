"""Showing a reply while it is being written, in a task of its own that never outlives the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from bots.common.connection import wait_for
from core.errors import KimasError


class LivePreview:
    """The task that shows a reply's newest state, and what it and the sink share.

    The task that creates this object owns it. `changed` is set when there is a state to show, `closed` when none is to
    be shown any more. A call that fails for good ends the task, and its error is kept as `error`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._owner = asyncio.current_task()
        self.text = ""
        self.changed = asyncio.Event()
        self.closed = asyncio.Event()
        self.error: KimasError | None = None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(work), name=self._name)
        if self._owner is not None:
            self._owner.add_done_callback(lambda _: self._cancel())

    def push(self, text: str) -> None:
        """Note the reply so far. Raises the error that ended the task."""
        self.raise_error()
        self.text = text
        self.changed.set()

    def raise_error(self) -> None:
        """Raise the error that ended the task, if there is one."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Show nothing more after the call that is being made."""
        self.closed.set()
        self.changed.set()

    async def join(self) -> None:
        """Stop and wait for the call that is being made. Raises the error that ended the task."""
        self.stop()
        if self._task is not None:
            # Not cancelled: a message on its way must still report its id.
            await asyncio.wait({self._task})
        self.raise_error()

    async def run_updates(
        self,
        show: Callable[[], Awaitable[float]],
        typing_indicator: Callable[[], Awaitable[None]] | None = None,
        typing_interval_s: float | None = None,
    ) -> None:
        """Call `show` for the newest state and pause for the seconds it returns, until the preview is closed.

        Until there is a text, `typing_indicator` is called every `typing_interval_s` seconds instead.
        """
        while not self.closed.is_set():
            if self.changed.is_set():
                self.changed.clear()
                await wait_for(self.closed, await show())
                continue
            shows_typing = typing_indicator is not None and not self.text
            if typing_indicator is not None and shows_typing:
                await typing_indicator()
            await wait_for(self.changed, typing_interval_s if shows_typing else None)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except KimasError as error:
            self.error = self.error or error

    def _cancel(self) -> None:
        self.stop()
        if self._task is not None:
            self._task.cancel()
