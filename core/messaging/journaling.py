"""The journal around a reply: records each step of posting it, and finds what the last run did not finish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from core.catalogue import messages_for
from core.errors import AnswerWithheld, KimasError, MessageDeleted, ServiceError, SpeechUnclear, UsageError
from core.formatting import replace_lone_surrogates
from core.observability.logs import get_logger, log_context
from core.observability.tracing import make_trace_id, trace_context
from core.ports import Adapter, Sink
from core.runtime.leaving import get_told_numbers
from core.types import NOTICE_PURPOSES, RETELLING_COMMANDS, Message, Reply, Skip, SkipReason, skip

if TYPE_CHECKING:
    from core.storage.messages import Journal, StoredPart

_log = get_logger(__name__)

# A stop must not take long. Unless the connection is broken, the outcome is known by then.
POSTING_GRACE_S = 5.0

# Whether the current task says that nothing may be said. What shows a state of the answer is another task.
_is_apologizing: ContextVar[bool] = ContextVar("is_apologizing", default=False)

# Returns whether what a reply tells of the journal is still there, and told where it is read.
StillTold = Callable[[], Awaitable[bool]]

BOT_REMOVED_REASON = "the bot that received it is no longer configured"


class RightsChanged(UsageError):
    """While a message was answered, its answer became one that may not be shown. `block`: the bot may not speak."""

    def __init__(self, text: str, block: Skip | None = None) -> None:
        super().__init__(text)
        self.block = block


@contextmanager
def apologizing() -> Iterator[None]:
    """Let what is shown in the block, which says that the answer may not be shown, be shown all the same."""
    token = _is_apologizing.set(True)
    try:
        yield
    finally:
        _is_apologizing.reset(token)


class JournaledDelivery:
    """Implements `core.ports.Delivery`: records in the journal how the posting of a reply's first part goes.

    `check_rights` is asked before anything of the reply is shown; it raises `RightsChanged`. It calls `require_left`
    once it has waited for the platform. `visible_labels` are those of the sources that could be told of when the reply
    was begun. Of what may be somebody else's, it is made from `brought_parts` of its question, and from the messages
    whose numbers are its `conversation`. A model's `opinion` is why it is made, "" for none. What else it tells of the
    journal is asked for again by `still_told`; the words of such a reply are recorded nowhere.

    `is_visible` says whether people can see anything of the reply, as far as is known. `is_in_doubt` is whether the
    last run ended while it posted the reply; `final_reply` is the reply that is to be delivered, once it is known.
    `due_at` is when it was wanted: when the question was sent, or when a team let its draft be posted, which
    `is_approved` says. `is_draft` is whether a team will decide about it, `is_notice` whether it is no answer.
    """

    def __init__(self, journal: Journal, message: Message, previous_reply_id: str = "") -> None:
        self.previous_reply_id = previous_reply_id
        self._journal = journal
        self._message = message
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_visible = False
        self.is_in_doubt = False
        self.check_rights: Callable[[], Awaitable[None]] | None = None
        self.brought_parts: tuple[StoredPart, ...] = ()
        self.conversation: Collection[int] = ()
        self.opinion = ""
        self.still_told: list[StillTold] = []
        self.visible_labels = frozenset[str]()
        self.final_reply: Reply | None = None
        self.parts: dict[int, str] = {}
        self.due_at = message.sent_at
        self.is_approved = False
        self.is_draft = False
        self.is_notice = False

    @property
    def has_begun(self) -> bool:
        """Return whether people may have seen something of the answer before a restart."""
        return bool(self.previous_reply_id) or self.is_in_doubt

    @property
    def is_resumed(self) -> bool:
        """Return whether the answer began before a restart."""
        return self.has_begun or self.final_reply is not None

    @classmethod
    async def open(
        cls, journal: Journal, message: Message, previous_reply_id: str, visible_labels: frozenset[str] | None
    ) -> JournaledDelivery:
        """Return the delivery of a message's reply, with what the journal knows of it.

        A reply from sources that may not be told of any more is not delivered, nor one whose words were not recorded:
        the message is answered anew.
        """
        delivery = cls(journal, message, previous_reply_id)
        known_state = await journal.get_delivery(message, visible_labels)
        delivery.is_in_doubt, delivery.final_reply, delivery.parts, others, approved_at = known_state
        if message.command in RETELLING_COMMANDS and delivery.final_reply and not delivery.final_reply.text:
            delivery.final_reply = None
        if delivery.final_reply:
            delivery.conversation = others
        delivery.due_at = approved_at or message.sent_at
        delivery.is_approved = approved_at is not None and delivery.final_reply is not None
        delivery.is_visible = delivery.is_in_doubt
        return delivery

    async def require_rights(self) -> None:
        """Raise `RightsChanged` if the reply may not be shown any more, `MessageDeleted` if its asker was forgotten."""
        if self.check_rights and not _is_apologizing.get():
            await self.check_rights()
        elif await self._find_forgotten() == "author":
            raise MessageDeleted(SkipReason.DRAFT_FORGOTTEN.text)

    async def require_left(self) -> None:
        """Raise `MessageDeleted` if the asker was forgotten, `RightsChanged` if somebody else in what it is made from.

        Also where what it tells of the journal is not there any more, or not told there.

        All that takes time, such as a question to the platform, has to be behind this; what follows is in memory.
        """
        others = {*self.conversation, *get_told_numbers()}
        forgotten = await self._find_forgotten(self.brought_parts, others)
        if not forgotten and not await self._is_still_told():
            forgotten = "others"
        match forgotten:
            case "author":
                raise MessageDeleted(SkipReason.DRAFT_FORGOTTEN.text)
            case "others":
                # A notice of the bot's own is left out: nobody asked for it.
                is_notice = self._message.origin.purpose in NOTICE_PURPOSES
                block = skip(SkipReason.DRAFT_FORGOTTEN) if is_notice else None
                raise RightsChanged(messages_for(self._message.language).rights_changed, block)

    async def _find_forgotten(
        self, parts: Collection[StoredPart] = (), others: Collection[int] = ()
    ) -> Literal["author", "others", ""]:
        is_final = self.final_reply is not None
        return await self._journal.find_forgotten(self._message, parts, others, is_final=is_final)

    async def _is_still_told(self) -> bool:
        for is_still_told in self.still_told:
            if not await is_still_told():
                return False
        return True

    async def require_claim(self) -> None:
        """Raise `ClaimLost` where another daemon has taken the message over."""
        await self._journal.require_claim(self._message)

    async def mark_final(self, reply: Reply) -> None:
        """Record the final reply before it is posted: the next start delivers what is left of it."""
        if self.final_reply is None:
            # Whoever is forgotten in the opinion has to find it.
            reply = replace(reply, trace=replace(reply.trace, opinion=self.opinion or reply.trace.opinion))
            self.final_reply = reply
            # Whose words are in it nobody could find there: it is told anew after an outage.
            kept_reply = Reply("") if self.still_told else reply
            await self._journal.mark_delivery(self._message, kept_reply, self.parts, self.conversation)

    async def mark_part(self, number: int, part_id: str) -> None:
        """Record that a further part is posted under an id; "": that it is about to be posted."""
        self.parts[number] = part_id
        if self.final_reply is not None:
            await self._journal.mark_parts(self._message, self.parts)

    async def mark_posting(self) -> None:
        """Record that the first part is about to be posted."""
        self._idle.clear()
        self.is_visible = True
        await self._journal.mark_posting(self._message)

    async def mark_rejected(self) -> None:
        """Record that nothing was posted."""
        self.is_visible = False
        self.is_in_doubt = False
        await self._journal.mark_rejected(self._message)
        self._idle.set()

    async def mark_posted(self, reply_id: str) -> None:
        """Record that the first part was posted, under this id."""
        await self._journal.mark_posted(self._message, reply_id)
        self.is_visible = True
        self.is_in_doubt = False
        self._idle.set()

    async def wait_for_posting(self) -> None:
        """Wait up to `POSTING_GRACE_S` seconds for a posting that has begun, so that its outcome is known."""
        try:
            async with asyncio.timeout(POSTING_GRACE_S):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("reply.in_doubt", waited_s=POSTING_GRACE_S)


class RecordedSink:
    """Passes a reply to another sink, and records its final form first: also an apology."""

    def __init__(self, sink: Sink, delivery: JournaledDelivery) -> None:
        self._sink = sink
        self._delivery = delivery
        self.is_resumed = delivery.is_resumed
        # Each question to the journal costs as much as writing the update itself.
        self._judges_updates = getattr(sink, "judges_updates", False)

    async def open(self) -> None:
        """Show that an answer is coming."""
        await self._sink.open()

    async def update(self, text: str) -> None:
        """Show the reply so far. A sink that `judges_updates` asks right before each call that brings some of it."""
        if not self._judges_updates:
            await self._delivery.require_rights()
        await self._sink.update(text)

    async def finish(self, reply: Reply) -> None:
        """Record the final reply, and show it."""
        await self._delivery.require_rights()
        await self._delivery.mark_final(reply)
        await self._sink.finish(reply)

    async def send_text(self, text: str) -> Reply:
        """Show a text as the whole reply, and return it."""
        reply = Reply(text)
        await self.finish(reply)
        return reply

    async def fail(self, text: str) -> None:
        """Show that the answer failed."""
        await self.apologize(Reply(text, failure=text))

    async def apologize(self, reply: Reply) -> None:
        """Record a reply that says why there is no answer, and show it."""
        await self._delivery.require_rights()
        await self._delivery.mark_final(reply)
        await self._sink.fail(reply.text)

    async def deliver(self, reply: Reply) -> None:
        """Show a reply that was recorded before."""
        await self._delivery.require_rights()
        await (self._sink.fail(reply.text) if reply.failure else self._sink.finish(reply))


def describe_error(error: Exception, language: str) -> Reply:
    """Log an error in full, and return what the asker reads: plain words."""
    is_expected = isinstance(error, KimasError)
    texts = messages_for(language)
    error_text = str(error) or type(error).__name__
    if isinstance(error, UsageError):
        match error:
            case AnswerWithheld():
                reason = str(error.skip)
            case SpeechUnclear():
                reason = error.reason
            case _:
                reason = error_text
        _log.info("question.refused", reason=reason)
        return Reply(str(error), failure=reason)
    reason = texts.service_unavailable if isinstance(error, ServiceError) else texts.internal_error
    _log.error("answer.failed", error=str(error), exc_info=None if is_expected else error)
    return Reply(texts.answer_failed.format(reason=reason), failure=error_text)


def without_foreign_command(message: Message) -> Message:
    """Return a message that gives no command if its words are somebody else's: the rights would be the forwarder's."""
    if not (message.is_forwarded and message.command):
        return message
    return replace(message, command="", text=f"/{message.command} {message.text}".strip())


def make_storable(message: Message) -> Message:
    """Return a message without halves of surrogate pairs: one could not be journalled, and would block all after it."""
    return replace(
        message,
        author=replace_lone_surrogates(message.author),
        text=replace_lone_surrogates(message.text),
        quoted=replace_lone_surrogates(message.quoted),
        chat_title=replace_lone_surrogates(message.chat_title),
        attachments=tuple(
            replace(attachment, name=replace_lone_surrogates(attachment.name)) for attachment in message.attachments
        ),
    )


def bot_log_context(adapter: Adapter) -> AbstractContextManager[None]:
    """Add the bot's name, if it has one, to every event that is logged inside the `with` block."""
    name = adapter.label.partition(":")[2]
    return log_context(bot_name=name) if name else nullcontext()


