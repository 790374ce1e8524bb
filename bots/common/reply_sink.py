"""The common part of all platforms' sinks: a reply that grows while it is being written, and a single notice."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from bots.common.connection import Intervals, Refused, RetryLater, Unreachable
from bots.common.delivery_retry import DeliveryRetry
from bots.common.markdown import EMPTY_REPLY
from bots.common.message_split import cut_markdown
from core.catalogue import Messages, messages_for
from core.errors import KimasError, PlatformError, PlatformUnavailable, UsageError
from core.language.languages import detect_language
from core.messaging.feedback.rating_buttons import get_rating_buttons
from core.messaging.policy.command_table import is_ask_command
from core.observability.logs import get_logger
from core.ports import Delivery, Sink
from core.runtime.tasks import wait_for
from core.types import Button, Citation, Message, Reply

_log = get_logger(__name__)

# Pieces of a part that was refused are shorter by this factor, and no shorter than this.
SHORTER_BY = 4
MIN_PIECE_CHARS = 200
# The pieces of a part are further parts: the second piece of part n is number n + 100.
PIECE_NUMBERS = 100
# How long a finished answer waits for the end of a call that only shows an earlier state.
LAST_STATE_S = 1.0


class FinalTextSink(Sink):
    """A sink that shows nothing before the reply is complete."""

    judges_updates = True

    async def open(self) -> None:
        """Do nothing: the platform has acknowledged the message already."""

    async def update(self, text: str) -> None:
        """Do nothing: the reply is shown once."""

    async def finish(self, reply: Reply) -> None:
        """Show the reply."""
        await self._show(reply, is_error=False)

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._show(Reply(text), is_error=True)

    @abstractmethod
    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        """Show a reply, or why there is none."""


class SilentSink(FinalTextSink):
    """Takes a reply and shows nothing: `--json` prints it as data."""

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        pass


def get_texts(message: Message) -> Messages:
    """Return the bot's own words beside the reply to a message, in its language."""
    return messages_for(message.reply_options.language or detect_language(message.text))


def cut_reply(message: Message, reply: Reply, max_chars: int) -> tuple[str, Sequence[Citation]]:
    """Return the text of a reply to a message and its citations; of a longer one, the beginning, and what it cites."""
    if len(reply.text) <= max_chars:
        return reply.text, reply.citations
    text = cut_markdown(reply.text, max_chars, get_texts(message).answer_cut)
    _log.warning("reply.shortened", chars=len(reply.text), max_chars=max_chars)
    return text, tuple(citation for citation in reply.citations if f"[{citation.n}]" in text)


