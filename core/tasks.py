"""Structured concurrency with plain errors: the first failure of a group leaves as itself, not wrapped in a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks that live no longer than the block. When one fails the others are cancelled and its error leaves."""
    task = asyncio.current_task()
    pending = task.cancelling() if task else 0
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        # Python 3.11 leaves behind the cancellation by which the group left its block; a time-out around us would take
        # it for somebody else's.
        while task and task.cancelling() > pending:
            task.uncancel()
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from first.__cause__
