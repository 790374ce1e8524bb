"""Where presses are dealt with: taken over, acknowledged, and followed by another try where somebody asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from core.answering.retry import ask_again
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import CHOICES, REASONS, UNSATISFYING, Offer, offering, offers, rated
from core.observability.logs import logger
from core.ports import Adapter, Delivery
from core.settings import Settings
from core.storage.feedback import Answered, Opinions, Rating
from core.storage.messages import Journal
from core.text.feedback_messages import Words, words_in
from core.text.language import language_of
from core.types import AGAIN, DOWN, SECOND, UP, Message, Question, Reply, Turn

# Platforms wait about three seconds for an acknowledgement; presses in one chat wait for each other.
ACKNOWLEDGING_S = 5.0
NO_ANSWER = "a press under no answer of ours"

# Begins to answer a message that is in the journal.
Start = Callable[[Adapter, Message], None]
# Whether the author of a message may do what only askers and administrators may.
May = Callable[[Message, Adapter], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What is said to who pressed, the buttons that go with it, and what the journal says."""

    text: str
    noted: str
    buttons: tuple[Offer, ...] = ()
    refused: bool = False


class FeedbackDesk:
    """Deals with presses. `start` answers a message that was journalled here; `may` says who is an administrator."""

    def __init__(self, settings: Settings, journal: Journal, start: Start, may: May | None = None) -> None:
        self._settings = settings.feedback
        self._journal = journal
        self._opinions = Opinions(journal.database)
        self._start = start
        self._may = may

    def offering(self, message: Message, *, question: bool) -> Message:
        """Return a message as its sink gets it: with thumbs below the answer where it is a question."""
        return rated(message) if question and self._settings.thumbs else message

    async def settle(self, adapter: Adapter, press: Message, delivery: Delivery) -> None:
        """Bring a press to its end in the journal. What it changes is safe before it is acknowledged."""
        outcome = await self._taken(adapter, press)
        sink = adapter.sink(offering(press, outcome.buttons), delivery)
        try:
            async with asyncio.timeout(ACKNOWLEDGING_S):
                await (sink.fail(outcome.text) if outcome.refused else sink.finish(Reply(outcome.text)))
        except (PlatformError, TimeoutError) as fault:
            # After a restart, for example: the press is too old to be answered, and counts all the same.
            logger(__name__).info("press.not_acknowledged", error=str(fault) or "it took too long")
        await self._journal.silent(press, outcome.noted)

    async def again(self, message: Message, question: Question) -> Question:
        """Return the question of a message as it is answered: one that is asked again knows what was wrong before."""
        if UNSATISFYING not in message.reference:
            return question
        first = await self._opinions.answered(replace(message, reply_to=message.id.removesuffix(SECOND)))
        if first is None or not first.reply:
            return question
        asked = first.question
        before = (Turn("user", asked.text, asked.author, asked.author_id), Turn("assistant", first.reply))
        return ask_again(question, before, first.passages, str(message.reference[UNSATISFYING]))

    async def _taken(self, adapter: Adapter, press: Message) -> _Outcome:
        answered = await self._opinions.answered(press)
        if answered is None or press.text not in CHOICES:
            words = words_in("")
            return _Outcome(words.unknown, NO_ANSWER, refused=True)
        words = words_in(language_of(answered.question.text))
        if press.text == AGAIN:
            return await self._try_harder(adapter, press, answered, words)
        question, reason = answered.question.id, press.text if press.text in REASONS else ""
        rating = await self._opinions.rate(press, question, DOWN if reason else press.text, reason)
        if rating.verdict == DOWN:
            await self._opinions.give_no_more(answered.question)
        noted = f"feedback on {question}: {rating.verdict or 'taken back'} {rating.reason}".strip()
        buttons = self._below(answered, rating, words)
        asked_why = f" {words.why}" if buttons and self._settings.ask_why and not rating.reason else ""
        return _Outcome(_said(rating, reason, words) + asked_why, noted, buttons)

    def _below(self, answered: Answered, rating: Rating, words: Words) -> tuple[Offer, ...]:
        """Return what is offered to somebody who is not content: to say why, and another try."""
        if rating.verdict != DOWN:
            return ()
        question = answered.question
        choices: Sequence[str] = REASONS if self._settings.ask_why else ()
        tried = question.id.endswith(SECOND) or not (self._settings.try_harder and question.text)
        choices = choices if tried else (*choices, AGAIN)
        return offers(question.id, [(choice, words.buttons[choice]) for choice in choices])

    async def _try_harder(self, adapter: Adapter, press: Message, answered: Answered, words: Words) -> _Outcome:
        """Journal the question once more, so that it is answered once more; its id keeps it from a third time."""
        asked = answered.question
        refusal = await self._against(adapter, press, answered, words)
        if not refusal:
            rating = await self._opinions.rating(replace(press, author_id=asked.author_id), asked.id)
            reference = {name: value for name, value in asked.reference.items() if name != "edited"}
            second = replace(
                asked,
                id=f"{asked.id}{SECOND}",
                addressed=True,
                reference={**reference, UNSATISFYING: rating.reason},
            )
            if await self._journal.received(second):
                self._start(adapter, second)
                return _Outcome(words.trying, f"{asked.id} is answered once more")
            refusal = words.once
        return _Outcome(refusal, f"{asked.id} is not answered once more", refused=True)

    async def _against(self, adapter: Adapter, press: Message, answered: Answered, words: Words) -> str:
        """Return why a question is not answered once more, or nothing."""
        asked = answered.question
        if not self._settings.try_harder:
            return words.off
        if asked.id.endswith(SECOND):
            return words.once
        mine = bool(press.author_id) and press.author_id == asked.author_id
        if not mine and not (self._may and await self._may(press, adapter)):
            return words.asker
        if not answered.complete:
            return words.unfinished
        return "" if asked.text and answered.reply else words.forgotten


def _said(rating: Rating, reason: str, words: Words) -> str:
    if reason:
        return words.noted
    said = {UP: words.up, DOWN: words.down}.get(rating.verdict, words.back)
    return said.format(up=rating.up, down=rating.down)
