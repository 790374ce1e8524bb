"""One reply on Discord: a message that replies to the question and grows by edits, or the response to a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from bots.discord.failures import Expired, NotAllowed, RetryLater, TokenRefused, Unreachable
from bots.discord.markup import EMPTY, render
from bots.telegram.pace import wait_for
from core.errors import KimasError, MessageGone, PlatformError
from core.logs import logger
from core.types import Citation, Reply

if TYPE_CHECKING:
    from bots.discord.pace import Pace
    from bots.discord.targets import Target
    from core.ports import Delivery


class DiscordSink:
    """Writes one reply.

    While the answer is being written one task shows its newest state. It belongs to the task that made the sink and
    ends with it at the latest. A call that fails for good is raised by the next `update` or `finish`; states that
    could not be shown in time are skipped. `otherwise` takes the reply when a slash command can no longer be answered.
    """

    def __init__(
        self, target: Target, delivery: Delivery, previous: str, pace: Pace, otherwise: Target | None = None
    ) -> None:
        self._target = target
        self._otherwise = otherwise
        self._delivery = delivery
        self._pace = pace
        self._reply_id = previous
        self._text = ""
        self._shown = ""
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._streaming: asyncio.Task[None] | None = None
        self._failure: KimasError | None = None
        self._owner = asyncio.current_task()
        self._told_to_wait: RetryLater | None = None
        self._not_before = 0.0

    async def open(self) -> None:
        """Show that the bot is typing, and go on showing what `update` brings."""
        self._streaming = asyncio.create_task(self._stream(), name="discord reply")
        if self._owner is not None:
            self._owner.add_done_callback(lambda _: self._end())

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to show the states before."""
        self._check()
        self._text = text
        self._news.set()

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its sources; what is too long for one message follows in more."""
        await self._conclude(reply.text, reply.citations)

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._conclude(text, ())

    def question_deleted(self) -> None:
        """Note that the question was deleted: nothing is posted any more; a reply that is there is completed."""
        if not self._reply_id and self._failure is None:
            self._failure = MessageGone("the question was deleted")

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _halt(self) -> None:
        self._over.set()
        self._news.set()

    def _end(self) -> None:
        self._halt()
        if self._streaming is not None:
            self._streaming.cancel()

    async def _stream(self) -> None:
        try:
            while not self._over.is_set():
                if not self._news.is_set():
                    if not self._text:
                        await self._typing()
                    await wait_for(self._news, None if self._text else self._pace.typing_s)
                    continue
                self._news.clear()
                await wait_for(self._over, await self._show())
        except KimasError as failure:
            self._failure = self._failure or failure

    async def _typing(self) -> None:
        try:
            await self._target.typing()
        except (MessageGone, NotAllowed, TokenRefused):
            raise
        except RetryLater as failure:
            # Typing has a limit of its own, which holds for nothing else.
            logger(__name__).debug("discord.typing_skipped", wait_s=failure.seconds)
        except Expired as failure:
            self._move(failure)
        except PlatformError as failure:
            logger(__name__).debug("discord.typing_failed", error=str(failure))

    async def _show(self) -> float:
        """Show the newest state; return for how long not to show another one."""
        state = (await asyncio.to_thread(render, self._text))[0]
        if state in (self._shown, EMPTY):
            return 0
        try:
            await self._put(state)
        except RetryLater as failure:
            self._told_to_wait = failure
            self._not_before = asyncio.get_running_loop().time() + failure.seconds
            self._news.set()
            return max(self._pace.edit_s, failure.seconds)
        except Expired as failure:
            self._move(failure)
        except Unreachable as failure:
            logger(__name__).debug("discord.state_skipped", error=str(failure))
        else:
            self._shown = state
        return self._pace.edit_s

    async def _conclude(self, text: str, citations: Sequence[Citation]) -> None:
        self._halt()
        if self._streaming is not None:
            # Not cancelled: a message on its way must still report its id.
            await asyncio.wait({self._streaming})
        self._check()
        first, *others = await asyncio.to_thread(render, text, citations)
        if first != self._shown:
            await self._insist(lambda: self._put(first))
        for number, part in enumerate(others, 1):
            await self._insist(lambda part=part, number=number: self._target.add(part, number))  # type: ignore[misc]

    async def _put(self, text: str) -> None:
        """Show the first part: edit the reply where there is one, post it otherwise."""
        if self._reply_id:
            await self._target.edit(self._reply_id, text)
            return
        self._check()
        await self._to_the_end(self._post(text))

    async def _post(self, text: str) -> None:
        await self._delivery.posting()
        try:
            self._reply_id = await self._target.post(text)
        except Unreachable:
            # It may have arrived all the same; the nonce keeps a second try from doubling it.
            raise
        except PlatformError:
            await self._delivery.refused()
            raise
        await self._delivery.posted(self._reply_id)

    async def _to_the_end(self, call: Coroutine[None, None, None]) -> None:
        """Make a call whose outcome must be known: when cancelled, wait for it a little before giving it up."""
        task = asyncio.create_task(call, name="discord reply: post")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=self._pace.parting_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise

    def _move(self, failure: Expired) -> None:
        """Go on in the channel, when the token of a slash command is of no more use. Raises when that is no way out."""
        if self._otherwise is None:
            raise failure
        logger(__name__).info("discord.command_expired", error=str(failure))
        self._target, self._otherwise = self._otherwise, None

    async def _insist(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call that the reply depends on: wait as told, retry what may pass, within the pace's patience."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._pace.patience_s
        failures = 0
        refused: PlatformError
        while True:
            # What the stream was told a moment ago holds for the final reply as well.
            wait_s = self._not_before - loop.time()
            if self._told_to_wait is not None and wait_s > 0:
                await self._pause(wait_s, deadline, self._told_to_wait)
            failures += 1
            try:
                await call()
            except RetryLater as failure:
                wait_s, refused = failure.seconds, failure
            except Unreachable as failure:
                wait_s, refused = self._pace.backoff(failures), failure
            except Expired as failure:
                self._move(failure)
                continue
            else:
                return
            await self._pause(wait_s, deadline, refused)

    async def _pause(self, wait_s: float, deadline: float, refused: PlatformError) -> None:
        if asyncio.get_running_loop().time() + wait_s > deadline:
            raise refused
        logger(__name__).info("discord.reply_delayed", wait_s=round(wait_s, 2), error=str(refused))
        await asyncio.sleep(wait_s)
