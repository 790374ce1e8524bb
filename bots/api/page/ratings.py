"""What visitors think of answers: a thumb for each answer, which its visitor may change.

Nothing tells visitors apart: the id of an answer is known to the one alone who got it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, replace

from bots.api.clients import ClientAnswers
from bots.api.rejections import Rejected
from core.messaging.feedback.rating_buttons import has_rating
from core.settings.base import PAGE_CLIENT
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.types import DOWN, UP, Message, Reply

# As many can be rated; a rating of an older one is refused.
MAX_ANSWERS = 1000
VERDICTS: Collection[str] = (UP, DOWN, "")


@dataclass(frozen=True, slots=True)
class _Answer:
    """A question with its answer, and the labels of the sources that it could be made from."""

    question: Message
    reply: Reply
    visible_labels: frozenset[str]


class VisitorRatings:
    """Remembers the last answers, and keeps those that somebody rates, with the rating, in the journal."""

    def __init__(self, journal: Journal, answers: ClientAnswers) -> None:
        self._journal = journal
        self._repository = FeedbackRepository(journal.database)
        self._answers = answers
        self._offered: OrderedDict[str, _Answer] = OrderedDict()
        # Presses that come together would read and write the same row in turns.
        self._lock = asyncio.Lock()

    def offer(self, text: str, reply: Reply) -> str:
        """Return the id by which the answer to a question can be rated; "" for one that is not to be rated."""
        if reply.failure or not has_rating(reply):
            return ""
        message = self._answers.make_message(PAGE_CLIENT, text)
        labels = self._answers.find_visible_labels(message)
        # Nobody but the visitor has read it. Of the passages only the trace is kept.
        self._offered[message.id] = _Answer(replace(message, private=True), replace(reply, passages=()), labels)
        if len(self._offered) > MAX_ANSWERS:
            self._offered.popitem(last=False)
        return message.id

    async def rate(self, answer_id: str, verdict: str) -> None:
        """Store what a visitor thinks of an answer; "" takes it back, with the question and the answer.

        Raises `Rejected`, `StoreError`.
        """
        answer = self._offered.get(answer_id)
        if answer is None:
            raise Rejected(410, "too_old", "this answer can no longer be rated")
        question = answer.question
        # The same verdict again has the same id, and changes nothing: it may be sent twice.
        press = replace(question, id=f"{question.id}:{verdict}")
        async with self._lock:
            if verdict:
                await self._journal.record_answered(question, answer.reply, answer.visible_labels)
                await self._repository.rate(press, question.id, verdict)
            elif earlier_verdict := (await self._repository.get_rating(press, question.id)).verdict:
                await self._repository.rate(press, question.id, earlier_verdict)
                await self._journal.discard(question)
        if verdict == DOWN:
            await self._repository.evict_cached_reply(question)
