"""Hands questions off to people, and captures their answers for review."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from core.catalogue import Messages, messages_for
from core.catalogue.command_spelling import spell_texts
from core.errors import MessageDeleted, UsageError
from core.language.questions import is_question
from core.messaging.feedback.handler import StartAnswer
from core.messaging.feedback.handoff import (
    format_name,
    format_question,
    get_people,
    make_handoff,
    mentioned_users,
    resolve_target,
    with_author_of_quotation,
    with_author_of_words,
)
from core.messaging.policy.permissions import Permissions
from core.observability.logs import get_logger
from core.ports import Adapter
from core.settings import Settings
from core.storage.lessons import TaughtAnswerRepository
from core.storage.message_lookup import MessageLookup
from core.storage.messages import Journal
from core.storage.overrides import get_chat_name
from core.types import Message, Reply
from core.types.replies import Shortfall

_log = get_logger(__name__)

ESCALATE = "escalate"
LEARN = "learn"


class HandoffHandler:
    """Hands questions off to people, and keeps trusted people's answers for review.

    `permissions` say who is an administrator, and what the place of an answer may see. A handoff is a message of
    its own: it is journalled here, and then passed to `start_answer`.
    """

    def __init__(
        self, settings: Settings, journal: Journal, taught_answers: TaughtAnswerRepository, permissions: Permissions
    ) -> None:
        self._settings = settings.handoff
        self._journal = journal
        self._lookup = MessageLookup(journal.database)
        self._taught_answers = taught_answers
        self._permissions = permissions
        # Two handoffs at once would both see no recent one.
        self._handoff_lock = asyncio.Lock()

    def should_handle(self, message: Message) -> bool:
        """Return whether this handler answers a command. A handoff's name is not enough: anybody can type it."""
        return message.command in (ESCALATE, LEARN) or bool(mentioned_users(message))

    async def answer(self, adapter: Adapter, message: Message, start_answer: StartAnswer) -> str:
        """Return the reply to a command. Raises `UsageError` for what cannot be done."""
        language = self._permissions.get_chat_language(get_chat_name(message))
        language = language or await self._lookup.get_language(message)
        texts = spell_texts(messages_for(language), adapter.spell_command)
        if message.command == LEARN:
            return await self._learn(adapter, message, texts)
        if message.command == ESCALATE:
            return await self._hand_off(adapter, message, texts, start_answer)
        return texts.handoff.format(author=format_name(message.author)) + format_question(message)

    def with_people_of_now(self, message: Message) -> Message:
        """Return a handoff without those whom the configuration does not call any more; others unchanged."""
        configured = get_people(self._settings, message.key)
        people = tuple(person for person in mentioned_users(message) if person in configured)
        return replace(message, origin=replace(message.origin, mentioned_users=people))

    def calls_nobody(self, message: Message) -> bool:
        """Return whether a message is a handoff with nobody left to call."""
        return message.origin.purpose == "escalation" and not mentioned_users(message)

    def calls_for(self, reason: Shortfall) -> bool:
        """Return whether the configuration hands off every question whose answer falls short in this way."""
        return reason in self._settings.when

    async def hand_off_if_needed(
        self, adapter: Adapter, question: Message, reply: Reply, start_answer: StartAnswer
    ) -> None:
        """Hand off a question whose answer is not likely to help, where the configuration says so."""
        reason = reply.shortfall
        # Whoever asks where not everybody reads it decides whether others do: `/escalate`.
        if reason is None or not self.calls_for(reason) or question.thread_state.is_restricted:
            return
        async with self._handoff_lock:
            if await self._block_reason(question, messages_for("")):
                return
            _log.info("question.handed_off", why=reason)
            await self._send_handoff(adapter, question, start_answer)

    async def capture_expert_answer(self, adapter: Adapter, message: Message) -> bool:
        """Keep a trusted person's reply to a question that nobody answered or that was handed off.

        Returns whether it was kept. Such a reply is no message to the bot, even if it replies to the handoff.
        """
        is_answer = message.reply_to and message.text.strip() and not message.command
        if not is_answer or message.private or message.is_by_bot or message.is_forwarded:
            return False
        if is_question(message.text):
            return False
        question = await self._find_open_question(message)
        if question is None or question.author_id == message.author_id or not await self._is_trusted(adapter, message):
            return False
        closed_sources = await self._read_closed_labels(message, question)
        asker_id = with_author_of_words(question).author_id
        try:
            number = await self._taught_answers.submit(
                message, asker_id, question.text, message.text, closed_sources, words_of=[question, message]
            )
        except MessageDeleted:
            return True
        _log.info("answer.taught", number=number, question=question.id)
        return True

    async def _hand_off(self, adapter: Adapter, message: Message, texts: Messages, start_answer: StartAnswer) -> str:
        question = message if message.text.strip() else await self._lookup.find_question(message)
        if question is None:
            raise UsageError(texts.question_unclear)
        async with self._handoff_lock:
            if block_reason := await self._block_reason(question, texts):
                raise UsageError(block_reason)
            if not await self._send_handoff(adapter, question, start_answer):
                raise UsageError(texts.already_handed_off)
        return texts.calling_people

    async def _send_handoff(self, adapter: Adapter, question: Message, start_answer: StartAnswer) -> bool:
        """Journal the handoff, so that a restart does not lose it; its id prevents a second one."""
        handoff = make_handoff(question, get_people(self._settings, question.key))
        if not await self._journal.record_message(handoff):
            return False
        start_answer(adapter, handoff)
        return True

    async def _block_reason(self, question: Message, texts: Messages) -> str:
        """Return why the question is not handed off now, or an empty string."""
        if question.private:
            return texts.private_chat
        if not get_people(self._settings, question.key):
            return texts.nobody_configured
        is_too_soon = await self._lookup.has_recent_handoff(question, self._settings.cooldown_minutes * 60)
        return texts.handoff_cooldown if is_too_soon else ""

    async def _learn(self, adapter: Adapter, message: Message, texts: Messages) -> str:
        if not await self._is_trusted(adapter, message):
            raise UsageError(texts.not_trusted)
        message = resolve_target(message)
        answer_message = await self._lookup.get_readable_message(message, message.reply_to)
        # What was said a model has written down.
        answer = message.quoted or (answer_message.written_text if answer_message else "")
        # The answer may be of another place, of which nothing is told here.
        is_own = message.quotes_bot or await self._lookup.is_own_answer(message)
        if is_own or await self._lookup.is_own_text(message, answer):
            raise UsageError(texts.learn_own_words)
        question_message = await self._find_answered_question(message, answer_message)
        # Who types the question has its words.
        asking_message = message if message.text.strip() else question_message
        question = asking_message.text.strip() if asking_message else ""
        if not answer.strip():
            raise UsageError(texts.learn_usage)
        if not question:
            raise UsageError(texts.learn_question_missing)
        # A quotation from elsewhere replies to nothing here.
        if answer_message:
            taught_message = with_author_of_words(answer_message)
        else:
            taught_message = with_author_of_quotation(replace(message, id=message.reply_to or message.id))
        if message.thread_state.is_restricted:
            # So was the question that stands behind the command, whatever place the answer comes from.
            taught_message = replace(
                taught_message, key=message.key, thread_state=replace(taught_message.thread_state, is_restricted=True)
            )
        asker_id = with_author_of_words(asking_message).author_id if asking_message else ""
        closed_sources = await self._read_closed_labels(message, answer_message, question_message)
        words_of = [each for each in (message, answer_message, question_message) if each]
        number = await self._taught_answers.submit(
            taught_message, asker_id, question, answer, closed_sources, words_of=words_of
        )
        return texts.answer_known if number is None else texts.answer_submitted.format(number=number)

    async def _read_closed_labels(self, message: Message, *earlier: Message | None) -> frozenset[str]:
        """Return the labels of what a lesson may tell of, now or when its words were written."""
        labels = await self._lookup.find_labels(message, [each.id for each in earlier if each])
        return await self._permissions.read_closed_labels(message, labels)

    async def _is_trusted(self, adapter: Adapter, message: Message) -> bool:
        if not message.author_id:
            return False
        is_listed = f"{message.key.platform}:{message.author_id}" in self._settings.trusted
        return is_listed or await self._permissions.is_admin(message, adapter)

    async def _find_open_question(self, reply: Message) -> Message | None:
        """Return the question that a reply answers, if nobody has answered it or it was handed off.

        A reply that addresses the bot is no answer to a person, except below an handoff.
        """
        for stored_message in await self._lookup.find_replied_to(reply):
            # Who was called there may be forgotten by now.
            if reply.addressed and stored_message.message.origin.purpose != "escalation":
                continue
            question_id = stored_message.message.question_id
            stored_question = await self._lookup.get_message(reply, question_id) or stored_message
            question = stored_question.message
            is_unanswered = stored_question.is_unanswered and is_question(question.text)
            if question.text and (is_unanswered or await self._lookup.has_handoff_of(reply, question_id)):
                return question
        return None

    async def _find_answered_question(self, message: Message, answer_message: Message | None) -> Message | None:
        """Return what the message that is learned from replies to, or the question that its thread began with."""
        lookup = self._lookup.get_readable_message
        thread = (answer_message or message).key.thread
        parent_id = (answer_message.reply_to if answer_message else "") or message.parent_id
        question = await lookup(message, parent_id)
        # Where ids are shared, the message that began a thread has its id.
        root_id = "" if answer_message and answer_message.id == thread else thread
        root_message = None if question else await lookup(message, root_id)
        return root_message if root_message and is_question(root_message.text) else question
