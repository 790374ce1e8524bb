"""The message processor: each message is recorded, judged by the gate, and answered once or skipped for a reason."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakValueDictionary

from core.errors import ClaimLost, JournalError, MessageDeleted, PlatformError, PlatformUnavailable, QuotaExceeded
from core.messaging.auto_comment.commenter import Commenter
from core.messaging.claiming import ClaimQueue, is_bound
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.event_limit import EventLimit
from core.messaging.feedback.escalation_handler import EscalationHandler
from core.messaging.feedback.handler import FeedbackHandler
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.gate.gate import Gate, GateDecision
from core.messaging.gate.human_activity import wait_while_typing
from core.messaging.gate.replies import has_content, with_attachments
from core.messaging.journaling import (
    JournaledDelivery,
    RecordedSink,
    bot_log_context,
    describe_error,
    make_storable,
    recover_pending,
    trace_message,
    without_foreign_command,
)
from core.messaging.policy.command_table import is_ask_command
from core.messaging.policy.permissions import PermissionDenied
from core.messaging.quotations import with_history
from core.messaging.redelivery import Conversation, LeftToNextStart, TakeTurn, Undelivered, redelivery_time_s
from core.messaging.unprompted import NothingToSay, UnpromptedSink, to_skip
from core.observability.logs import get_logger
from core.observability.tracing import annotate
from core.ports import Adapter, AnswerFunction, MessageHandler
from core.runtime.tasks import iter_retry_delays, uncancellable, wait_for
from core.settings import Settings
from core.storage.claims import ClaimRepository
from core.storage.messages import Journal
from core.types import ConversationKey, Message, Question, Reply, SkipReason, skip

_log = get_logger(__name__)

# How many undelivered answers are sent again at the same time.
REDELIVERIES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class MessageStages:
    """The stages of a message: `gate` decides whether the bot speaks, the others handle what the gate lets through."""

    gate: Gate
    dispatcher: CommandDispatcher
    commenter: Commenter
    feedback: FeedbackHandler
    handoff: EscalationHandler


class MessageProcessor:
    """Takes messages from all adapters, in order within a conversation; conversations do not wait for each other."""

    def __init__(self, settings: Settings, journal: Journal, answer: AnswerFunction, stages: MessageStages) -> None:
        self._settings = settings
        self._gate = stages.gate
        self._dispatcher = stages.dispatcher
        self._permissions = stages.dispatcher.context.permissions
        self._commenter = stages.commenter
        self._feedback = stages.feedback
        self._event_limit = EventLimit(stages.feedback.is_about_answer)
        self._handoff = stages.handoff
        self._stopping = asyncio.Event()
        self._journal = journal
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker_slots = asyncio.Semaphore(settings.run.workers)
        self._redelivery_slots = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(REDELIVERIES_AT_ONCE))
        self._queue: ClaimQueue | None = None
        self._conversations: WeakValueDictionary[ConversationKey, Conversation] = WeakValueDictionary()

    @property
    def in_flight(self) -> int:
        """How many messages are not finished yet."""
        return len(self._tasks)

    def share(self, claims: ClaimRepository) -> ClaimQueue:
        """Process what the returned queue claims from now on: other daemons work on the same journal."""
        self._queue = ClaimQueue(self._journal, claims, self._settings.run.workers, self._schedule)
        return self._queue

    def handler_for(self, adapter: Adapter) -> MessageHandler:
        """Return the function that an adapter calls with each message.

        It returns once the message is in the journal.
        """
        self._dispatcher.context.platforms.add(adapter.name)
        return partial(self._receive, adapter)

    async def resume(self, *adapters: Adapter) -> None:
        """Continue with what the last run received but did not finish. The adapters are all of one platform."""
        if self._queue:
            self._queue.add(adapters)
            return
        for adapter, message, previous_reply_id in await recover_pending(self._journal, adapters):
            with bot_log_context(adapter):
                self._schedule(adapter, message, previous_reply_id)

    async def join(self) -> None:
        """Wait until all received messages are finished."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def drain(self, grace_s: float) -> int:
        """Wait for answers in progress, at most `grace_s` seconds; return how many are left to the next start.

        It does not wait for questions that the bot leaves to people for a while: the next start judges them again.
        """
        self._stopping.set()
        self._journal.stop_retrying()
        for conversation in self._conversations.values():
            conversation.wake()
        deadline = time.monotonic() + grace_s
        cancelled_count = 0
        # An answer may start another one: an escalation or a retry.
        while running_tasks := {task for task in self._tasks if not task.done()}:
            _, unfinished_tasks = await asyncio.wait(running_tasks, timeout=max(0.0, deadline - time.monotonic()))
            for task in unfinished_tasks:
                task.cancel()
            await asyncio.gather(*unfinished_tasks, return_exceptions=True)
            cancelled_count += len(unfinished_tasks)
        return cancelled_count

    # Cancelled half-way, the message would be recorded but never processed: a redelivery would be a duplicate.
    @uncancellable
    async def _receive(self, adapter: Adapter, message: Message) -> None:
        message = make_storable(without_foreign_command(message))
        with trace_message(message, "receive"):
            await self._accept(adapter, message)

    async def _accept(self, adapter: Adapter, message: Message) -> None:
        if message.is_edit:
            if not is_ask_command(message.command):
                _log.debug("command.edited", message=message.id)
                return
            is_accepted = await self._journal.record_edit(message)
            _log.debug("message.edited", message=message.id, in_time=is_accepted)
        elif await self._event_limit.admits(message) and await self._journal.record_message(
            message, is_bound=is_bound(adapter, message)
        ):
            self._enqueue(adapter, message)

    def _enqueue(self, adapter: Adapter, message: Message) -> None:
        """Process a message that is in the journal, here or on the daemon that claims it first."""
        if self._queue and not is_bound(adapter, message):
            self._queue.wake()
        else:
            self._schedule(adapter, message)

    def _schedule(self, adapter: Adapter, message: Message, previous_reply_id: str = "") -> asyncio.Task[None] | None:
        """Start to process a message; return None for one that is in work already."""
        if self._queue and not self._queue.begin(message):
            return None
        key = message.key
        if self._dispatcher.is_priority(message):
            # The commands of one person keep their order, and wait for nobody else's answer.
            key = replace(key, thread=f"/{message.author_id}")
        elif not key.thread and self._commenter.should_handle(message):
            # Each post of a channel is a separate conversation, and messages of other bots are only counted.
            key = replace(key, thread=f"post {message.id}")
        conversation = self._conversations.setdefault(key, Conversation(self._stopping))
        task = asyncio.create_task(self._process(conversation, adapter, message, previous_reply_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _process(
        self, conversation: Conversation, adapter: Adapter, message: Message, previous_reply_id: str
    ) -> None:
        number = conversation.join()
        with trace_message(message, "message"):
            try:
                turn = partial(conversation.turn, number, adapter.connection)
                await self._process_until_finished(turn, adapter, message, previous_reply_id)
            except LeftToNextStart:
                _log.debug("message.postponed")
            except Exception as error:
                # Nobody handles the error after this: only the log is left.
                _log.exception("message.processing_failed", error=str(error))
            else:
                if self._queue:
                    self._queue.end(message)
            finally:
                conversation.leave(number)

    async def _process_until_finished(
        self, turn: TakeTurn, adapter: Adapter, message: Message, previous_reply_id: str
    ) -> None:
        """Process a message; retry while the journal fails or the platform accepts no answer."""
        # Where daemons share the work, the journal says whether a message is still unfinished, and ours.
        is_first_try = self._queue is None
        deadline = None
        for delay_s in iter_retry_delays():
            try:
                reply_id = previous_reply_id if is_first_try else await self._journal.find_unfinished(message)
                if reply_id is not None:
                    await self._process_once(turn, adapter, message, reply_id)
            except ClaimLost as error:
                _log.warning("message.claim_lost", error=str(error))
                return
            except JournalError as error:
                _log.error("journal.unavailable", error=str(error), retry_s=delay_s)
                is_first_try = False
                if not await self._journal.wait_to_retry(delay_s):
                    raise
            except Undelivered as error:
                is_first_try = False
                wait_s = max(delay_s, error.cause.seconds)
                now = asyncio.get_running_loop().time()
                deadline = deadline or now + redelivery_time_s(message, error, self._settings.run.redeliver_hours)
                if now + wait_s > deadline:
                    _log.error("reply.given_up", error=str(error))
                    await self._journal.mark_failed(message, f"the platform did not take the answer in time: {error}")
                    return
                _log.warning("reply.undelivered", error=str(error), retry_s=wait_s)
                # What is still undelivered when the daemon stops is left to the next start.
                if not await self._wait_for_humans(wait_s):
                    return
            else:
                return

    async def _process_once(self, turn: TakeTurn, adapter: Adapter, message: Message, previous_reply_id: str) -> None:
        visible_sources = self._permissions.visible_sources(message)
        if self._dispatcher.is_priority(message) or is_press(message):
            async with turn():
                delivery = await JournaledDelivery.open(self._journal, message, previous_reply_id, visible_sources)
                if is_press(message) and not self._dispatcher.is_priority(message):
                    await self._feedback.handle_press(adapter, message, delivery, self._enqueue)
                    return
                decision = await self._gate.judge(message, is_resumed=delivery.is_resumed)
                await self._respond(adapter, message, decision, delivery)
            return
        async with turn():
            # Read only now, at the message's turn: messages are processed in the order in which they came.
            delivery = await JournaledDelivery.open(self._journal, message, previous_reply_id, visible_sources)
            # An answer that is only to be delivered needs no worker.
            async with self._redelivery_slots[adapter.label] if delivery.final_reply else self._worker_slots:
                delayed_decision = await self._judge_and_respond(adapter, message, delivery)
        if delayed_decision is None:
            return
        if await self._wait_for_humans(delayed_decision.wait_s) and await wait_while_typing(
            adapter, message, delayed_decision.wait_s, self._wait_for_humans
        ):
            async with turn(), self._worker_slots:
                decision = await self._gate.recheck(message, delayed_decision)
                await self._respond(adapter, message, decision, delivery)

    async def _judge_and_respond(
        self, adapter: Adapter, message: Message, delivery: JournaledDelivery
    ) -> GateDecision | None:
        """Judge a message and answer it; return the decision instead if people get time to answer first."""
        if self._commenter.should_handle(message):
            await self._comment(adapter, message, delivery)
            return None
        if await self._try_capture_answer(adapter, message):
            return None
        decision = await self._gate.judge(message, is_resumed=delivery.is_resumed)
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

    async def _wait_for_humans(self, seconds: float) -> bool:
        """Give people time to answer while other messages are processed; False when the daemon stops meanwhile."""
        with self._queue.free_worker() if self._queue else nullcontext():
            return not await wait_for(self._stopping, seconds)

    async def _respond(
        self, adapter: Adapter, message: Message, decision: GateDecision, delivery: JournaledDelivery
    ) -> None:
        if decision.reason:
            _log.debug("message.silent", reason=str(decision.reason))
            await self._journal.mark_skipped(message, decision.reason, self._permissions.visible_sources(message))
            return
        is_answerable = is_ask_command(message.command) and not decision.canned_reply and has_content(message)
        question = self._feedback.with_answer_buttons(message, is_question=is_answerable)
        sink = RecordedSink(adapter.sink(question, delivery, delivery.previous_reply_id), delivery)
        # A message that was read from the journal still says whether it was addressed.
        is_unprompted = decision.is_unprompted or (delivery.is_resumed and not message.addressed)
        try:
            if reply := delivery.final_reply:
                await sink.deliver(reply)
            else:
                reply = await self._reply(adapter, message, sink, decision)
        except asyncio.CancelledError:
            await delivery.wait_for_posting()
            raise
        except (MessageDeleted, NothingToSay) as error:
            await self._journal.mark_skipped(message, to_skip(error))
            self._release_cooldown(message, decision)
        except PlatformUnavailable as error:
            raise Undelivered(error, is_unprompted=is_unprompted) from error
        except PlatformError as error:
            _log.error("reply.refused", error=str(error))
            await self._journal.mark_failed(message, str(error))
        except JournalError:
            # The question is fine: it is processed again when the journal works.
            raise
        except Exception as error:
            is_disturbing = self._is_apology_unneeded(message, decision, error) and not delivery.is_visible
            self._release_cooldown(message, decision, delivery)
            await self._report_error(message, None if is_disturbing else sink, error, is_unprompted=is_unprompted)
        else:
            reply = replace(reply, trace=replace(reply.trace, opinion=decision.opinion))
            await self._finish_answer(message, reply, decision, delivery)
            if is_answerable and not (reply.is_stopped or reply.failure):
                await self._handoff.escalate_if_needed(adapter, message, reply, self._enqueue)

    def _release_cooldown(
        self, message: Message, decision: GateDecision, delivery: JournaledDelivery | None = None
    ) -> None:
        """End the cooldown that an unprompted answer began, unless people see something of it."""
        if decision.is_unprompted and not (delivery and delivery.is_visible):
            self._gate.release_cooldown(message)

    def _is_apology_unneeded(self, message: Message, decision: GateDecision, error: Exception) -> bool:
        """Return whether an apology would only disturb: nobody addressed the bot, or the asker knows the reason.

        A command is always answered: its author sees the platform wait for a reply.
        """
        if isinstance(error, QuotaExceeded) and error.is_repeated and not message.command:
            return True
        return decision.is_unprompted or (
            isinstance(error, PermissionDenied) and self._gate.chat_policy.is_off(message)
        )

    async def _finish_answer(
        self, message: Message, reply: Reply, decision: GateDecision, delivery: JournaledDelivery
    ) -> None:
        if reply.failure:
            self._release_cooldown(message, decision, delivery)
            await self._journal.mark_failed(message, reply.failure)
            return
        await self._journal.mark_answered(message, reply)
        annotate(outcome="answered", strategy=reply.trace.strategy, citations=len(reply.citations))
        _log.info(
            "message.answered",
            unasked=decision.is_unprompted,
            citations=len(reply.citations),
            cut=reply.trace.cut,
            **reply.trace.timings_ms,
        )

    async def _reply(self, adapter: Adapter, message: Message, sink: RecordedSink, decision: GateDecision) -> Reply:
        visible_sources = self._permissions.visible_sources(message)
        if decision.canned_reply:
            await self._journal.begin_answer(message, visible_sources)
            return await sink.send_text(decision.canned_reply)
        if self._handoff.should_handle(message):
            return await sink.send_text(await self._handoff.answer(adapter, message, self._enqueue))
        # A later edit does not change a command: it runs as it was first sent.
        if not is_ask_command(message.command):
            return await sink.send_text(await self._dispatcher.dispatch(message, adapter))
        if message.command and not has_content(message):
            return await sink.send_text(await self._dispatcher.dispatch(replace(message, command="help"), adapter))
        text = await self._journal.begin_answer(message, visible_sources)
        text, history = await with_history(self._journal, message, text, self._settings.answer, visible_sources)
        question = Question(
            text,
            tuple(history),
            message.id,
            message.author,
            message.author_id,
            message.key,
            message.in_restricted_thread,
            visible_sources=visible_sources,
            is_unprompted=decision.is_unprompted or (sink.is_resumed and not message.addressed),
        )
        question = await self._feedback.with_retry_context(message, with_attachments(question, message, adapter))
        async with self._feedback.running_answers.track(message, is_resumed=sink.is_resumed) as stop:
            # What others have begun to read is finished, and an expert who is called in is told what about.
            may_be_silent = decision.is_unprompted and not (sink.is_resumed or self._handoff.calls_for("nothing_found"))
            return await self._answer(replace(question, stop=stop), UnpromptedSink(sink) if may_be_silent else sink)

    async def _try_capture_answer(self, adapter: Adapter, message: Message) -> bool:
        """Finish a message that is the answer of a trusted person, where the bot may speak at all."""
        await self._gate.chat_policy.refresh()
        if self._gate.chat_policy.block_reason(message) or not await self._handoff.capture_expert_answer(
            adapter, message
        ):
            return False
        await self._journal.mark_skipped(message, skip(SkipReason.ANSWER_CAPTURED))
        return True

    async def _report_error(
        self, message: Message, sink: RecordedSink | None, error: Exception, *, is_unprompted: bool
    ) -> None:
        """Report an error to the asker, if there is a sink. Raises `Undelivered` where the platform is away."""
        apology = describe_error(message, error)
        try:
            if sink:
                await sink.apologize(apology)
        except PlatformUnavailable as platform_error:
            raise Undelivered(platform_error, is_unprompted=is_unprompted) from error
        except PlatformError as platform_error:
            _log.error("reply.refused", error=str(platform_error))
        await self._journal.mark_failed(message, apology.failure)