def trace_message(message: Message, name: str) -> AbstractContextManager[None]:
    """Give what happens in the block the id of the message, which is the same after a restart."""
    key = message.key
    trace_id = make_trace_id(key.platform, message.bot, key.chat, message.id)
    return trace_context(trace_id, name, message=message.id, platform=key.platform, chat=key.chat)


async def recover_pending(journal: Journal, adapters: Sequence[Adapter]) -> list[tuple[Adapter, Message, str]]:
    """Return the unfinished messages of one platform, oldest first, each with its adapter and its reply's id or "".

    `adapters` are all adapters of one platform. Messages of a bot that was removed go to the first of them.
    """
    platform = adapters[0].name
    uncertain_count = await journal.restart_begun(platform)
    if not adapters[0].can_resolve_doubt:
        await journal.fail_uncertain(platform)
    pending_messages = await journal.get_pending(platform)
    if uncertain_count or pending_messages:
        _log.info("messages.resumed", platform=platform, pending=len(pending_messages), doubtful=uncertain_count)
    assignments: list[tuple[Adapter, Message, str]] = []
    for message, previous_reply_id in pending_messages:
        if adapter := await choose_adapter(journal, adapters, message):
            assignments.append((adapter, message, previous_reply_id))
    return assignments


async def choose_adapter(journal: Journal, adapters: Sequence[Adapter], message: Message) -> Adapter | None:
    """Return which of a platform's adapters answers a message; None for one that is closed: its bot was removed."""
    owner = next((adapter for adapter in adapters if adapter.bot_id == message.bot), None)
    if owner is None and not adapters[0].can_take_over:
        await journal.mark_failed(message, BOT_REMOVED_REASON)
        return None
    return owner or adapters[0]
