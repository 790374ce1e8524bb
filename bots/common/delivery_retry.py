"""Delivering a reply: calls are retried; neither a lost response nor a crash leads to a second post."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from bots.common.connection import Intervals, RetryLater, Unreachable
from core.errors import PlatformError, PlatformUnavailable, UsageError
from core.observability.logs import get_logger
from core.ports import Delivery

_log = get_logger(__name__)

FindPost = Callable[[], Awaitable[str]]


class DeliveryRetry:
    """Retries the calls that deliver one reply: those of a client that asks first (`bots.common.judged_client`).

    `recover` handles errors that a pause does not cure: it changes something and returns, so that the call is made
    again, or raises the error. `is_posting` is true while a first part is being posted.
    """

    def __init__(
        self,
        platform: str,
        delivery: Delivery,
        intervals: Intervals,
        recover: Callable[[PlatformError], None] | None = None,
    ) -> None:
        self._platform = platform
        self._delivery = delivery
        self._intervals = intervals
        self._recover = recover
        self._rate_limit_error: RetryLater | None = None
        self._not_before = 0.0
        self._is_in_doubt = False
        self.is_posting = False

    def note_retry_after(self, error: RetryLater) -> None:
        """Note that the platform asked for a pause: the next call of `run` waits for it."""
        self._rate_limit_error = error
        self._not_before = asyncio.get_running_loop().time() + error.seconds

    async def run(self, call: Callable[[], Awaitable[object]]) -> None:
        """Repeat a call until it succeeds, for at most `retry_timeout_s`. Raises the last error.

        Raises `UsageError` where the reply may not be shown any more: a source may be closed while a platform is away.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._intervals.retry_timeout_s
        failure_count = 0
        while True:
            # A pause that the platform asked for a moment ago applies to this call as well.
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

    async def post(
        self,
        post: Callable[[], Awaitable[str]],
        find: FindPost | None = None,
        check: Callable[[], Awaitable[object]] | None = None,
    ) -> str:
        """Post the first part of a reply, uncancelled, note it in the journal before and after, and return its id.

        `check` asks the platform whether the part may still be posted, and raises `PlatformError` where it may not.

        A definite refusal is noted, so that a later try is no second post. Where no answer came, the part may have
        arrived all the same, and the journal keeps it as posting. The next try, of this run or of the next one, then
        calls `find`, which returns the id of the part that is there, or "".
        """
        self.is_posting = True
        try:
            return await self._run_uncancelled(self._post_journaled(post, find, check))
        finally:
            self.is_posting = False

    async def _post_journaled(
        self,
        post: Callable[[], Awaitable[str]],
        find: FindPost | None,
        check: Callable[[], Awaitable[object]] | None,
    ) -> str:
        delivery = self._delivery
        if find and (self._is_in_doubt or delivery.is_in_doubt) and (reply_id := await self.find(find)):
            _log.info(f"{self._platform}.reply_recovered", reply=reply_id)
        else:
            if check:
                # Before the delivery's own check: that knows a deadline, which may pass while the platform is slow.
                await self._check(check)
            await delivery.mark_posting()
            try:
                reply_id = await post()
            except Unreachable:
                self._is_in_doubt = True
                raise
            except (PlatformError, UsageError):
                await delivery.mark_rejected()
                raise
        await delivery.mark_posted(reply_id)
        return reply_id

    async def _check(self, check: Callable[[], Awaitable[object]]) -> None:
        try:
            await check()
        except PlatformUnavailable:
            raise
        except PlatformError:
            await self._delivery.mark_rejected()
            raise

    async def find(self, find: FindPost) -> str:
        """Look for a post that an earlier try may have made; return its id, or "" also where nobody can look."""
        try:
            return await find()
        except PlatformUnavailable:
            raise
        except PlatformError as error:
            # To see an answer twice, rarely, is better than never.
            _log.warning(f"{self._platform}.reply_in_doubt", error=str(error))
            return ""

    async def _run_uncancelled(self, call: Coroutine[None, None, str]) -> str:
        """Make a call whose outcome must be known: when cancelled, wait `shutdown_grace_s` for it first."""
        task = asyncio.create_task(call, name=f"{self._platform} reply: post")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=self._intervals.shutdown_grace_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def _pause(self, wait_s: float, deadline: float, error: PlatformError) -> None:
        if asyncio.get_running_loop().time() + wait_s > deadline:
            raise error
        _log.info(f"{self._platform}.reply_delayed", wait_s=round(wait_s, 2), error=str(error))
        await asyncio.sleep(wait_s)
