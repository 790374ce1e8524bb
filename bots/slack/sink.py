"""One reply on Slack: streamed where the workspace has that, else a post that is edited, and the final text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bots.common.connection import wait_for
from bots.common.delivery_retry import Patience, announced
from bots.common.live_preview import Showing
from bots.slack.errors import NotEditable, Pace, RetryLater, StillStreaming, StreamOver, Turns, Unavailable, Unreachable
from bots.slack.feedback import blocks_of, mentions
from bots.slack.render import EMPTY, STREAM_LIMIT, render, streamable
from bots.slack.status import Lacking, Sign
from core.errors import MessageGone
from core.messaging.feedback.rating_buttons import Offer, thumbs
from core.observability.logs import logger
from core.types import Citation, Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import Blocks, Client
    from bots.slack.thread_cache import Memory
    from core.ports import Delivery

PLACEHOLDER = "_Looking it up…_"


@dataclass(frozen=True, slots=True)
class Shared:
    """What all replies of one bot have in common."""

    client: Client
    memory: Memory
    turns: Turns
    lacking: Lacking
    pace: Pace


class SlackSink:
    """Writes the reply to one message.

    While the answer is being written its newest state is shown; states that could not be shown in time are skipped.
    Streamed text is Markdown that only grows; at the end the message is edited into its final form.
    """

    def __init__(self, shared: Shared, message: Message, delivery: Delivery, previous: str) -> None:
        self._shared = shared
        self._client, self._pace = shared.client, shared.pace
        self._delivery = delivery
        self._message = message
        self._channel, self._ts = str(message.reference["channel"]), str(message.reference["ts"])
        self._thread_ts: str | None = message.reference.get("thread_ts")
        self._sign = Sign(shared.client, shared.lacking, message)
        self._patience = Patience("slack", shared.pace)
        self._reply_ts = previous
        self._resumed = bool(previous)
        if previous:
            self._note_thread()
        # Streams exist in threads only.
        self._growing = self._thread_ts is not None and not previous and shared.lacking.has("streams", message.private)
        self._open_stream = False
        self._grown = self._shown = ""
        self._showing = Showing(f"slack reply {self._ts}")

    async def open(self) -> None:
        """Show a first sign, and go on showing what `update` brings."""
        self._showing.begin(self._stream)

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to show the states before."""
        self._showing.tell(text)

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its sources; what is too long for one message follows in more."""
        await self._conclude(reply.text, reply.citations, thumbs(self._message, reply))

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._conclude(text, ())

    async def _stream(self) -> None:
        over = self._showing.over
        if not await self._sign.show() and not self._reply_ts and not over.is_set():
            self._growing = False
            await self._skipping(lambda: self._put(PLACEHOLDER))
        await self._showing.each_state(self._show)

    async def _show(self) -> float:
        """Show the newest state when it is its turn; return for how long not to show another one."""
        name, interval_s = ("append", self._pace.append_s) if self._growing else ("edit", self._pace.edit_s)
        if await wait_for(self._showing.over, self._shared.turns.take(name, interval_s)):
            return 0
        if self._growing:
            await self._skipping(self._grow)
        if not self._growing:
            state = (await asyncio.to_thread(render, self._showing.text))[0]
            if state not in (self._shown, EMPTY):
                await self._skipping(lambda: self._put(state))
        return interval_s

    async def _skipping(self, call: Callable[[], Awaitable[None]]) -> None:
        """Show a state, or leave it to the next one."""
        try:
            await call()
        except RetryLater as failure:
            self._patience.hold(failure)
            self._showing.news.set()
            await wait_for(self._showing.over, failure.seconds)
        except Unreachable as failure:
            logger(__name__).debug("slack.state_skipped", error=str(failure))

    async def _grow(self) -> None:
        """Bring the streamed message up to date; where that cannot be done, leave it to edits."""
        visible = streamable(self._showing.text)[:STREAM_LIMIT]
        piece = visible[len(self._grown) :]
        if not visible.startswith(self._grown):
            self._growing = False
            return
        if not piece.strip():
            return
        try:
            if self._reply_ts:
                await self._client.append_stream(self._channel, self._reply_ts, piece)
            else:
                await self._post(lambda: self._begin_stream(piece))
        except RetryLater:
            raise
        except (StreamOver, Unavailable) as failure:
            self._growing = self._open_stream = False
            if isinstance(failure, Unavailable):
                self._shared.lacking.note("streams", self._message.private, failure)
            logger(__name__).debug("slack.stream_over", error=str(failure))
        except Unreachable:
            # Whether the piece arrived is not known, and it must not be seen twice.
            self._growing = False
            raise
        else:
            self._grown = visible

    async def _begin_stream(self, text: str) -> str:
        user, team = str(self._message.reference.get("user", "")), str(self._message.reference.get("team", ""))
        ts = await self._client.start_stream(self._channel, self._thread_ts or self._ts, text, team, user)
        self._open_stream = True
        return ts

    async def _conclude(self, text: str, citations: Sequence[Citation], buttons: Sequence[Offer] = ()) -> None:
        try:
            await self._showing.ended()
            first, *others = await asyncio.to_thread(render, text, citations)
            first = mentions(self._message) + first
            below_first = () if others else buttons
            if first != self._shown or self._open_stream or below_first:
                await self._patience.insist(lambda: self._put(first, below_first))
            for part in others:
                below = buttons if part is others[-1] else ()
                await self._patience.insist(lambda part=part, below=below: self._send(part, below))  # type: ignore[misc]
        finally:
            if not _cancelled():
                await self._sign.clear(posted=bool(self._reply_ts) and not self._resumed)

    async def _put(self, text: str, buttons: Sequence[Offer] = ()) -> None:
        """Show the first part: edit the reply where there is one, post it otherwise."""
        if self._reply_ts:
            try:
                await self._edit(text, blocks_of(text, buttons))
            except NotEditable as failure:
                logger(__name__).info("slack.reply_not_editable", error=str(failure))
                self._reply_ts = ""
        if not self._reply_ts:
            # Outside the post: the delivery's last look must not grow old, nor a post on its way outlive a deadline.
            await self._turn()
            await self._post(lambda: self._say(text, buttons))
        self._shown = text

    async def _edit(self, text: str, blocks: Blocks) -> None:
        if self._open_stream:
            await self._stop_stream()
        try:
            await self._client.update(self._channel, self._reply_ts, text, blocks)
        except StillStreaming:
            # Begun by a run that was killed.
            await self._stop_stream()
            await self._client.update(self._channel, self._reply_ts, text, blocks)

    async def _stop_stream(self) -> None:
        try:
            await self._client.stop_stream(self._channel, self._reply_ts)
        except StreamOver as failure:
            logger(__name__).debug("slack.stream_over", error=str(failure))
        self._open_stream = False

    async def _post(self, call: Callable[[], Awaitable[str]]) -> None:
        """Make the call that posts the first part, to its end, and say so before and after."""
        if self._shared.memory.is_gone(self._channel, self._ts):
            raise MessageGone("the question was deleted")

        async def post() -> str:
            self._reply_ts = await call()
            self._note_thread()
            return self._reply_ts

        await self._patience.to_the_end(announced(self._delivery, post))

    def _note_thread(self) -> None:
        if self._thread_ts is not None:
            self._shared.memory.answered(self._channel, self._thread_ts)

    async def _send(self, text: str, buttons: Sequence[Offer] = ()) -> str:
        await self._turn()
        return await self._say(text, buttons)

    async def _turn(self) -> None:
        """Wait until the channel takes another message."""
        await asyncio.sleep(self._shared.turns.take(f"post {self._channel}", self._pace.post_s))

    async def _say(self, text: str, buttons: Sequence[Offer]) -> str:
        return await self._client.post(self._channel, self._thread_ts, text, blocks_of(text, buttons))


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
