"""Structured concurrency: a task group that raises the first error itself, turns for CPU work, shielded coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from core.errors import AnswerStopped, KimasError

P = ParamSpec("P")
Result = TypeVar("Result")

FIRST_RETRY_S = 0.5
MAX_RETRY_S = 15.0
_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks until the end of the block. When one fails, the others are cancelled and its error is raised."""
    task = asyncio.current_task()
    cancel_count = task.cancelling() if task else 0
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as error:
        # Python 3.11 does not undo the cancellation with which the group left its block; a surrounding timeout would
        # mistake it for an outside cancellation.
        while task and task.cancelling() > cancel_count:
            task.uncancel()
        first_error: BaseException = error
        while isinstance(first_error, BaseExceptionGroup):
            first_error = first_error.exceptions[0]
        raise first_error from first_error.__cause__


async def capture_error(awaitable: Awaitable[Result]) -> Result | KimasError:
    """Return the result or the `KimasError` of an awaitable, so that its task group continues."""
    try:
        return await awaitable
    except KimasError as error:
        return error


class CpuTurnstile:
    """Lets CPU-bound steps of some milliseconds start one by one, first come, first served.

    When hundreds of answers reach the same point, the event loop still runs between any two of them: it reads sockets
    and notices timeouts.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._thread_lock = asyncio.Lock()

    async def yield_turn(self) -> None:
        """Wait for the caller's turn: one step per round of the event loop."""
        async with self._lock:
            await asyncio.sleep(0)

    async def run_in_thread(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run a longer step in a thread, one at a time, and return its result.

        Threads share the interpreter with the event loop: with six busy threads the loop waits six times as long each
        time that it releases the interpreter.
        """
        await self._thread_lock.acquire()
        thread_task = asyncio.create_task(asyncio.to_thread(function, *args, **kwargs))
        # A thread continues when its caller is cancelled, so the lock is held until the thread ends.
        thread_task.add_done_callback(lambda _: self._thread_lock.release())
        return await asyncio.shield(thread_task)


def uncancellable(function: Callable[P, Coroutine[Any, Any, Result]]) -> Callable[P, Coroutine[Any, Any, Result]]:
    """Let a coroutine function finish even if its caller is cancelled; the cancellation follows.

    For transactions: a cancelled one would leave a SQLAlchemy connection that keeps the database locked.
    """

    @wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        task = asyncio.create_task(function(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.gather(task, return_exceptions=True)
            raise

    return wrapper


async def to_stoppable_thread(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Run a function in a thread and return its result; where it calls `raise_if_stopped`, it ends with its caller.

    Another thread would run to its end, and a process that is told to stop waits for it.
    """
    stop = threading.Event()
    # The thread gets a copy of the context.
    token = _stop.set(stop)
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    except asyncio.CancelledError:
        stop.set()
        raise
    finally:
        _stop.reset(token)


def raise_if_stopped() -> None:
    """Raise `asyncio.CancelledError` in a thread of `to_stoppable_thread` whose caller was cancelled."""
    stop = _stop.get()
    if stop and stop.is_set():
        raise asyncio.CancelledError


async def wait_for(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until the event is set, at most `timeout_s` seconds (None: for ever); return whether it is."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def ends_when(event: asyncio.Event | None) -> AsyncIterator[None]:
    """Cancel the block as soon as the event is set, and raise `AnswerStopped`; with None it just runs."""
    if event is None:
        yield
        return
    if event.is_set():
        raise AnswerStopped("the answer was stopped")
    scope = asyncio.timeout(None)
    try:
        async with scope:
            watcher = asyncio.create_task(_expire_when(scope, event))
            try:
                yield
            finally:
                watcher.cancel()
    except TimeoutError:
        if not scope.expired():
            raise
        raise AnswerStopped("the answer was stopped") from None


async def _expire_when(scope: asyncio.Timeout, event: asyncio.Event) -> None:
    await event.wait()
    scope.reschedule(asyncio.get_running_loop().time())


def iter_retry_delays() -> Iterator[float]:
    """Yield for ever how many seconds to wait before the next try: twice as long each time, up to a maximum."""
    delay_s = FIRST_RETRY_S
    while True:
        yield delay_s
        delay_s = min(2 * delay_s, MAX_RETRY_S)
