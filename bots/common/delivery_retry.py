"""The first part of a reply: posted so that a crash at any moment leads to no second one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from bots.common.connection import Intervals, RetryLater, Unreachable
from core.errors import PlatformError
from core.observability.logs import get_logger
from core.ports import Delivery


class DeliveryRetry:
    """The patience for one reply on a platform.

    `way_out` is asked about any other failure: it returns when the call is to be made again, changed, and raises when
    there is no way out.
    """

    def __init__(
        self, platform: str, intervals: Intervals, recover: Callable[[PlatformError], None] | None = None
    ) -> None:
        self._platform = platform
        self._intervals = intervals
        self._recover = recover
        self._rate_limit_error: RetryLater | None = None
        self._not_before = 0.0

    def note_retry_after(self, error: RetryLater) -> None:
        """Note that the platform wants a pause: the next call that matters waits for it."""
        self._rate_limit_error = error
        self._not_before = asyncio.get_running_loop().time() + error.seconds

    async def run(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call until it is done, within the pace's patience; raise what is in its way for good.

        A connection that breaks after the platform took a message cannot be told from one that broke before. The
        message is then sent again: seen twice, rarely, is better than never.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._intervals.retry_timeout_s
        failure_count = 0
        while True:
            # What was told a moment ago holds for this call as well.
            wait_s = self._not_before - loop.time()
            if self._rate_limit_error is not None and wait_s > 0:
                await self._pause(wait_s, deadline, self._rate_limit_error)
            failure_count += 1
            try:
                await call()
            except RetryLater as error:
                await self._pause(error.seconds, deadline, error)
            except Unreachable as error:
                await self._pause(self._intervals.backoff(failure_count), deadline, error)
            except PlatformError as error:
                if self._recover is None:
                    raise
                self._recover(error)
                await self._pause(0.0, deadline, error)
            else:
                return

    async def run_uncancelled(self, call: Coroutine[None, None, None]) -> None:
        """Make a call whose outcome must be known: when cancelled, wait for it a little before giving it up."""
        task = asyncio.create_task(call, name=f"{self._platform} reply: post")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=self._intervals.shutdown_grace_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def _pause(self, wait_s: float, deadline: float, error: PlatformError) -> None:
        if asyncio.get_running_loop().time() + wait_s > deadline:
            raise error
        get_logger(__name__).info(f"{self._platform}.reply_delayed", wait_s=round(wait_s, 2), error=str(error))
        await asyncio.sleep(wait_s)


async def post_journaled(delivery: Delivery, post: Callable[[], Awaitable[str]]) -> None:
    """Post the first part of a reply, and tell the journal before and after it.

    `post` returns the reply's id. A definite refusal is told as one, so that a later try is no second post; where no
    answer came the part may have arrived all the same, and nothing is taken back.
    """
    await delivery.mark_posting()
    try:
        reply_id = await post()
    except Unreachable:
        raise
    except PlatformError:
        await delivery.mark_rejected()
        raise
    await delivery.mark_posted(reply_id)
