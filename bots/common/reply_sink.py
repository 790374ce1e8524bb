"""What the sinks of all platforms have in common: a reply that grows while it is being written, and a single notice."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from bots.common.connection import Intervals
from bots.common.delivery_retry import DeliveryRetry
from bots.common.live_preview import LivePreview
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import get_rating_buttons
from core.ports import Delivery
from core.types import Button, Citation, Message, Reply


class FinalTextSink:
    """What a sink does that shows nothing before the reply is complete: nothing in `open` and `update`."""

    async def open(self) -> None:
        """Do nothing: the platform has acknowledged the message already."""

    async def update(self, text: str) -> None:
        """Do nothing: the reply is shown once."""


class ReplySink(ABC):
    """Writes the reply to one message: its first part grows while the answer is being written.

    States that could not be shown in time are skipped. The final reply takes as many messages as it needs; the rating
    buttons stand below the last one. `_recover` is asked about failures, see `DeliveryRetry`.
    """

    def __init__(self, platform: str, message: Message, delivery: Delivery, intervals: Intervals) -> None:
        self._message = message
        self._delivery = delivery
        self._shown_text = ""
        self._preview = LivePreview(f"{platform} reply {message.id}")
        self._retry = DeliveryRetry(platform, intervals, self._recover)

    async def open(self) -> None:
        """Show a first sign of life, and go on showing what `update` brings."""
        self._preview.start(self._run_preview)

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to show the states before."""
        self._preview.push(text)

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its sources."""
        await self._show_final(reply.text, reply.citations, get_rating_buttons(self._message, reply))

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._show_final(text, ())

    async def _show_final(self, text: str, citations: Sequence[Citation], buttons: Sequence[Button] = ()) -> None:
        await self._preview.join()
        first, *further_parts = await asyncio.to_thread(self._render, text, citations)
        first = self._mention_prefix() + first
        first_buttons = () if further_parts else buttons
        if first != self._shown_text or first_buttons or self._is_unfinished():
            await self._retry.run(lambda: self._show_first_part(first, first_buttons))
        for number, part in enumerate(further_parts, 1):
            await self._show_further_part(part, number, buttons if number == len(further_parts) else ())

    async def _show_further_part(self, text: str, number: int, buttons: Sequence[Button]) -> None:
        await self._retry.run(lambda: self._send_part(text, number, buttons))

    def _recover(self, error: PlatformError) -> None:
        """Change something so that the call that failed can be made again. Raises when there is no way out."""
        raise error

    def _mention_prefix(self) -> str:
        """Return what the first part begins with to notify people."""
        return ""

    def _is_unfinished(self) -> bool:
        """Return whether the first part must be shown once more even though its text is there already."""
        return False

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
    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> object:
        """Post a further part, counted from 1."""
