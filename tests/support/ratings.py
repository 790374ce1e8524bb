"""A chat in which people have asked and have said what they thought of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from core.messaging.feedback.rating_buttons import to_press
from core.messaging.inbox import Inbox
from core.ports import AnswerFunction, Delivery, Sink
from core.storage.messages import Journal
from core.types import Citation, ConversationKey, Message, Question, Reply
from tests.support.fixtures import IdleAdapter, MemorySink, settings
from tests.support.wiring import make_processor

_NUMBERS = count(1)


@dataclass
class Quiet(IdleAdapter):
    """An adapter; nobody reads along."""

    name: str = "test"
    sinks: list[MemorySink] = field(default_factory=list)

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        self.sinks.append(MemorySink())
        return self.sinks[-1]


async def answer_with_its_words(question: Question, sink: Sink) -> Reply:
    reply = Reply(f"About {question.text}", (Citation(1, "install", "docs", "Install", "install.md", ""),))
    await sink.finish(reply)
    return reply


async def rate(
    journal: Journal,
    key: ConversationKey,
    texts: Sequence[str],
    rating: str,
    answer: AnswerFunction = answer_with_its_words,
) -> None:
    """Have each text asked and answered in a chat, and the answer rated, each by somebody else."""
    processor = make_processor(settings(), journal, answer)
    adapter = Quiet(key.platform)
    receive = processor.handler_for(adapter)
    for text in texts:
        number = next(_NUMBERS)
        now = datetime.now(UTC)
        question = f"asked-{number}"
        person = str(9000 + number)
        await receive(Message(question, key, person, person, text, now, addressed=True))
        await _wait_until_finished(processor)
        await receive(to_press(Message(f"press-{number}", key, person, person, "", now), rating, question))
        await _wait_until_finished(processor)


async def _wait_until_finished(processor: Inbox) -> None:
    while processor._tasks:
        await asyncio.gather(*processor._tasks)
