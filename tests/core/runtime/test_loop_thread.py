"""An event loop in a thread of its own: results, errors, context, cancellation and its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from core.errors import UsageError
from core.runtime.loop_thread import LoopThread

_who: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture
async def thread() -> AsyncIterator[LoopThread]:
    loop_thread = LoopThread("testing")
    yield loop_thread
    await loop_thread.close()


async def test_a_result_comes_from_the_thread_and_its_loop(thread: LoopThread) -> None:
    async def look() -> tuple[str, asyncio.AbstractEventLoop]:
        return threading.current_thread().name, asyncio.get_running_loop()

    name, loop = await thread.run(look())
    assert name == "testing"
    assert loop is not asyncio.get_running_loop()
    assert (await thread.run(look()))[1] is loop


async def test_the_context_of_the_caller_goes_with_it(thread: LoopThread) -> None:
    async def look() -> str:
        return _who.get()

    _who.set("ann")
    assert await thread.run(look()) == "ann"


async def test_an_error_is_raised_where_it_is_waited_for(thread: LoopThread) -> None:
    async def fail() -> None:
        raise UsageError("as itself")

    with pytest.raises(UsageError, match="as itself"):
        await thread.run(fail())


async def test_what_is_cancelled_has_ended_before_its_caller_goes_on(thread: LoopThread) -> None:
    has_begun = threading.Event()
    steps = []

    async def hold() -> None:
        try:
            has_begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            steps.append("given back")

    task = asyncio.create_task(thread.run(hold()))
    await asyncio.to_thread(has_begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["given back"]


async def test_an_error_while_it_is_cancelled_is_not_lost(thread: LoopThread) -> None:
    has_begun = threading.Event()

    async def hold() -> None:
        try:
            has_begun.set()
            await asyncio.Event().wait()
        finally:
            raise UsageError("could not be given back")

    task = asyncio.create_task(thread.run(hold()))
    await asyncio.to_thread(has_begun.wait)
    task.cancel()
    with pytest.raises(UsageError, match="given back"):
        await task


async def test_what_is_cancelled_before_its_turn_never_begins(thread: LoopThread) -> None:
    may_go_on = threading.Event()
    has_run = []

    async def block() -> None:
        may_go_on.wait()

    async def note() -> None:
        has_run.append(True)

    blocking = asyncio.create_task(thread.run(block()))
    task = asyncio.create_task(thread.run(note()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await blocking
    assert has_run == []


async def test_its_end_cancels_what_still_runs() -> None:
    thread = LoopThread("testing")
    has_begun = threading.Event()

    async def hold() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(thread.run(hold()))
    await asyncio.to_thread(has_begun.wait)
    await thread.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    await thread.close()
    with pytest.raises(RuntimeError, match="testing has ended"):
        await thread.run(hold())
    assert "testing" not in {each.name for each in threading.enumerate()}
