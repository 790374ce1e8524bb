"""The first part of a reply: posted so that a crash at any moment leads to no second one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from bots.common.connection import BasicPace, RetryLater, Unreachable
from core.errors import PlatformError
from core.observability.logs import logger
from core.ports import Delivery


class Patience:
    """The patience for one reply on a platform.

    `way_out` is asked about any other failure: it returns when the call is to be made again, changed, and raises when
    there is no way out.
    """

    def __init__(self, platform: str, pace: BasicPace, way_out: Callable[[PlatformError], None] | None = None) -> None:
        self._platform = platform
        self._pace = pace
        self._way_out = way_out
        self._told_to_wait: RetryLater | None = None
        self._not_before = 0.0

    def hold(self, failure: RetryLater) -> None:
        """Note that the platform wants a pause: the next call that matters waits for it."""
        self._told_to_wait = failure
        self._not_before = asyncio.get_running_loop().time() + failure.seconds

    async def insist(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call until it is done, within the pace's patience; raise what is in its way for good.

        A connection that breaks after the platform took a message cannot be told from one that broke before. The
        message is then sent again: seen twice, rarely, is better than never.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._pace.patience_s
        failures = 0
        while True:
            # What was told a moment ago holds for this call as well.
            wait_s = self._not_before - loop.time()
            if self._told_to_wait is not None and wait_s > 0:
                await self._pause(wait_s, deadline, self._told_to_wait)
            failures += 1
            try:
                await call()
            except RetryLater as failure:
                await self._pause(failure.seconds, deadline, failure)
            except Unreachable as failure:
                await self._pause(self._pace.backoff(failures), deadline, failure)
            except PlatformError as failure:
                if self._way_out is None:
                    raise
                self._way_out(failure)
                await self._pause(0.0, deadline, failure)
            else:
                return

    async def to_the_end(self, call: Coroutine[None, None, None]) -> None:
        """Make a call whose outcome must be known: when cancelled, wait for it a little before giving it up."""
        task = asyncio.create_task(call, name=f"{self._platform} reply: post")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=self._pace.parting_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def _pause(self, wait_s: float, deadline: float, refused: PlatformError) -> None:
        if asyncio.get_running_loop().time() + wait_s > deadline:
            raise refused
        logger(__name__).info(f"{self._platform}.reply_delayed", wait_s=round(wait_s, 2), error=str(refused))
        await asyncio.sleep(wait_s)


async def announced(delivery: Delivery, post: Callable[[], Awaitable[str]]) -> None:
    """Post the first part of a reply, and tell the journal before and after it.

    `post` returns the reply's id. A definite refusal is told as one, so that a later try is no second post; where no
    answer came the part may have arrived all the same, and nothing is taken back.
    """
    await delivery.posting()
    try:
        reply_id = await post()
    except Unreachable:
        raise
    except PlatformError:
        await delivery.refused()
        raise
    await delivery.posted(reply_id)
