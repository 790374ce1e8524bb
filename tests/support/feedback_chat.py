"""A chat in which an answer gets feedback and people are called."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import (
    get_buttons,
    read_button,
    to_press,
)
from core.ports import AnswerFunction, Delivery, Sink
from core.ports.refresh import SourceRefresher
from core.storage.messages import Journal
from core.types import Citation, ConversationKey, Message, Question, Reply
from core.types.replies import Trace
from tests.support.fixtures import IdleAdapter, MemorySink, settings
from tests.support.wiring import make_processor, wire_dispatcher

CHAT = ConversationKey("test", "room")
MESSAGE = Message("1", CHAT, "42", "Ann", "How do I install it?", datetime(2026, 1, 2, tzinfo=UTC), addressed=True)
CITED = (Citation(1, "install", "docs", "Install", "install.md", ""),)


class Deaf(MemorySink):
    """A press that can no longer be answered."""

    async def finish(self, reply: Reply) -> None:
        raise PlatformError("the query is too old")


@dataclass
class RecordingAdapter(IdleAdapter):
    """An adapter that remembers what its sinks were made for."""

    name: str = "test"
    sinks: dict[str, MemorySink] = field(default_factory=dict)
    made_for: dict[str, Message] = field(default_factory=dict)
    deaf: bool = False
    hold: asyncio.Event = field(default_factory=asyncio.Event)

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        self.sinks[message.id] = Deaf() if self.deaf else MemorySink()
        self.made_for[message.id] = message
        return self.sinks[message.id]

    def get_reply(self, number: str) -> str:
        sink = self.sinks[number]
        return sink.replies[0].text if sink.replies else sink.failures[0]

    def choices(self, number: str) -> list[str]:
        """Return what is offered below the answer to a press."""
        return [(read_button(button.data) or ("", ""))[0] for button in get_buttons(self.made_for[number])]


async def answer_with_citation(question: Question, sink: Sink) -> Reply:
    reply = Reply(f"With pip [1]. {len(question.history)}", CITED, trace=Trace(question.text, "single", ("docs",), {}))
    await sink.finish(reply)
    return reply


def make_press(choice: str, number: str, person: str = "42", question_id: str = "1", chat: str = "room") -> Message:
    return to_press(
        Message(number, ConversationKey("test", chat), person, person, "", datetime.now(UTC)), choice, question_id
    )


async def deliver(
    journal: Journal,
    *messages: Message,
    adapter: RecordingAdapter | None = None,
    answer: AnswerFunction = answer_with_citation,
    refresher: SourceRefresher | None = None,
    **changes: object,
) -> RecordingAdapter:
    """Let each message be finished before the next one arrives."""
    adapter = adapter or RecordingAdapter()
    configuration = settings(**changes)
    dispatcher = wire_dispatcher(configuration, journal, refresher=refresher)
    processor = make_processor(configuration, journal, answer, dispatcher=dispatcher)
    for message in messages:
        await processor.handler_for(adapter)(message)
        while processor._tasks:
            await asyncio.gather(*processor._tasks)
    return adapter


HELPER = {"people": ["test:@helper", "other:@nobody"], "cooldown_minutes": 0}
TRUSTED = {**HELPER, "trusted": ["test:7"]}


def make_escalate_command(number: str, text: str = "", reply_to: str = "1", **changes: object) -> Message:
    return replace(MESSAGE, id=number, command="escalate", text=text, reply_to=reply_to, **changes)  # type: ignore[arg-type]
