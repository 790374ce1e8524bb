"""One reply on Slack: streamed where the workspace allows it, else a message that is edited, and the final text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from bots.common.connection import NotEditable, Refused, RetryLater, Unreachable
from bots.common.judged_client import judge_calls
from bots.common.markdown import EMPTY_REPLY
from bots.common.reply_sink import ReplySink
from bots.slack.agent_view import AgentSession
from bots.slack.connection import (
    BlocksRefused,
    MethodUnavailable,
    RateLimiter,
    SlackIntervals,
    StillStreaming,
    ThreadRefused,
)
from bots.slack.convert import Identity
from bots.slack.feedback import are_rating_buttons, render_mentions, to_blocks, to_button_block
from bots.slack.render import MAX_STREAM_CHARS, get_streamable_prefix, render, to_plain
from bots.slack.status import MissingCapabilities, StatusIndicator
from bots.slack.thread_cache import ThreadCache
from core.errors import MessageDeleted, PlatformError
from core.observability.logs import get_logger
from core.ports import Delivery
from core.runtime.tasks import wait_for
from core.types import Button, Citation, Message

if TYPE_CHECKING:
    from bots.slack.client import Blocks, SlackClient

_log = get_logger(__name__)

Result = TypeVar("Result")

PLACEHOLDER = "_Looking it up…_"


@dataclass(frozen=True, slots=True)
class SlackSinkContext:
    """The common context of all replies of one bot."""

    client: SlackClient
    thread_cache: ThreadCache
    rate_limiter: RateLimiter
    missing_capabilities: MissingCapabilities
    intervals: SlackIntervals
    me: Identity
    # By channel and thread: the question that is being answered there, and the threads that have no title yet.
    open_questions: dict[tuple[str, str], str]
    untitled_threads: dict[tuple[str, str], None]


class SlackSink(ReplySink):
    """Writes the reply to one message.

    Streamed text is Markdown that only grows; at the end the message is edited into its final form.
    """

    def __init__(self, context: SlackSinkContext, message: Message, delivery: Delivery, previous_reply_id: str) -> None:
        super().__init__("slack", message, delivery, context.intervals)
        self._context = context
        self._client = judge_calls(context.client, delivery)
        self._intervals = context.intervals
        self._channel = str(message.reference["channel"])
        self._ts = str(message.reference["ts"])
        self._thread_ts: str | None = message.reference.get("thread_ts")
        self._thread_key = self._channel, self._thread_ts or ""
        self._status_indicator = StatusIndicator(context.client, context.missing_capabilities, message)
        self._session = AgentSession(context.client, context.missing_capabilities, message, context.me)
        self._reply_ts = previous_reply_id
        self._is_resumed = bool(previous_reply_id)
        if previous_reply_id:
            self._mark_thread_answered()
        # Streams exist in threads only.
        self._is_streaming = (
            self._thread_ts is not None
            and not (previous_reply_id or delivery.is_in_doubt)
            and context.missing_capabilities.is_available("streams", message.private)
        )
        self._has_open_stream = False
        self._streamed_text = ""

    async def open(self) -> None:
        """Show a first sign of life, and go on showing what `update` brings."""
        self._context.open_questions[self._thread_key] = self._message.id
        await super().open()

    async def _run_preview(self) -> None:
        closed_event = self._preview.closed
        if not await self._status_indicator.show() and not self._reply_ts and not closed_event.is_set():
            self._is_streaming = False
            await self._try_show(lambda: self._show_preview(PLACEHOLDER))
        is_untitled = self._thread_key in self._context.untitled_threads
        self._context.untitled_threads.pop(self._thread_key, None)
        if not closed_event.is_set():
            await self._session.begin(is_untitled=is_untitled)
        await self._preview.run_updates(self._show_next_state)

    async def _show_next_state(self) -> float:
        """Show the newest state when it is its turn; return for how long not to show another one."""
        limit_name, interval_s = (
            ("append", self._intervals.append_s) if self._is_streaming else ("edit", self._intervals.edit_s)
        )
        if await wait_for(self._preview.closed, self._context.rate_limiter.reserve(limit_name, interval_s)):
            return 0
        if self._is_streaming:
            await self._try_show(self._extend_stream)
        if not self._is_streaming:
            text = (await asyncio.to_thread(self._render, self._preview.text))[0]
            if text not in (self._shown_text, EMPTY_REPLY):
                await self._try_show(lambda: self._show_preview(text))
        return interval_s

    async def _try_show(self, call: Callable[[], Awaitable[None]]) -> None:
        """Show a state, or leave it to the next one."""
        try:
            await call()
        except RetryLater as error:
            self._retry.note_retry_after(error)
            self._preview.changed.set()
            await wait_for(self._preview.closed, error.seconds)
        except self.skipped_errors as error:
            _log.debug("slack.state_skipped", error=str(error))
            if isinstance(error, Refused) and self._preview_buttons:
                self._preview_buttons = ()
                self._preview.changed.set()

    async def _extend_stream(self) -> None:
        """Bring the streamed message up to date; where that cannot be done, leave it to edits."""
        visible_text = get_streamable_prefix(self._preview.text)[:MAX_STREAM_CHARS]
        delta = visible_text[len(self._streamed_text) :]
        if not visible_text.startswith(self._streamed_text):
            self._is_streaming = False
            return
        if not delta.strip():
            return
        try:
            if self._reply_ts:
                await self._client.append_stream(self._channel, self._reply_ts, delta)
            else:
                await self._post_first_part(lambda: self._start_stream(delta))
        except RetryLater:
            raise
        except Refused as error:
            # After any refusal, edits continue the reply. The first of them closes a stream that is still open.
            self._is_streaming = False
            if isinstance(error, MethodUnavailable):
                self._context.missing_capabilities.mark_missing("streams", self._message.private, error)
            _log.debug("slack.stream_refused", error=str(error))
        except Unreachable:
            # Whether the piece arrived is unknown, and it must not be shown twice.
            self._is_streaming = False
            raise
        else:
            self._streamed_text = visible_text

    async def _start_stream(self, text: str) -> str:
        buttons = self._preview_buttons
        capabilities = self._context.missing_capabilities
        if not buttons or not capabilities.is_available("stream_buttons", self._message.private):
            return await self._open_stream(text, ())
        try:
            return await self._open_stream(text, [to_button_block(buttons)])
        except (MethodUnavailable, ThreadRefused):
            raise
        except Refused as error:
            ts = await self._open_stream(text, ())
            capabilities.mark_missing("stream_buttons", self._message.private, error)
            return ts

    async def _open_stream(self, text: str, blocks: Blocks) -> str:
        recipient = str(self._message.reference.get("team", "")), str(self._message.reference.get("user", ""))
        ts = await self._client.start_stream(self._channel, self._thread_ts or self._ts, text, recipient, blocks)
        self._has_open_stream = True
        return ts

    def _recover(self, error: PlatformError) -> None:
        """Continue in the channel itself where it takes no threads."""
        if not isinstance(error, ThreadRefused) or self._thread_ts is None:
            raise error
        _log.info("slack.thread_refused", error=str(error))
        self._thread_ts = None
        self._is_streaming = False

    async def _show_final(self, text: str, citations: Sequence[Citation], buttons: Sequence[Button] = ()) -> None:
        try:
            await super()._show_final(text, citations, buttons)
        finally:
            if self._context.open_questions.get(self._thread_key) == self._message.id:
                del self._context.open_questions[self._thread_key]
            if not _is_cancelled():
                await self._status_indicator.clear(posted=bool(self._reply_ts) and not self._is_resumed)
                await self._session.end()

    def _render(self, text: str, citations: Sequence[Citation] = ()) -> list[str]:
        return render(text, citations)

    def _mention_prefix(self) -> str:
        return render_mentions(self._message)

    def _is_unfinished(self) -> bool:
        return self._has_open_stream

    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        if self._reply_ts:
            try:
                await self._edit(text, buttons)
            except NotEditable as error:
                _log.info("slack.reply_not_editable", error=str(error))
                await self._withdraw()
        if not self._reply_ts:
            # Before the post: the last check of the delivery must be fresh, and the post must meet its deadline.
            await self._wait_for_slot()
            if await self._post_first_part(lambda: self._post_message(text, buttons)):
                await self._edit(text, buttons)
        self._shown_text = text

    async def _edit(self, text: str, buttons: Sequence[Button]) -> None:
        if self._has_open_stream:
            await self._stop_stream()

        async def update(blocks: Blocks) -> None:
            await self._client.update(self._channel, self._reply_ts, text, blocks, label=self._label())

        try:
            await self._show_blocks(update, text, buttons)
        except StillStreaming:
            # A process that was killed began the stream.
            await self._stop_stream()
            await self._show_blocks(update, text, buttons)

    async def _show_blocks(
        self, show: Callable[[Blocks], Awaitable[Result]], text: str, buttons: Sequence[Button]
    ) -> Result:
        """Show a text with buttons: with Slack's own thumbs where the workspace has them, else with plain ones."""
        capabilities = self._context.missing_capabilities
        is_private = self._message.private
        if not are_rating_buttons(buttons) or not capabilities.is_available("feedback_buttons", is_private):
            return await show(to_blocks(text, buttons))
        try:
            return await show(to_blocks(text, buttons, has_feedback_buttons=True))
        except BlocksRefused as error:
            result = await show(to_blocks(text, buttons))
            # It was not the text.
            capabilities.mark_missing("feedback_buttons", is_private, error)
            return result

    async def _stop_stream(self) -> None:
        try:
            await self._client.stop_stream(self._channel, self._reply_ts)
        except Refused as error:
            _log.debug("slack.stream_refused", error=str(error))
        self._has_open_stream = False

    async def _withdraw(self) -> bool:
        reply_ts = self._reply_ts
        self._reply_ts = ""
        if reply_ts:
            await self._try_quietly(self._client.delete(self._channel, reply_ts))
        return bool(reply_ts)

    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        return to_plain(part, max_chars)

    async def _post_first_part(self, call: Callable[[], Awaitable[str]]) -> bool:
        """Make the call that posts the first part, uncancelled, and note it in the journal.

        Returns whether an earlier try had posted it, with another text perhaps.
        """
        if self._context.thread_cache.is_deleted(self._channel, self._ts):
            raise MessageDeleted("the question was deleted")

        earlier_ts = ""

        async def find() -> str:
            nonlocal earlier_ts
            earlier_ts = await self._client.find_own(self._channel, self._thread_ts, self._ts, self._label())
            return earlier_ts

        self._reply_ts = await self._retry.post(call, find)
        self._mark_thread_answered()
        return bool(earlier_ts)

    def _label(self, part_number: int = 0) -> str:
        """Return what a part is found by in the channel's history."""
        return f"{self._message.id}/{part_number}"

    def _mark_thread_answered(self) -> None:
        if self._thread_ts is not None:
            self._context.thread_cache.mark_answered(self._channel, self._thread_ts)

    async def _post_part(self, part: str, number: int, buttons: Sequence[Button]) -> None:
        if not self._delivery.parts.get(number):
            # Before the part is recorded, which is when it is judged a last time.
            await self._wait_for_slot()
        await super()._post_part(part, number, buttons)

    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> str:
        return await self._post_message(text, buttons, number)

    async def _find_part(self, text: str, number: int) -> str:
        return await self._client.find_own(self._channel, self._thread_ts, self._ts, self._label(number))

    async def _wait_for_slot(self) -> None:
        """Wait until the channel takes another message."""
        await asyncio.sleep(self._context.rate_limiter.reserve(f"post {self._channel}", self._intervals.post_s))

    async def _post_message(self, text: str, buttons: Sequence[Button], number: int = 0) -> str:
        async def post(blocks: Blocks) -> str:
            return await self._client.post(self._channel, self._thread_ts, text, blocks, label=self._label(number))

        return await self._show_blocks(post, text, buttons)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
