"""Messages that a message processor judges and answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqlalchemy import text

from core.messaging.inbox import Inbox
from core.ports import AnswerFunction, Delivery, Sink
from core.storage.messages import Journal
from core.types import ConversationKey, Message, Question, Reply
from tests.support.fixtures import IdleAdapter, InMemoryLibrary, MemorySink, settings
from tests.support.wiring import make_processor

CHAT = ConversationKey("test", "room")
MESSAGE = Message("1", CHAT, "42", "Ann", "How?", datetime(2026, 1, 2, tzinfo=UTC), addressed=True)


@dataclass
class RecordingAdapter(IdleAdapter):
    """An adapter that remembers its sinks by message id."""

    name: str = "test"
    sinks: dict[str, MemorySink] = field(default_factory=dict)
    previous: dict[str, str] = field(default_factory=dict)
    deliveries: dict[str, Delivery] = field(default_factory=dict)

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        self.sinks[message.id] = MemorySink()
        self.previous[message.id] = previous_reply_id
        self.deliveries[message.id] = delivery
        return self.sinks[message.id]


async def echo(question: Question, sink: Sink) -> Reply:
    reply = Reply(f"{len(question.history)}: {question.text}")
    await sink.finish(reply)
    return reply


async def get_state(journal: Journal, message: Message) -> tuple[str, str]:
    async with journal.database.connect() as connection:
        query = text("SELECT state, reason FROM messages WHERE id = :id")
        row = (await connection.execute(query, {"id": message.id})).one()
    return str(row.state), str(row.reason)


UNADDRESSED = replace(MESSAGE, addressed=False, text="How do I install the package with pip?")


def make_unaddressed(number: int, text: str = UNADDRESSED.text, **changes: object) -> Message:
    message = replace(UNADDRESSED, id=str(number), text=text, sent_at=datetime.now(UTC))
    return replace(message, **changes)  # type: ignore[arg-type]


def automatic(journal: Journal, answer: AnswerFunction, **changes: object) -> tuple[RecordingAdapter, Inbox]:
    gate = {"mode": "auto", "wait_s": 0.3, "cooldown_s": 0, **changes}
    return RecordingAdapter(), make_processor(settings(gate=gate), journal, answer, InMemoryLibrary())


async def wait_until_finished(journal: Journal, *messages: Message) -> list[tuple[str, str]]:
    """Return the states and reasons of messages as soon as all are finished."""
    async with asyncio.timeout(60):
        while True:
            states = [await get_state(journal, message) for message in messages]
            if all(state in ("answered", "silent", "failed") for state, _ in states):
                return states
            await asyncio.sleep(0.02)