class ReplySink(ABC):
    """Writes the reply to one message: its first part grows while the answer is being written.

    States that could not be shown in time are skipped. The final reply takes as many messages as it needs; the rating
    buttons are below the last one, the stop button (`_preview_buttons`) below the first one while it grows.
    `_recover` handles failures, see `DeliveryRetry`. A state that raises one of `skipped_errors` is skipped. A refused
    part is posted in another way, see `_show_plain`. A reply of more than `max_chars` is shortened, and says so.
    """

    judges_updates = True
    max_chars = 20_000

    skipped_errors: tuple[type[PlatformError], ...] = (Unreachable, Refused)

    def __init__(self, platform: str, message: Message, delivery: Delivery, intervals: Intervals) -> None:
        self._platform = platform
        self._message = message
        self._delivery = delivery
        self._shown_text = ""
        stop_button = message.reply_options.stop_button
        self._preview_buttons: Sequence[Button] = (stop_button,) if stop_button else ()
        self._has_preview_buttons = False
        self._preview = LivePreview(f"{platform} reply {message.id}", delivery)
        self._retry = DeliveryRetry(platform, delivery, intervals, self._recover)

    async def open(self) -> None:
        """Show that an answer is coming, and then the newest text of `update`."""
        self._preview.start(self._run_preview)

    async def update(self, text: str) -> None:
        """Set the reply so far. Raises the error that prevented earlier states from being shown."""
        self._preview.push(text[: self.max_chars])

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its sources; nothing after a command that has opened a form."""
        if not reply.text and not is_ask_command(self._message.command):
            await self._preview.join(lambda: self._retry.is_posting)
            return
        text, citations = cut_reply(self._message, reply, self.max_chars)
        await self._show_final(text, citations, get_rating_buttons(self._message, reply))

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._show_final(text, ())

    async def _show_final(self, text: str, citations: Sequence[Citation], buttons: Sequence[Button] = ()) -> None:
        if not await self._preview.join(lambda: self._retry.is_posting):
            # Nobody knows whether its last state arrived.
            self._shown_text = ""
        first, *further_parts = await asyncio.to_thread(self._render, text, citations)
        # A part may be more than its text: without a prefix it stays what it is.
        if prefix := self._mention_prefix():
            first = prefix + first
        first_buttons = () if further_parts else buttons
        if first != self._shown_text or first_buttons or self._has_preview_buttons or self._is_unfinished():
            await self._show_part(first, 0, first_buttons)
        for number, part in enumerate(further_parts, 1):
            await self._show_part(part, number, buttons if number == len(further_parts) else ())

    async def _show_part(self, part: str, number: int, buttons: Sequence[Button]) -> None:
        try:
            await self._deliver_part(part, number, buttons)
        except Refused as error:
            self._log_refusal(number, error)
            await self._show_plain(part, number)

    async def _deliver_part(self, part: str, number: int, buttons: Sequence[Button] = ()) -> None:
        if number:
            await self._retry.run(partial(self._post_part, part, number, buttons))
        else:
            await self._retry.run(partial(self._show_first_part, part, buttons))

    async def _show_plain(self, part: str, number: int) -> None:
        """Show a part that was refused: without markup and buttons, then anew instead of edited, then in pieces.

        The smallest pieces that are refused are left out, and a notice says so. Raises `Refused` if that is, too.
        """
        pieces = deque(self._to_plain(part))
        shown_count = 0
        has_notice = False
        may_withdraw = number == 0
        while pieces:
            piece = pieces.popleft()
            piece_number = number + PIECE_NUMBERS * shown_count
            try:
                await self._deliver_part(piece, piece_number)
            except Refused as error:
                self._log_refusal(piece_number, error)
                smaller_pieces = self._to_plain(piece, max(len(piece) // SHORTER_BY, MIN_PIECE_CHARS))
                if may_withdraw and not shown_count and await self._withdraw():
                    may_withdraw = False
                    pieces.appendleft(piece)
                elif len(smaller_pieces) > 1:
                    pieces.extendleft(reversed(smaller_pieces))
                elif not has_notice:
                    await self._deliver_part(get_texts(self._message).passage_refused, piece_number)
                    has_notice = True
                    shown_count = shown_count + 1
            else:
                shown_count += 1

    async def _show_preview(self, text: str) -> None:
        """Show the first part while it grows, with the button that stops it."""
        # Recorded first: a call that is cancelled half-way may have posted it.
        self._has_preview_buttons = bool(self._preview_buttons)
        await self._show_first_part(text, self._preview_buttons)

    def _log_refusal(self, number: int, error: Refused) -> None:
        _log.warning(f"{self._platform}.part_refused", part=number, error=str(error))

    async def _post_part(self, part: str, number: int, buttons: Sequence[Button]) -> None:
        """Post a further part unless it was posted; in doubt, look for it first."""
        part_id = self._delivery.parts.get(number)
        if part_id:
            return
        if part_id is not None:
            part_id = await self._retry.find(partial(self._find_part, part, number))
        if not part_id:
            await self._delivery.mark_part(number, "")
            part_id = await self._send_part(part, number, buttons)
        await self._delivery.mark_part(number, part_id)

    async def _find_part(self, text: str, number: int) -> str:
        """Return the id of a further part that an earlier try posted, or ""."""
        return ""

    async def _show_state(self, show: Callable[[str], Awaitable[None]], pause_s: float) -> float:
        """Show the newest state; return for how long not to show another one."""
        text = (await asyncio.to_thread(self._render, self._preview.text))[0]
        if text in (self._shown_text, EMPTY_REPLY):
            return 0
        try:
            await show(text)
        except RetryLater as error:
            self._retry.note_retry_after(error)
            self._preview.changed.set()
            return max(pause_s, error.seconds)
        except self.skipped_errors as error:
            _log.debug(f"{self._platform}.state_skipped", error=str(error))
            if isinstance(error, Refused) and self._preview_buttons:
                # The button may be the cause: try without it.
                self._preview_buttons = ()
                self._preview.changed.set()
        else:
            self._shown_text = text
        return pause_s

    async def _try_quietly(self, call: Awaitable[object]) -> None:
        """Make a call that cleans up: the answer does not depend on it."""
        try:
            await call
        except PlatformError as error:
            _log.info(f"{self._platform}.cleanup_failed", error=str(error))

    def _recover(self, error: PlatformError) -> None:
        """Change something so that the call that failed can be made again. Raises when there is no way out."""
        raise error

    def _mention_prefix(self) -> str:
        """Return what the first part begins with to notify people."""
        return ""

    def _is_unfinished(self) -> bool:
        """Return whether the first part must be shown once more although its text is already visible."""
        return False

    async def _withdraw(self) -> bool:
        """Take the first part away, where it can be, so that it is posted anew; return whether it was posted."""
        return False

    @abstractmethod
    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        """Return a part without markup, its links written out, in pieces of at most `max_chars` (0: a message)."""

    @abstractmethod
    async def _run_preview(self) -> None:
        """Show the newest states until the preview is closed."""

    @abstractmethod
    def _render(self, text: str, citations: Sequence[Citation] = ()) -> list[str]:
        """Return Markdown as messages in the platform's markup."""

    @abstractmethod
    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        """Show the first part: edit the reply where there is one, post it otherwise."""

    @abstractmethod
    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> str:
        """Post a further part, counted from 1, and return its id."""


