"""A bot of a platform that only records what it posts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bots.common.connection import TokenRefused
from core.ports import Adapter, Delivery, MessageHandler, Sink
from core.types import ConversationKey, Message
from tests.support.fixtures import MemorySink

QUESTION = "How do I change the signing key?"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(number: str, bot: str, **extra_fields: Any) -> Message:
    values: dict[str, Any] = {"author_id": "7", "author": "Ann", "text": QUESTION, "sent_at": NOW, "bot": bot}
    return Message(id=number, **{"key": ConversationKey("telegram", "-1001"), **values, **extra_fields})


class Plain(Adapter):
    """An adapter that delivers what it is given and remembers what it was asked for."""

    bot_id = ""

    def __init__(self, name: str, bot: str = "", *, can_take_over: bool = True) -> None:
        self.name = name
        self.bot_id = bot
        self.can_take_over = can_take_over
        self.inbox: list[Message] = []
        self.messages: list[Message] = []

    async def open(self) -> None:
        raise TokenRefused("the token is refused")

    async def listen(self, receive: MessageHandler) -> None:
        for item in self.inbox:
            await receive(item)

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        self.messages.append(message)
        return MemorySink()

    async def close(self) -> None:
        pass
