"""The handler of messages: the gate judges each one, and it is answered once or skipped for a reason."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from core.answering.withholding import guard_words, make_filter
from core.catalogue import messages_for
from core.catalogue.command_spelling import spell_texts
from core.errors import (
    AnswerWithheld,
    CommentSuppressed,
    JournalError,
    MessageDeleted,
    PlatformError,
    PlatformUnavailable,
    QuotaExceeded,
)
from core.messaging.auto_comment.commenter import Commenter
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.feedback.handler import FeedbackHandler, StartAnswer
from core.messaging.feedback.handoff_handler import HandoffHandler
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.gate.gate import Gate, GateDecision
from core.messaging.gate.human_activity import wait_while_typing
from core.messaging.gate.replies import with_attachments
from core.messaging.journaling import JournaledDelivery, RecordedSink, RightsChanged, apologizing, describe_error
from core.messaging.policy.command_table import RIGHTS_COMMANDS, is_ask_command
from core.messaging.policy.permissions import PermissionDenied
from core.messaging.quotations import watch_delivery, watch_history, with_history
from core.messaging.redelivery import TakeTurn, Undelivered
from core.messaging.unprompted import NothingToSay, UnpromptedSink, to_skip
from core.messaging.voices import add_transcript, as_written, asks, find_speech, with_speech
from core.observability.logs import get_logger
from core.observability.tracing import annotate
from core.ports import Adapter, AnswerFunction, Sink
from core.runtime.leaving import judge_requests_by
from core.settings import OutgoingSettings, Settings
from core.settings.audience import OWNERS
from core.storage.chat_history import ChatHistory
from core.storage.messages import Journal
from core.storage.reports import ReportRepository
from core.storage.tables import may_be_shown
from core.types import (
    NOTICE_PURPOSES,
    QUOTED_QUESTIONS,
    RETELLING_COMMANDS,
    Attachment,
    Message,
    Question,
    Reply,
    Skip,
    SkipReason,
    Turn,
    skip,
)

_log = get_logger(__name__)

# How many undelivered answers are sent again at the same time.
REDELIVERIES_AT_ONCE = 4

WaitForHumans = Callable[[float], Awaitable[bool]]
# The models of a chat, and what never leaves.
_Setup = tuple[str | None, OutgoingSettings | None]


@dataclass(frozen=True, slots=True)
class MessageStages:
    """The stages of a message: `gate` decides whether the bot speaks, the others handle what the gate lets through."""

    gate: Gate
    dispatcher: CommandDispatcher
    commenter: Commenter
    feedback: FeedbackHandler
    handoff: HandoffHandler


class Handler:
    """Handles one message after the other, each at its turn, with as many workers as are configured.

    `enqueue` takes a message that the bot makes itself. `wait_for_humans` waits some seconds, and returns False if the
    daemon stops meanwhile.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        answer: AnswerFunction,
        stages: MessageStages,
        *,
        enqueue: StartAnswer,
        wait_for_humans: WaitForHumans,
    ) -> None:
        self._settings = settings
        self._journal = journal
        self._history = ChatHistory(journal.database)
        self._reports = ReportRepository(journal.database)
        self._answer = answer
        self._gate = stages.gate
        self._dispatcher = stages.dispatcher
        self._permissions = stages.dispatcher.context.permissions
        self._commenter = stages.commenter
        self._feedback = stages.feedback
        self._handoff = stages.handoff
        self._drafts = stages.dispatcher.context.drafts
        self._enqueue = enqueue
        self._wait_for_humans = wait_for_humans
        self._worker_slots = asyncio.Semaphore(settings.run.workers)
        self._redelivery_slots = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(REDELIVERIES_AT_ONCE))

    async def handle(self, turn: TakeTurn, adapter: Adapter, message: Message, previous_reply_id: str) -> None:
        """Judge a message at its turn, then answer or skip it; `previous_reply_id` is the reply that was begun before.

        People get time first to answer what nobody asked the bot. Raises `JournalError`, and `Undelivered` if the
        platform does not take the answer now.
        """
        message = self._handoff.with_people_of_now(await self._drafts.to_command(as_written(message)))
        message = await self._with_readers_of_now(adapter, message)
        if self._dispatcher.is_priority(message) or is_press(message):
            async with turn():
                delivery = await self._open_delivery(adapter, message, previous_reply_id)
                if is_press(message) and not self._dispatcher.is_priority(message):
                    # What it is answered with has no words of sources.
                    delivery.check_rights = None
                    await self._feedback.handle_press(adapter, message, delivery, self._enqueue)
                    return
                decision = await self._judge(adapter, message, delivery)
                await self._respond(adapter, message, decision, delivery)
            return
        async with turn():
            # Read only now, at the message's turn: messages are processed in the order in which they came.
            delivery = await self._open_delivery(adapter, message, previous_reply_id)
            # An answer that is only to be delivered needs no worker.
            async with self._redelivery_slots[adapter.label] if delivery.final_reply else self._worker_slots:
                delayed_decision = await self._judge_and_respond(adapter, message, delivery)
        if delayed_decision is None:
            return
        if await self._wait_for_humans(delayed_decision.wait_s) and await wait_while_typing(
            adapter, message, delayed_decision.wait_s, self._wait_for_humans
        ):
            async with turn(), self._worker_slots:
                decision = await _or_silence(self._judge_after_wait(adapter, message, delayed_decision, delivery))
                await self._respond(adapter, message, decision, delivery)

    async def _judge(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> GateDecision:
        judging = self._gate.judge(message, is_resumed=delivery.is_resumed, spell=adapter.spell_command)
        return await _or_silence(judging)

    async def _judge_after_wait(
        self, adapter: Adapter, message: Message, delayed_decision: GateDecision, delivery: JournaledDelivery
    ) -> GateDecision:
        """Judge a message again after people had time to answer; anew where less may be told of than before.

        What was found before may be offered, quoted, or shown to a model.
        """
        labels = delivery.visible_labels
        await self._gate.chat_policy.refresh()
        self._watch_rights(adapter, message, delivery)
        if labels <= delivery.visible_labels:
            return await self._gate.recheck(message, delayed_decision)
        decision = await self._gate.judge(message, spell=adapter.spell_command)
        return await self._gate.recheck(message, decision) if decision.wait_s else decision

    async def _with_readers_of_now(self, adapter: Adapter, message: Message) -> Message:
        """Return an entry of a feed with whether guests read where it is commented on: no platform has said so of it.

        Any other message is unchanged. Raises `Undelivered`.
        """
        if message.feed_entry is None:
            return message
        await self._gate.chat_policy.refresh()
        try:
            return await self._permissions.as_read_now(adapter, message)
        except PlatformUnavailable as error:
            raise Undelivered(error, message.sent_at, is_unprompted=True) from error

    async def _open_delivery(self, adapter: Adapter, message: Message, previous_reply_id: str) -> JournaledDelivery:
        await self._gate.chat_policy.refresh()
        visible_labels = self._permissions.visible_labels(message)
        delivery = await JournaledDelivery.open(self._journal, message, previous_reply_id, visible_labels)
        self._watch_rights(adapter, message, delivery)
        if is_ask_command(message.command):
            # A command may change what it could be told of itself.
            judge_requests_by(delivery.require_rights)
        return delivery

    def _watch_rights(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> None:
        """Let what is shown from now on be compared with what may be told of now."""
        if message.origin.purpose == "draft":
            delivery.check_rights = partial(self._require_draft_notice, adapter, message, delivery)
        elif message.origin.purpose == "report":
            delivery.check_rights = partial(self._require_report, adapter, message, delivery)
        elif message.origin.purpose == "alert":
            delivery.check_rights = partial(self._require_alert, adapter, message, delivery)
        elif message.origin.purpose not in NOTICE_PURPOSES:
            delivery.visible_labels = self._permissions.visible_labels(message)
            delivery.check_rights = partial(self._check_rights, adapter, message, delivery, self._get_setup(message))

    def _get_setup(self, message: Message) -> _Setup:
        """Return what an answer keeps to: the models of its chat, and what never leaves."""
        return self._permissions.get_chat_settings(message).models, self._dispatcher.context.settings.outgoing

    def _has_other_setup(self, message: Message, delivery: JournaledDelivery, begun_with: _Setup) -> bool:
        """Return whether an answer was begun with other models or words than it would be now."""
        models, outgoing = begun_with
        models_now, outgoing_now = self._get_setup(message)
        # What the bot says itself is of no model. What a team decides about is searched when it is posted.
        return (models != models_now and not delivery.is_notice) or (outgoing != outgoing_now and not delivery.is_draft)

    async def _require_draft_notice(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> None:
        """Raise `RightsChanged` where a draft waits no more, or its team may not read all that is told of it."""
        await self._drafts.require_notice(message)
        words = make_filter(self._dispatcher.context.settings.outgoing, message.key.platform)
        notice = delivery.final_reply.text if delivery.final_reply else ""
        # They may be configured since it was written.
        rule = await asyncio.to_thread(words.find, notice) if words else ""
        if rule:
            raise RightsChanged("", skip(SkipReason.RIGHTS_CHANGED))
        await self._require_readers(adapter, message, delivery)

    async def _require_report(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> None:
        """Raise `RightsChanged` where a report may not be posted any more.

        Somebody whose question it has was forgotten, a source or a thread was closed, or the chat is told no more, as
        that of somebody who is no owner any more.
        """
        await self._require_readers(adapter, message, delivery)
        is_for_owner = message.origin.root_id == OWNERS
        numbers = frozenset(message.reference.get(QUOTED_QUESTIONS, ()))
        are_told = await self._reports.find_told(numbers, reader=None, is_public=not is_for_owner) == numbers
        is_told = are_told and self._permissions.gets_alerts(message)
        if not is_told or (is_for_owner and not self._permissions.is_told_to_owner(message)):
            raise RightsChanged("", skip(SkipReason.RIGHTS_CHANGED))

    async def _require_readers(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> None:
        """Raise `RightsChanged` where those who read a notice now may not see all that it was made from."""
        labels = await self._journal.get_told_labels(message)
        message = await self._permissions.as_read_now(adapter, message)
        await self._gate.chat_policy.refresh()
        await delivery.require_left()
        if not may_be_shown(labels, self._permissions.visible_labels(message)):
            raise RightsChanged("", skip(SkipReason.RIGHTS_CHANGED))

    async def _require_alert(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> None:
        """Raise `RightsChanged` where a chat gets no alerts any more, or may not see the source that this one names."""
        label = message.origin.root_id
        message = await self._permissions.as_read_now(adapter, message)
        await delivery.require_left()
        if not self._permissions.gets_alerts(message):
            raise RightsChanged("", skip(SkipReason.RIGHTS_CHANGED))
        if label and not await self._permissions.may_tell_of(label, message):
            raise RightsChanged("", skip(SkipReason.RIGHTS_CHANGED))

    async def _check_rights(
        self, adapter: Adapter, message: Message, delivery: JournaledDelivery, begun_with: _Setup
    ) -> None:
        """Judge a message again before its answer is shown, and before words of it leave for a model.

        Raises `RightsChanged` where the bot may not speak any more, where less may be told of than at the beginning (a
        role was lost, a source was closed, guests have joined, or the chat is private no more), where an answer is for
        its asker or a team now, where its chat has other models than at the beginning, and where other words may not
        leave: these two are `begun_with`.
        """
        visible_labels = delivery.visible_labels
        if not is_ask_command(message.command):
            await self._require_role(adapter, message, delivery)
        message = await self._permissions.as_read_now(adapter, message)
        await self._gate.chat_policy.refresh()
        is_read_by_others = await self._history.is_read_by_others(message)
        await delivery.require_left()
        # From here on nothing is waited for: all of it holds at one moment.
        policy = self._gate.chat_policy
        # Comments have chats of their own.
        is_comment = self._commenter.should_handle(message)
        find_block = policy.paused_reason if is_comment else policy.block_reason
        block = find_block(message) if is_ask_command(message.command) else None
        texts = messages_for(self._permissions.get_language(message))
        is_told_too_much = is_read_by_others or not visible_labels <= self._permissions.visible_labels(message)
        if block or is_told_too_much:
            raise RightsChanged(texts.rights_changed, block)
        if not is_ask_command(message.command):
            return
        if self._has_other_setup(message, delivery, begun_with):
            raise RightsChanged(texts.rights_changed)
        if is_comment or delivery.is_notice:
            return
        if self._permissions.hides_answer(message):
            raise RightsChanged(spell_texts(texts, adapter.spell_command).ask_by_command)
        if not (delivery.is_draft or delivery.is_approved) and self._drafts.takes(message):
            raise RightsChanged(texts.rights_changed)

    async def _require_role(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> None:
        """Raise `RightsChanged` where a reply to a command waits whose author may not give it any more.

        What the command itself changed, or why it was refused, is shown all the same.
        """
        reply = delivery.final_reply
        if reply is None or reply.failure or message.command in RIGHTS_COMMANDS:
            return
        await self._gate.chat_policy.refresh()
        if refusal := await self._dispatcher.find_refusal(message, adapter):
            raise RightsChanged(refusal)

    async def _judge_and_respond(
        self, adapter: Adapter, message: Message, delivery: JournaledDelivery
    ) -> GateDecision | None:
        """Judge a message and answer it; return the decision instead if people get time to answer first."""
        if self._commenter.should_handle(message):
            await self._comment(adapter, message, delivery)
            return None
        if await self._try_capture_answer(adapter, message):
            return None
        decision = await self._judge(adapter, message, delivery)
        if decision.wait_s:
            return decision
        await self._respond(adapter, message, decision, delivery)
        return None

    async def _comment(self, adapter: Adapter, message: Message, delivery: JournaledDelivery) -> None:
        await self._gate.chat_policy.refresh()
        if pause_skip := self._gate.chat_policy.paused_reason(message):
            await self._journal.mark_skipped(message, pause_skip)
        elif reason := await self._gate.other_bot_reason(message):
            await self._journal.mark_skipped(message, skip(reason))
        else:
            await self._commenter.handle(adapter, message, delivery.previous_reply_id, delivery)

    async def _try_capture_answer(self, adapter: Adapter, message: Message) -> bool:
        """Finish a message that is the answer of a trusted person, where the bot may speak at all."""
        await self._gate.chat_policy.refresh()
        if self._gate.chat_policy.block_reason(message) or not await self._handoff.capture_expert_answer(
            adapter, message
        ):
            return False
        await self._journal.mark_skipped(message, skip(SkipReason.ANSWER_CAPTURED))
        return True

    async def _respond(
        self, adapter: Adapter, message: Message, decision: GateDecision, delivery: JournaledDelivery
    ) -> None:
        delivery.is_notice = bool(decision.canned_reply)
        delivery.conversation = {*delivery.conversation, *decision.made_of}
        delivery.opinion = decision.opinion
        is_public = delivery.is_notice or delivery.is_approved or delivery.has_begun
        delivery.is_draft = is_draft = self._drafts.takes(message) and not is_public
        if reason := decision.reason or await self._find_block(message, decision, is_draft=is_draft):
            # Without the values: a model's opinion has words of the message.
            _log.debug("message.silent", reason=reason.reason.name)
            # A model may have said why, when it saw more than may be told of now.
            labels = delivery.visible_labels | self._permissions.visible_labels(message)
            await self._journal.mark_skipped(message, reason, labels, decision.made_of)
            return
        is_question = is_ask_command(message.command) and asks(message, self._dispatcher.context.settings)
        is_answerable = is_question and not decision.canned_reply
        question = self._feedback.with_reply_options(message, is_question=is_answerable)
        sink = (
            self._drafts.make_sink(message, delivery, decision.opinion)
            if is_draft
            else RecordedSink(adapter.sink(question, delivery, delivery.previous_reply_id), delivery)
        )
        try:
            if reply := delivery.final_reply:
                watch_delivery(message, delivery)
                await (sink.deliver(reply) if reply.failure else self._guard(message, sink).finish(reply))
            else:
                reply = await self._reply(adapter, message, sink, delivery, decision)
        except asyncio.CancelledError:
            await delivery.wait_for_posting()
            raise
        except JournalError:
            # The question is fine: it is processed again when the journal works.
            raise
        except Exception as error:
            await self._end_without_answer(message, decision, delivery, sink, error)
        else:
            if is_draft and not reply.failure:
                return
            reply = replace(reply, trace=replace(reply.trace, opinion=decision.opinion or reply.trace.opinion))
            await self._finish_answer(message, reply, decision, delivery)
            if is_answerable and not (reply.is_stopped or reply.failure):
                await self._handoff.hand_off_if_needed(adapter, message, reply, self._enqueue)

    async def _find_block(self, message: Message, decision: GateDecision, *, is_draft: bool) -> Skip | None:
        """Return why there is nobody to call, or an answer must not become a draft; or None.

        Raises `Undelivered` where nobody knows now.
        """
        if self._handoff.calls_nobody(message):
            return skip(SkipReason.RIGHTS_CHANGED)
        if not is_draft:
            return None
        try:
            return await self._drafts.find_block(message)
        except PlatformUnavailable as error:
            raise Undelivered(error, message.sent_at, is_unprompted=decision.is_unprompted) from error

    async def _reply(
        self,
        adapter: Adapter,
        message: Message,
        sink: RecordedSink,
        delivery: JournaledDelivery,
        decision: GateDecision,
    ) -> Reply:
        # At one moment: who gets a role meanwhile is answered as before, and the journal says what from.
        visible_labels = self._permissions.visible_labels(message)
        searched_sources = self._permissions.searched_sources(message)
        if delivery.visible_labels <= visible_labels:
            self._watch_rights(adapter, message, delivery)
        # Also of a command, which is not to be run again where its reply is delivered later.
        text = await self._journal.begin_answer(message, visible_labels)
        if decision.canned_reply:
            reply = Reply(decision.canned_reply)
            await self._guard(message, sink).finish(reply)
            return reply
        if self._handoff.should_handle(message):
            return await sink.send_text(await self._handoff.answer(adapter, message, self._enqueue))
        # A later edit does not change a command: it runs as it was first sent.
        if not is_ask_command(message.command):
            command_reply = await self._dispatcher.dispatch(message, adapter, delivery.still_told.append)
            if decision.in_silence:
                raise CommentSuppressed(decision.in_silence)
            if message.command in RIGHTS_COMMANDS:
                # What the command itself changed is no reason to hide its reply.
                self._watch_rights(adapter, message, delivery)
            return await sink.send_text(command_reply)
        if message.command and not asks(message, self._dispatcher.context.settings):
            return await sink.send_text(await self._dispatcher.dispatch(replace(message, command="help"), adapter))
        is_unprompted = decision.is_unprompted or (sink.is_resumed and not message.addressed)
        voice: Attachment | None = None
        # Whose written words are answered without a question to the bot did not mean it to hear them, either.
        if not (is_unprompted and message.text.strip()):
            message, voice = await find_speech(message, self._journal, self._dispatcher.context.settings)
        text, history = await with_history(
            self._journal, message, text, self._settings.answer, visible_labels, is_spoken=voice is not None
        )
        watch_history(message, history, delivery)
        question = self._make_question(message, add_transcript(text, voice), history.turns)
        question = replace(question, visible_sources=searched_sources, is_unprompted=is_unprompted)
        question = with_attachments(question, message, adapter, voice)
        question = with_speech(question, message, voice, adapter, self._journal)
        question = await self._feedback.with_retry_context(message, question, delivery)
        async with self._feedback.running_answers.track(message, is_resumed=sink.is_resumed) as stop:
            # What others have begun to read is finished, and an expert who is called in is told what about.
            may_be_silent = decision.is_unprompted and not (sink.is_resumed or self._handoff.calls_for("nothing_found"))
            return await self._answer(replace(question, stop=stop), UnpromptedSink(sink) if may_be_silent else sink)

    def _make_question(self, message: Message, text: str, history: Sequence[Turn]) -> Question:
        chat_settings = self._permissions.get_chat_settings(message)
        return Question(
            text,
            tuple(history),
            message.id,
            message.author,
            message.author_id,
            message.key,
            message.thread_state.is_restricted,
            persona=chat_settings.persona,
            language=chat_settings.language,
        )

    def _guard(self, message: Message, sink: RecordedSink) -> Sink:
        """Return what lets only through what of an answer may leave.

        What commands say is not searched, nor what people write. Nor are notices of our own: an alert has no other
        words, and a draft's hides them itself.
        """
        is_answer = is_ask_command(message.command) and not self._handoff.should_handle(message)
        if message.origin.purpose in NOTICE_PURPOSES or not is_answer:
            return sink
        language = self._permissions.get_language(message)
        return guard_words(self._dispatcher.context.settings.outgoing, message.key.platform, language, sink)

    async def _finish_answer(
        self, message: Message, reply: Reply, decision: GateDecision, delivery: JournaledDelivery
    ) -> None:
        if reply.failure:
            self._release_cooldown(message, decision, delivery)
            await self._journal.mark_failed(message, reply.failure)
            return
        # Such words of members are kept, and forgotten, with what they wrote alone.
        has_foreign_words = message.origin.purpose in ("draft", "report") or message.command in RETELLING_COMMANDS
        await self._journal.mark_delivered(message, Reply("") if has_foreign_words else reply)
        annotate(outcome="answered", strategy=reply.trace.strategy, citations=len(reply.citations))
        _log.info(
            "message.answered",
            unasked=decision.is_unprompted,
            citations=len(reply.citations),
            cut=reply.trace.degraded,
            **reply.trace.timings_ms,
        )

    async def _end_without_answer(
        self,
        message: Message,
        decision: GateDecision,
        delivery: JournaledDelivery,
        sink: RecordedSink,
        error: Exception,
    ) -> None:
        """Record why a message got no answer; what nobody foresaw is reported to the asker. Raises `Undelivered`.

        A reason may name a source as well: where that may not be told of any more, the asker reads that instead.
        """
        # A message that was read from the journal still says whether it was addressed.
        is_unprompted = decision.is_unprompted or (delivery.is_resumed and not message.addressed)
        match error:
            case MessageDeleted() | NothingToSay() | CommentSuppressed():
                await self._journal.mark_skipped(message, to_skip(error))
                self._release_cooldown(message, decision)
            case AnswerWithheld() if is_unprompted and not delivery.is_visible:
                await self._journal.mark_skipped(message, to_skip(error))
                self._release_cooldown(message, decision)
            case RightsChanged():
                # What is visible already is replaced by the reason.
                self._release_cooldown(message, decision, delivery)
                if delivery.is_visible or not (error.block or is_unprompted):
                    with apologizing():
                        await self._report_error(message, sink, error, is_unprompted=is_unprompted)
                else:
                    await self._journal.mark_skipped(message, error.block or skip(SkipReason.RIGHTS_CHANGED))
            case PlatformUnavailable():
                raise Undelivered(error, delivery.due_at, is_unprompted=is_unprompted) from error
            case PlatformError():
                _log.error("reply.refused", error=str(error))
                await self._journal.mark_failed(message, str(error))
            case _:
                is_disturbing = self._is_apology_unneeded(message, decision, error) and not delivery.is_visible
                self._release_cooldown(message, decision, delivery)
                try:
                    await self._report_error(
                        message, None if is_disturbing else sink, error, is_unprompted=is_unprompted
                    )
                except RightsChanged as change:
                    await self._end_without_answer(message, decision, delivery, sink, change)

    def _is_apology_unneeded(self, message: Message, decision: GateDecision, error: Exception) -> bool:
        """Return whether an apology would only disturb: nobody addressed the bot, or the asker knows the reason.

        A command is always answered: its author sees the platform wait for a reply.
        """
        if isinstance(error, QuotaExceeded) and error.is_repeated and not message.command:
            return True
        return decision.is_unprompted or (
            isinstance(error, PermissionDenied) and self._gate.chat_policy.is_off(message)
        )

    async def _report_error(
        self, message: Message, sink: RecordedSink | None, error: Exception, *, is_unprompted: bool
    ) -> None:
        """Report an error to the asker, if there is a sink. Raises `Undelivered` where the platform is away."""
        apology = describe_error(error, self._permissions.get_language(message))
        try:
            if sink:
                await sink.apologize(apology)
        except PlatformUnavailable as platform_error:
            raise Undelivered(platform_error, message.sent_at, is_unprompted=is_unprompted) from error
        except PlatformError as platform_error:
            _log.error("reply.refused", error=str(platform_error))
        await self._journal.mark_failed(message, apology.failure)

    def _release_cooldown(
        self, message: Message, decision: GateDecision, delivery: JournaledDelivery | None = None
    ) -> None:
        """End the cooldown that an unprompted answer began, unless people see something of it."""
        if decision.is_unprompted and not (delivery and delivery.is_visible):
            self._gate.release_cooldown(message)


async def _or_silence(judging: Awaitable[GateDecision]) -> GateDecision:
    """Return what the gate decides; silence where the words that a model was to judge may not leave any more."""
    try:
        return await judging
    except MessageDeleted as error:
        return GateDecision(False, to_skip(error))
    except RightsChanged as error:
        return GateDecision(False, error.block or skip(SkipReason.RIGHTS_CHANGED))
