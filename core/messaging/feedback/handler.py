"""Handles button presses: stores the rating, acknowledges it, and retries the question or stops its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from core.answering.retry import to_retry_question
from core.catalogue import Messages, messages_for
from core.errors import PlatformError, UsageError
from core.messaging.feedback.rating_buttons import (
    CHOICES,
    DRAFT_CHOICES,
    REASONS,
    make_buttons,
    read_reaction,
    with_answer_buttons,
    with_buttons,
)
from core.messaging.feedback.running_answers import RunningAnswers
from core.messaging.journaling import JournaledDelivery
from core.messaging.policy.permissions import Permissions
from core.observability.logs import get_logger
from core.ports import Adapter, Delivery
from core.settings import Settings
from core.storage.chat_history import ChatHistory
from core.storage.feedback import FeedbackRepository, JournaledAnswer, Rating
from core.storage.messages import Journal
from core.storage.tables import may_be_shown
from core.types import (
    DOWN,
    FOR_ASKER,
    RETRY,
    STOP,
    UP,
    Button,
    Message,
    Origin,
    Question,
    Reply,
    ReplyOptions,
    Skip,
    SkipReason,
    Turn,
    skip,
)

_log = get_logger(__name__)

# Platforms wait about three seconds for an acknowledgement; presses in one chat wait for each other.
ACKNOWLEDGE_TIMEOUT_S = 5.0

# Begins to answer a message that is in the journal.
StartAnswer = Callable[[Adapter, Message], None]
# Returns the reply to a command. Raises `UsageError`, also for an author who may not give it.
GiveCommand = Callable[[Message, Adapter], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _PressResult:
    """The text and buttons for the person who pressed, the outcome for the journal, and the question to retry."""

    text: str
    outcome: Skip
    buttons: tuple[Button, ...] = ()
    is_rejected: bool = False
    retry: Message | None = None


class FeedbackHandler:
    """Handles presses of rating buttons. `permissions` say who is an administrator, and what may be told of.

    A button below a draft is a command, for `give_command`. `running_answers` are those that can be stopped.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        repository: FeedbackRepository,
        permissions: Permissions,
        give_command: GiveCommand,
    ) -> None:
        self._settings = settings.feedback
        self._journal = journal
        self._history = ChatHistory(journal.database)
        self._repository = repository
        self._permissions = permissions
        self._give_command = give_command
        self.running_answers = RunningAnswers(repository)

    def with_reply_options(self, message: Message, *, is_question: bool) -> Message:
        """Return the message for its sink: a question gets buttons that stop its answer, and that rate it."""
        language = self._permissions.get_language(message)
        if not is_question:
            return replace(message, reply_options=ReplyOptions(language=language))
        return with_answer_buttons(message, language, has_ratings=self._settings.thumbs)

    async def is_about_answer(self, press: Message) -> bool:
        """Return whether a press or a reaction belongs to an answer that the journal has."""
        return await self._repository.find_answer(press) is not None

    async def handle_press(
        self, adapter: Adapter, press: Message, delivery: Delivery, start_answer: StartAnswer
    ) -> None:
        """Handle a press and record its outcome in the journal. Its effect is stored before it is acknowledged.

        A question to be retried is journalled, and then passed to `start_answer`.
        """
        result = await self._apply_press(adapter, press)
        if result.retry:
            start_answer(adapter, result.retry)
        sink = adapter.sink(with_buttons(press, result.buttons), delivery)
        try:
            async with asyncio.timeout(ACKNOWLEDGE_TIMEOUT_S):
                await (sink.fail(result.text) if result.is_rejected else sink.finish(Reply(result.text)))
        except (PlatformError, TimeoutError) as error:
            # After a restart, for example, the press is too old to be acknowledged; it counts all the same.
            _log.info("press.not_acknowledged", error=str(error) or "it took too long")
        await self._journal.mark_skipped(press, result.outcome)

    async def with_retry_context(self, message: Message, question: Question, delivery: JournaledDelivery) -> Question:
        """Return the question to answer; a retry also carries the first answer and what was wrong with it.

        It is not shown once somebody whose words the first answer has was forgotten.
        """
        if message.origin.purpose != "retry":
            return question
        first_answer = await self._repository.find_answer(replace(message, reply_to=message.origin.root_id))
        if first_answer is None or not first_answer.reply:
            return question
        if not may_be_shown(first_answer.visible_sources, self._permissions.visible_labels(message)):
            return question
        delivery.conversation = {*delivery.conversation, first_answer.number}
        original_question = first_answer.question
        previous_turns = (
            Turn("user", original_question.text, original_question.author, original_question.author_id),
            Turn("assistant", first_answer.reply),
        )
        return to_retry_question(question, previous_turns, first_answer.passages, message.origin.retry_reason)

    async def _apply_press(self, adapter: Adapter, press: Message) -> _PressResult:
        answer = await self._repository.find_answer(press)
        is_notice = answer is not None and answer.question.origin.purpose == "draft"
        reaction = read_reaction(press)
        if answer and reaction and not is_notice:
            return await self._apply_reaction(press, answer, *reaction)
        if answer is None or press.text not in CHOICES or (is_notice and press.text not in DRAFT_CHOICES):
            texts = messages_for(self._permissions.get_language(press))
            return _PressResult(texts.unknown_answer, skip(SkipReason.NOTHING_TO_RATE), is_rejected=True)
        if press.text in DRAFT_CHOICES:
            return await self._decide_draft(adapter, press, answer.question.origin.root_id)
        texts = messages_for(self._permissions.get_language(answer.question))
        if press.text == RETRY:
            return await self._retry(adapter, press, answer, texts)
        if press.text == STOP:
            return await self._stop(adapter, press, answer, texts)
        question_id = answer.question.id
        reason = press.text if press.text in REASONS else ""
        rating = await self._repository.rate(press, question_id, DOWN if reason else press.text, reason)
        if rating.verdict == DOWN:
            await self._repository.evict_cached_reply(answer.question)
        rating_text = f"{rating.verdict or 'taken back'} {rating.reason}".strip()
        outcome = skip(SkipReason.RATED, question=question_id, rating=rating_text)
        buttons = self._follow_up_buttons(answer, rating, texts)
        reason_prompt = f" {texts.ask_reason}" if buttons and self._settings.ask_why and not rating.reason else ""
        return _PressResult(_format_rating(rating, reason, texts) + reason_prompt, outcome, buttons)

    async def _decide_draft(self, adapter: Adapter, press: Message, number: str) -> _PressResult:
        outcome = skip(SkipReason.RATED, question=f"draft {number}", rating=press.text)
        try:
            text = await self._give_command(replace(press, command=press.text, text=number), adapter)
        except UsageError as error:
            return _PressResult(str(error), outcome, is_rejected=True)
        return _PressResult(text, outcome)

    async def _apply_reaction(self, press: Message, answer: JournaledAnswer, choice: str, holds: bool) -> _PressResult:
        """Store an emoji as a rating, or take it back. What holds already stays: a thumb may have said the same."""
        question_id = answer.question.id
        rating = await self._repository.get_rating(press, question_id)
        if (rating.verdict == choice) != holds:
            rating = await self._repository.rate(press, question_id, choice)
        if rating.verdict == DOWN:
            await self._repository.evict_cached_reply(answer.question)
        return _PressResult("", skip(SkipReason.RATED, question=question_id, rating=rating.verdict or "taken back"))

    def _follow_up_buttons(self, answer: JournaledAnswer, rating: Rating, texts: Messages) -> tuple[Button, ...]:
        """Return the buttons below a negative rating: the reasons, and a retry."""
        if rating.verdict != DOWN:
            return ()
        question = answer.question
        choices: Sequence[str] = REASONS if self._settings.ask_why else ()
        # What only the asker sees stays as it is: neither platform lets it be found again.
        is_final = question.origin.purpose == "retry" or FOR_ASKER in question.reference
        is_retried = is_final or not (self._settings.try_harder and question.text)
        choices = choices if is_retried else (*choices, RETRY)
        return make_buttons(question.id, [(choice, texts.buttons[choice]) for choice in choices])

    async def _retry(self, adapter: Adapter, press: Message, answer: JournaledAnswer, texts: Messages) -> _PressResult:
        """Journal the question again, so that it is answered again; its id prevents a third time."""
        question = answer.question
        refusal_text = await self._refusal_text(adapter, press, answer, texts)
        if not refusal_text:
            rating = await self._repository.get_rating(replace(press, author_id=question.author_id), question.id)
            retry = replace(
                question,
                id=f"{question.id}~2",
                origin=Origin(root_id=question.id, purpose="retry", retry_reason=rating.reason),
                addressed=True,
                has_guests=question.has_guests or press.has_guests,
            )
            if await self._journal.record_message(retry):
                return _PressResult(texts.retrying, skip(SkipReason.RETRIED, question=question.id), retry=retry)
            refusal_text = texts.already_retried
        return _PressResult(refusal_text, skip(SkipReason.NOT_RETRIED, question=question.id), is_rejected=True)

    async def _stop(self, adapter: Adapter, press: Message, answer: JournaledAnswer, texts: Messages) -> _PressResult:
        """Stop the answer, for the asker and for administrators. What is written so far stays."""
        question = answer.question
        if not await self._may_change(adapter, press, question):
            refusal_text = texts.only_asker_stops
        elif not answer.is_complete and self.running_answers.stop(question):
            return _PressResult(texts.stopping, skip(SkipReason.STOPPED, question=question.id))
        else:
            refusal_text = texts.nothing_to_stop
        return _PressResult(refusal_text, skip(SkipReason.NOT_STOPPED, question=question.id), is_rejected=True)

    async def _may_change(self, adapter: Adapter, press: Message, question: Message) -> bool:
        is_asker = bool(press.author_id) and press.author_id == question.author_id
        return is_asker or await self._permissions.is_admin(press, adapter)

    async def _refusal_text(self, adapter: Adapter, press: Message, answer: JournaledAnswer, texts: Messages) -> str:
        """Return why a question is not retried, or an empty string."""
        question = answer.question
        if not self._settings.try_harder:
            return texts.retry_disabled
        if question.origin.purpose == "retry":
            return texts.already_retried
        # It would be asked again as in private, with the role that its author has there.
        if await self._history.is_read_by_others(question):
            return texts.unknown_answer
        if not await self._may_change(adapter, press, question):
            return texts.only_asker
        if not answer.is_complete:
            return texts.answer_unfinished
        return "" if question.text and answer.reply else texts.question_erased


def _format_rating(rating: Rating, reason: str, texts: Messages) -> str:
    if reason:
        return texts.reason_noted
    template = {UP: texts.rated_up, DOWN: texts.rated_down}.get(rating.verdict, texts.rating_removed)
    return template.format(up=rating.up, down=rating.down)
