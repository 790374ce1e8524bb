"""An event loop in a thread of its own, for a client whose work would keep the loop of the conversations waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines that other loops wait for. What they use belongs to this loop: open it here and close it here."""

    def __init__(self, name: str) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self.is_closed = False
        # A process that ends without closing it does not wait for it.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._runner:
            self._loop.run_forever()

    async def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the thread, with the context of the caller, and return its result.

        When the caller is cancelled, so is the coroutine, and its end is waited for. Raises `RuntimeError` after
        `close`.
        """
        caller_loop = asyncio.get_running_loop()
        has_ended = asyncio.Event()
        task: asyncio.Task[Result]

        def start() -> None:
            nonlocal task
            task = self._loop.create_task(coroutine)
            task.add_done_callback(tell)

        def cancel() -> None:
            # By then it was started: callbacks keep their order.
            task.cancel()

        def tell(_: asyncio.Task[Result]) -> None:
            if not caller_loop.is_closed():
                caller_loop.call_soon_threadsafe(has_ended.set)

        if self.is_closed:
            coroutine.close()
            raise RuntimeError(f"thread {self._thread.name} has ended")
        self._loop.call_soon_threadsafe(start)
        try:
            await has_ended.wait()
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(cancel)
            await has_ended.wait()
            task.result()
            raise
        return task.result()

    async def close(self) -> None:
        """Cancel what still runs, and end the thread. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
