"""Groups of tasks, and turns at the processor."""

from __future__ import annotations

import asyncio
import threading

import pytest

from core.errors import UsageError
from core.runtime.tasks import CpuTurnstile, raise_if_stopped, task_group, to_stoppable_thread
from tests.support.waiting import until


async def test_the_first_failure_of_a_group_leaves_as_itself() -> None:
    async def fail() -> None:
        raise UsageError("as itself")

    async def nested() -> None:
        async with task_group() as outer, task_group() as inner:
            inner.create_task(fail())
            outer.create_task(asyncio.sleep(30))
            await asyncio.sleep(30)

    with pytest.raises(UsageError, match="as itself"):
        await nested()


async def test_a_failed_group_does_not_confuse_the_time_out_around_it() -> None:
    async def fail() -> None:
        raise UsageError("as itself")

    async def group_then_hang() -> None:
        with pytest.raises(UsageError):
            await failing_group()
        await asyncio.sleep(30)

    async def failing_group() -> None:
        async with task_group() as tasks:
            tasks.create_task(fail())
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await group_then_hang()


async def test_heavy_steps_begin_in_order_with_a_round_of_the_loop_between_them() -> None:
    turns = CpuTurnstile()
    rounds = 0
    start_order = []

    async def count() -> None:
        nonlocal rounds
        while len(start_order) < 8:
            rounds += 1
            await asyncio.sleep(0)

    async def step(number: int) -> None:
        await turns.yield_turn()
        start_order.append((rounds, number))

    async with asyncio.timeout(60):
        await asyncio.gather(count(), *map(step, range(8)))
    assert [number for _, number in start_order] == list(range(8))
    assert len({at for at, _ in start_order}) == 8, "no two of them began in the same round"


async def test_who_is_cancelled_holds_up_no_turn() -> None:
    turns = CpuTurnstile()
    waiting_task = [asyncio.create_task(turns.yield_turn()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting_task[0].cancel()
    waiting_task[1].cancel()
    async with asyncio.timeout(60):
        await waiting_task[2]
        await turns.yield_turn()
    assert [task.cancelled() for task in waiting_task] == [True, True, False]


async def test_longer_steps_run_one_at_a_time_even_if_nobody_waits() -> None:
    turns = CpuTurnstile()
    at_work = 0
    max_at_work = 0
    result = []
    may_end = threading.Event()

    def work(number: int) -> int:
        nonlocal at_work, max_at_work
        at_work += 1
        max_at_work = max(max_at_work, at_work)
        assert may_end.wait(60)
        at_work -= 1
        result.append(number)
        return number

    steps = [asyncio.create_task(turns.run_in_thread(work, number)) for number in range(4)]
    await until(lambda: at_work)
    steps[0].cancel()
    steps[2].cancel()
    await asyncio.wait({steps[0], steps[2]}, timeout=60)
    await asyncio.sleep(0.1)
    may_end.set()
    async with asyncio.timeout(60):
        assert (await steps[1], await steps[3]) == (1, 3)
    assert (result, max_at_work) == ([0, 1, 3], 1), "the first one worked on, and the next one waited for it"
    assert [step.cancelled() for step in steps] == [True, False, True, False]


async def test_a_step_that_fails_says_so_and_holds_up_no_turn() -> None:
    turns = CpuTurnstile()
    with pytest.raises(ZeroDivisionError):
        await turns.run_in_thread(lambda: 1 // 0)
    async with asyncio.timeout(60):
        assert await turns.run_in_thread(max, 1, 2) == 2


async def test_a_thread_ends_with_its_caller() -> None:
    has_started, has_ended = threading.Event(), threading.Event()

    def work() -> None:
        has_started.set()
        try:
            while not has_ended.wait(0.001):
                raise_if_stopped()
        finally:
            has_ended.set()

    task = asyncio.create_task(to_stoppable_thread(work))
    await asyncio.to_thread(has_started.wait)
    assert not has_ended.is_set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(has_ended.wait, 30)


async def test_a_thread_that_nobody_stops_returns_its_result() -> None:
    def work(number: int) -> int:
        raise_if_stopped()
        return number

    assert await asyncio.gather(*(to_stoppable_thread(work, number) for number in range(3))) == [0, 1, 2]
    raise_if_stopped()
