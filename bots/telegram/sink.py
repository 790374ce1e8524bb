"""One reply on Telegram: drafts in private chats, an edited message in groups, and the final text in either."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from bots.telegram.failures import (
    MarkupRejected,
    Moved,
    NotAllowed,
    NotEditable,
    NotModified,
    RetryLater,
    Unreachable,
)
from bots.telegram.markup import EMPTY, render
from bots.telegram.pace import Pace, wait_for
from bots.telegram.parts import plain
from core.errors import KimasError, MessageGone, PlatformError
from core.logs import logger
from core.types import Citation, Message, Reply

if TYPE_CHECKING:
    from bots.telegram.client import Client
    from core.ports import Delivery


class TelegramSink:
    """Writes the reply to one message.

    While the answer is being written one task shows its newest state: a draft in a private chat, in a group a message
    that replies to the question and is edited. It belongs to the task that made the sink and ends with it at the
    latest. A call that fails for good is raised by the next `update` or `finish`; states that could not be shown in
    time are skipped.
    """

    def __init__(self, client: Client, message: Message, delivery: Delivery, previous: str, pace: Pace) -> None:
        self._client = client
        self._delivery = delivery
        self._pace = pace
        self._chat_id = int(message.reference["chat_id"])
        self._thread_id: int | None = message.reference.get("thread_id")
        # In a private chat it is plain what is answered; only groups need the reply.
        self._question_id = None if message.private else int(message.reference["message_id"])
        self._draft_id = int(message.reference["message_id"])
        self._asker = str(message.reference.get("username", ""))
        self._reply_id = int(previous) if previous else None
        self._drafting = message.private and not previous
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
        self._streaming = asyncio.create_task(self._stream(), name=f"telegram reply {self._draft_id}")
        if self._owner is not None:
            self._owner.add_done_callback(lambda _: self._end())

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to show the states before."""
        if self._failure is not None:
            raise self._failure
        self._text = text
        self._news.set()

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its sources; what is too long for one message follows in more."""
        await self._conclude(reply.text, reply.citations)

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._conclude(text, ())

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
            self._failure = failure

    async def _typing(self) -> None:
        try:
            await self._client.typing(self._chat_id, self._thread_id)
        except (MessageGone, NotAllowed):
            raise
        except RetryLater as failure:
            self._hold(failure)
        except PlatformError as failure:
            logger(__name__).debug("telegram.typing_failed", error=str(failure))

    async def _show(self) -> float:
        """Show the newest state; return for how long not to show another one."""
        pause = self._pace.draft_s if self._drafting else self._pace.edit_s
        state = (await asyncio.to_thread(render, self._text, (), self._asker))[0]
        if state in (self._shown, EMPTY):
            return 0
        try:
            await self._draft(state) if self._drafting else await self._put(state)
        except NotModified:
            self._shown = state
        except RetryLater as failure:
            self._hold(failure)
            self._news.set()
            return max(pause, failure.seconds)
        except (Unreachable, Moved) as failure:
            logger(__name__).debug("telegram.state_skipped", error=str(failure))
        else:
            self._shown = state
        return pause

    async def _draft(self, html: str) -> None:
        target = (self._chat_id, self._thread_id, self._draft_id)
        try:
            try:
                await self._client.draft(*target, html, markup=True)
            except MarkupRejected:
                await self._client.draft(*target, plain(html), markup=False)
        except (NotAllowed, MessageGone, RetryLater, Unreachable):
            raise
        except PlatformError as failure:
            # An older Bot API server, or a chat without drafts: the final message comes all the same.
            logger(__name__).info("telegram.drafts_unavailable", error=str(failure))
            self._halt()

    async def _conclude(self, text: str, citations: Sequence[Citation]) -> None:
        self._halt()
        if self._streaming is not None:
            # Not cancelled: a message on its way must still report its id.
            await asyncio.wait({self._streaming})
        if self._failure is not None:
            raise self._failure
        first, *others = await asyncio.to_thread(render, text, citations, self._asker)
        if first != self._shown or self._drafting:
            await self._insist(lambda: self._put(first))
        for part in others:
            await self._insist(lambda part=part: self._send(part, None))  # type: ignore[misc]

    async def _put(self, html: str) -> None:
        """Show the first part: edit the reply where there is one, post it otherwise."""
        if self._reply_id is not None:
            try:
                await self._edit(self._reply_id, html)
                return
            except NotModified:
                # It shows this already, which is all that was wanted.
                return
            except NotEditable as failure:
                logger(__name__).info("telegram.reply_not_editable", error=str(failure))
                self._reply_id = None
        await self._to_the_end(self._post(html))

    async def _post(self, html: str) -> None:
        await self._delivery.posting()
        try:
            self._reply_id = await self._send(html, self._question_id)
        except Unreachable:
            # It may have arrived all the same.
            raise
        except PlatformError:
            await self._delivery.refused()
            raise
        await self._delivery.posted(str(self._reply_id))

    async def _to_the_end(self, call: Coroutine[None, None, None]) -> None:
        """Make a call whose outcome must be known: when cancelled, wait for it a little before giving it up."""
        task = asyncio.create_task(call, name=f"telegram reply {self._draft_id}: post")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=self._pace.parting_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise

    def _hold(self, failure: RetryLater) -> None:
        self._told_to_wait = failure
        self._not_before = asyncio.get_running_loop().time() + failure.seconds

    async def _edit(self, message_id: int, html: str) -> None:
        try:
            await self._client.edit(self._chat_id, message_id, html, markup=True)
        except MarkupRejected as failure:
            logger(__name__).warning("telegram.markup_rejected", error=str(failure))
            await self._client.edit(self._chat_id, message_id, plain(html), markup=False)

    async def _send(self, html: str, reply_to: int | None) -> int:
        target = (self._chat_id, self._thread_id)
        try:
            return await self._client.send(*target, html, markup=True, reply_to=reply_to)
        except MarkupRejected as failure:
            logger(__name__).warning("telegram.markup_rejected", error=str(failure))
            return await self._client.send(*target, plain(html), markup=False, reply_to=reply_to)

    async def _insist(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call that the reply depends on: wait as told, retry what may pass, within the pace's patience.

        A connection that breaks after Telegram took a message cannot be told from one that broke before. The message
        is then sent again: seen twice, rarely, is better than never.
        """
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
            except Moved as failure:
                # Nothing of the old group can be edited or replied to in the new one.
                self._chat_id, self._thread_id, self._question_id, self._reply_id = failure.chat_id, None, None, None
                wait_s, refused = 0.0, failure
            else:
                return
            await self._pause(wait_s, deadline, refused)

    async def _pause(self, wait_s: float, deadline: float, refused: PlatformError) -> None:
        if asyncio.get_running_loop().time() + wait_s > deadline:
            raise refused
        logger(__name__).info("telegram.reply_delayed", wait_s=round(wait_s, 2), error=str(refused))
        await asyncio.sleep(wait_s)
