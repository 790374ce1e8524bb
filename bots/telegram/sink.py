"""One reply on Telegram: drafts in private chats, an edited message in groups, and the final text in either."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bots.common.delivery_retry import Patience, announced
from bots.common.live_preview import Showing
from bots.telegram.client import MarkupRejected, Moved, NotAllowed, NotEditable, NotModified, RetryLater, Unreachable
from bots.telegram.feedback import mentions, rows_of
from bots.telegram.render import EMPTY, plain, render
from core.errors import MessageGone, PlatformError
from core.messaging.feedback.rating_buttons import thumbs
from core.observability.logs import logger
from core.types import Citation, Message, Reply

if TYPE_CHECKING:
    from bots.telegram.client import Client, Pace, Rows
    from core.ports import Delivery


class TelegramSink:
    """Writes the reply to one message.

    While the answer is being written its newest state is shown: as a draft in a private chat, in a group as a message
    that replies to the question and is edited. States that could not be shown in time are skipped.
    """

    def __init__(self, client: Client, message: Message, delivery: Delivery, previous: str, pace: Pace) -> None:
        self._client = client
        self._delivery = delivery
        self._pace = pace
        self._chat_id = int(message.reference["chat_id"])
        self._thread_id: int | None = message.reference.get("thread_id")
        # 0 where nothing is replied to. In a private chat it is plain what is answered; only groups need the reply.
        self._draft_id = int(message.reference["message_id"])
        self._question_id = None if message.private else self._draft_id or None
        self._message = message
        self._asker = str(message.reference.get("username", ""))
        self._reply_id = int(previous) if previous else None
        self._drafting = message.private and not previous
        self._shown = ""
        self._showing = Showing(f"telegram reply {self._draft_id}")
        self._patience = Patience("telegram", pace, self._move)

    async def open(self) -> None:
        """Show that the bot is typing, and go on showing what `update` brings."""
        self._showing.begin(lambda: self._showing.each_state(self._show, self._typing, self._pace.typing_s))

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to show the states before."""
        self._showing.tell(text)

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its sources; what is too long for one message follows in more."""
        await self._conclude(reply.text, reply.citations, rows_of(thumbs(self._message, reply)))

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._conclude(text, ())

    async def _typing(self) -> None:
        try:
            await self._client.typing(self._chat_id, self._thread_id)
        except (MessageGone, NotAllowed):
            raise
        except RetryLater as failure:
            self._patience.hold(failure)
        except PlatformError as failure:
            logger(__name__).debug("telegram.typing_failed", error=str(failure))

    async def _show(self) -> float:
        """Show the newest state; return for how long not to show another one."""
        pause = self._pace.draft_s if self._drafting else self._pace.edit_s
        state = (await asyncio.to_thread(render, self._showing.text, (), self._asker))[0]
        if state in (self._shown, EMPTY):
            return 0
        try:
            await self._draft(state) if self._drafting else await self._put(state)
        except NotModified:
            self._shown = state
        except RetryLater as failure:
            self._patience.hold(failure)
            self._showing.news.set()
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
            self._showing.halt()

    async def _conclude(self, text: str, citations: Sequence[Citation], buttons: Rows = ()) -> None:
        await self._showing.ended()
        first, *others = await asyncio.to_thread(render, text, citations, self._asker)
        first = mentions(self._message) + first
        below_first = () if others else buttons
        if first != self._shown or self._drafting or below_first:
            await self._patience.insist(lambda: self._put(first, below_first))
        for part in others:
            below = buttons if part is others[-1] else ()
            await self._patience.insist(lambda part=part, below=below: self._send(part, None, below))  # type: ignore[misc]

    async def _put(self, html: str, buttons: Rows = ()) -> None:
        """Show the first part: edit the reply where there is one, post it otherwise."""
        if self._reply_id is not None:
            try:
                await self._edit(self._reply_id, html, buttons)
                return
            except NotModified:
                # It shows this already, which is all that was wanted.
                return
            except NotEditable as failure:
                logger(__name__).info("telegram.reply_not_editable", error=str(failure))
                self._reply_id = None
        await self._patience.to_the_end(announced(self._delivery, lambda: self._post(html, buttons)))

    async def _post(self, html: str, buttons: Rows) -> str:
        self._reply_id = await self._send(html, self._question_id, buttons)
        return str(self._reply_id)

    def _move(self, failure: PlatformError) -> None:
        """Go on in the group that this one became. Nothing of the old one can be edited or replied to there."""
        if not isinstance(failure, Moved):
            raise failure
        self._chat_id, self._thread_id, self._question_id, self._reply_id = failure.chat_id, None, None, None

    async def _edit(self, message_id: int, html: str, buttons: Rows) -> None:
        try:
            await self._client.edit(self._chat_id, message_id, html, markup=True, buttons=buttons)
        except MarkupRejected as failure:
            logger(__name__).warning("telegram.markup_rejected", error=str(failure))
            await self._client.edit(self._chat_id, message_id, plain(html), markup=False, buttons=buttons)

    async def _send(self, html: str, reply_to: int | None, buttons: Rows = ()) -> int:
        target = (self._chat_id, self._thread_id)
        try:
            return await self._client.send(*target, html, markup=True, reply_to=reply_to, buttons=buttons)
        except MarkupRejected as failure:
            logger(__name__).warning("telegram.markup_rejected", error=str(failure))
            return await self._client.send(*target, plain(html), markup=False, reply_to=reply_to, buttons=buttons)