class LivePreview:
    """The task that shows a reply's newest state, and what it and the sink share.

    The task that creates this object owns it. `changed` is set when there is a state to show, `closed` when none is to
    be shown any more. A call that fails for good ends the task, and its error is kept as `error`.
    """

    def __init__(self, name: str, delivery: Delivery) -> None:
        self._name = name
        self._delivery = delivery
        self._task: asyncio.Task[None] | None = None
        self._owner = asyncio.current_task()
        self.text = ""
        self.changed = asyncio.Event()
        self.closed = asyncio.Event()
        self.error: KimasError | None = None
        self._refusal: UsageError | None = None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(work), name=self._name)
        if self._owner is not None:
            self._owner.add_done_callback(lambda _: self._cancel())

    def push(self, text: str) -> None:
        """Note the reply so far. Raises the error that ended the task, also that nothing may be shown any more."""
        self.raise_error()
        if self._refusal is not None:
            raise self._refusal
        self.text = text
        self.changed.set()

    def raise_error(self) -> None:
        """Raise the error that ended the task, if there is one."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Show nothing more after the call that is being made."""
        self.closed.set()
        self.changed.set()

    async def join(self, is_posting: Callable[[], bool]) -> bool:
        """Stop, and wait a moment for the call that is being made; return false if it had to be cancelled.

        Only a post is waited for to its end: it must report its id. Raises the error that ended the task.
        """
        self.stop()
        is_complete = True
        while self._task is not None and not self._task.done():
            _, hanging_tasks = await asyncio.wait({self._task}, timeout=LAST_STATE_S)
            if hanging_tasks and not is_posting():
                is_complete = False
                self._task.cancel()
                await asyncio.wait(hanging_tasks)
        self.raise_error()
        return is_complete

    async def run_updates(
        self,
        show: Callable[[], Awaitable[float]],
        typing_indicator: Callable[[], Awaitable[None]] | None = None,
        typing_interval_s: float | None = None,
    ) -> None:
        """Call `show` for the newest state and pause for the seconds it returns, until the preview is closed.

        Until there is a text, `typing_indicator` is called every `typing_interval_s` seconds instead. Raises
        `ClaimLost`: this process may have stood still, and what another daemon wrote stays.
        """
        while not self.closed.is_set():
            if self.changed.is_set():
                self.changed.clear()
                await self._delivery.require_claim()
                await wait_for(self.closed, await show())
                continue
            shows_typing = typing_indicator is not None and not self.text
            if typing_indicator is not None and shows_typing:
                await typing_indicator()
            await wait_for(self.changed, typing_interval_s if shows_typing else None)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except PlatformUnavailable as error:
            # Even a rejected token loses no answer: the final reply waits in the journal until the platform accepts it.
            _log.info("reply.preview_ended", error=str(error))
        except UsageError as error:
            # It may not be shown any more, nor need it be written. Whether the final reply may is judged then.
            self._refusal = error
            _log.info("reply.preview_ended", error=type(error).__name__)
        except KimasError as error:
            self.error = self.error or error

    def _cancel(self) -> None:
        self.stop()
        if self._task is not None:
            self._task.cancel()
