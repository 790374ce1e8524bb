"""The inbox: it records each message, and gives each its turn, until it is finished or left to the next start."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from core.errors import ClaimLost, JournalError
from core.messaging.claiming import ClaimQueue, is_bound
from core.messaging.event_limit import EventLimit
from core.messaging.handler import Handler, MessageStages
from core.messaging.journaling import (
    bot_log_context,
    make_storable,
    recover_pending,
    trace_message,
    without_foreign_command,
)
from core.messaging.redelivery import Conversation, LeftToNextStart, TakeTurn, Undelivered, redelivery_time_s
from core.observability.logs import get_logger
from core.ports import Adapter, AnswerFunction, MessageHandler
from core.runtime.tasks import iter_retry_delays, uncancellable, wait_for
from core.settings import Settings
from core.storage.accounts import find_own_accounts, note_own_accounts
from core.storage.claims import ClaimRepository
from core.storage.forgettable import has_something_of
from core.storage.messages import Journal
from core.storage.tables import to_stored_labels
from core.types import ConversationKey, Message

_log = get_logger(__name__)


class Inbox:
    """Takes messages from all adapters, in order within a conversation; conversations do not wait for each other."""

    def __init__(self, settings: Settings, journal: Journal, answer: AnswerFunction, stages: MessageStages) -> None:
        self._settings = settings
        self._journal = journal
        self._dispatcher = stages.dispatcher
        self._commenter = stages.commenter
        self.drafts = stages.dispatcher.context.drafts
        self.drafts.start_answer = self._enqueue
        self._event_limit = EventLimit(stages.feedback.is_about_answer, partial(has_something_of, journal.database))
        self._handler = Handler(
            settings, journal, answer, stages, enqueue=self._enqueue, wait_for_humans=self._wait_for_humans
        )
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
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
        self.drafts.adapters[adapter.label] = adapter
        return partial(self._receive, adapter)

    async def resume(self, *adapters: Adapter) -> None:
        """Continue with what the last run received but did not finish. The adapters are all of one platform, and open.

        Whose words theirs are is known from now on, also once they are not configured any more.
        """
        own_ids = frozenset[str]().union(*(adapter.author_ids for adapter in adapters))
        await note_own_accounts(self._journal.database, adapters[0].name, own_ids)
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
        # An answer may start another one: a handoff or a retry.
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
        message = make_storable(await self._with_own_words(without_foreign_command(message)))
        with trace_message(message, "receive"):
            await self._accept(adapter, message)

    async def _with_own_words(self, message: Message) -> Message:
        """Return a message that knows words of any of our bots as words of the bot itself, also of a former one.

        A forward of them is a message without words that quotes them.
        """
        platform = message.key.platform
        adapters = [adapter for adapter in self.drafts.adapters.values() if adapter.name == platform]
        own_ids = frozenset[str]().union(*(adapter.author_ids for adapter in adapters))
        if unknown_ids := {*message.quoted_authors} - own_ids - {message.author_id}:
            own_ids |= await find_own_accounts(self._journal.database, platform, unknown_ids)
        if not (message.quotes_bot or own_ids.intersection(message.quoted_authors)):
            return message
        others = tuple(author_id for author_id in message.quoted_authors if author_id not in own_ids)
        message = replace(message, quotes_bot=True, quoted_authors=others)
        is_forward = message.is_forwarded and not message.quoted
        return replace(message, text="", quoted=message.text) if is_forward else message

    async def _accept(self, adapter: Adapter, message: Message) -> None:
        if message.is_edit:
            is_accepted = await self._journal.record_edit(message)
            _log.debug("message.edited", message=message.id, in_time=is_accepted)
            return
        # Its words, also those of a notice of our own, may tell of what can be seen there now.
        labels = to_stored_labels(self._dispatcher.context.permissions.visible_labels(message))
        if await self._event_limit.admits(message) and await self._journal.record_message(
            message, is_bound=is_bound(adapter, message), visible_sources=labels
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
                    await self._handler.handle(turn, adapter, message, reply_id)
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
                deadline = deadline or now + redelivery_time_s(error, self._settings.run.redeliver_hours)
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

    async def _wait_for_humans(self, seconds: float) -> bool:
        """Give people time to answer while other messages are processed; False when the daemon stops meanwhile."""
        with self._queue.free_worker() if self._queue else nullcontext():
            return not await wait_for(self._stopping, seconds)
