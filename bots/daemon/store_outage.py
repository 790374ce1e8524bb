"""Waiting for the server of the passage store, as the daemon waits for its platforms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

from core.errors import StoreUnreachable
from core.observability.logs import get_logger
from core.runtime.tasks import iter_retry_delays

_log = get_logger(__name__)

Opened = TypeVar("Opened")


async def enter_when_reachable(
    stack: AsyncExitStack, make_context: Callable[[], AbstractAsyncContextManager[Opened]]
) -> Opened:
    """Enter a context that needs the store, and try again for as long as its server does not answer."""
    delays = iter_retry_delays()
    while True:
        try:
            return await stack.enter_async_context(make_context())
        except StoreUnreachable as error:
            delay_s = next(delays)
            _log.error("store.unreachable", error=str(error), retry_s=delay_s)
            await asyncio.sleep(delay_s)
