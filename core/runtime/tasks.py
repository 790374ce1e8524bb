"""Structured concurrency with plain errors: the first failure of a group leaves as itself, not wrapped in a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from core.errors import KimasError

P = ParamSpec("P")
Result = TypeVar("Result")


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks that live no longer than the block. When one fails the others are cancelled and its error leaves."""
    task = asyncio.current_task()
    pending = task.cancelling() if task else 0
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as error:
        # Python 3.11 leaves behind the cancellation by which the group left its block; a time-out around us would take
        # it for somebody else's.
        while task and task.cancelling() > pending:
            task.uncancel()
        first_error: BaseException = error
        while isinstance(first_error, BaseExceptionGroup):
            first_error = first_error.exceptions[0]
        raise first_error from first_error.__cause__


async def capture_error(awaitable: Awaitable[Result]) -> Result | KimasError:
    """Return a result, or the error that prevented it: what runs in the same task group goes on."""
    try:
        return await awaitable
    except KimasError as error:
        return error


class CpuTurnstile:
    """Lets steps that take some milliseconds without a pause begin one after the other, in the order that they came.

    When hundreds of answers are at the same point, everything else still has its turn between any two of them: sockets
    are read, and time-outs are noticed in time.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._thread_lock = asyncio.Lock()

    async def yield_turn(self) -> None:
        """Return when it is the caller's turn: no other step has begun in this round of the event loop."""
        async with self._lock:
            await asyncio.sleep(0)

    async def run_in_thread(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Return what the work returns, done in a thread when the caller's turn has come.

        For longer steps. Every thread that has some would get the interpreter in turn with the event loop: with six of
        them the loop stood still six times as long whenever it had let go of it.
        """
        await self._thread_lock.acquire()
        thread_task = asyncio.create_task(asyncio.to_thread(function, *args, **kwargs))
        # A thread works on when its caller is cut off: the next one's turn comes after it all the same.
        thread_task.add_done_callback(lambda _: self._thread_lock.release())
        return await asyncio.shield(thread_task)


def uncancellable(function: Callable[P, Coroutine[Any, Any, Result]]) -> Callable[P, Coroutine[Any, Any, Result]]:
    """Make a coroutine function come to its end even when its caller is cancelled; the caller is cancelled after it.

    For transactions: SQLAlchemy cut off in the middle of one leaves a connection behind that keeps the database locked.
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
