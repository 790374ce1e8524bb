"""Who is writing right now, where a platform tells: the bot that nobody asked lets people finish what they begin."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from core.ports import Adapter
from core.types import ConversationKey, Message

LOOK_S = 0.25


@runtime_checkable
class KnowsTyping(Protocol):
    """An adapter whose platform tells who is writing."""

    def is_typing(self, key: ConversationKey) -> bool:
        """Say whether somebody, not a bot, is writing there right now, as far as is known."""
        ...


async def let_them_finish(
    adapter: Adapter, message: Message, most_s: float, pause: Callable[[float], Awaitable[bool]]
) -> bool:
    """Wait while somebody writes where the message stands, its author too, at most `most_s` seconds.

    `pause` waits for some seconds and returns False when there is no time for that; then False is returned.
    """
    until = time.monotonic() + most_s
    while isinstance(adapter, KnowsTyping) and adapter.is_typing(message.key) and time.monotonic() < until:
        if not await pause(LOOK_S):
            return False
    return True
