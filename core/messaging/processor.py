"""The intake: every delivered message is journalled, judged, and answered once, or its silence has a reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from core.errors import KimasError, MessageGone, PlatformError, ServiceError, UsageError
from core.messaging.auto_comment.commenter import Commenter
from core.messaging.commands.dispatcher import Desk
from core.messaging.feedback.expert_answers import Handoff
from core.messaging.feedback.handler import FeedbackDesk
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.gate.attachments import has_words, with_attachments
from core.messaging.gate.gate import Gate, Verdict
from core.messaging.gate.human_activity import let_them_finish
from core.messaging.journaled_delivery import Noted
from core.messaging.multi_bot import named, unfinished
from core.messaging.policy.command_table import is_question, stands
from core.messaging.policy.permissions import Refused
from core.observability.logs import context, logger
from core.ports import Adapter, Library, Receive, Sink
from core.runtime.tasks import unbroken
from core.settings import Settings
from core.storage.chat_history import CLOSED, Room
from core.storage.messages import Journal
from core.text.keywords import own_turns
from core.text.language import language_of
from core.text.messages import notes_in
from core.types import ConversationKey, Message, Question, Reply, Turn

QUOTED_CHARS = 1000

Answer = Callable[[Question, Sink], Awaitable[Reply]]


class Intake:
    """Takes messages from all adapters, in order within a conversation; conversations do not wait for each other.

    Without a `library` nothing tells whether a question is about the knowledge, and the bot never speaks unasked. The
    `desk` answers commands.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        answer: Answer,
        library: Library | None = None,
        desk: Desk | None = None,
    ) -> None:
        self._settings = settings
        self._desk = desk = desk or Desk(settings, journal)
        self._gate = Gate(settings, Room(journal.database), library, desk.steering, desk.permissions)
        desk.office.adopters["gate"] = self._gate.adopt
        self._comments = Commenter(settings, journal, answer, library)
        begin = partial(self._start, previous="")
        self._feedback = FeedbackDesk(settings, journal, begin, self._looks_after)
        self._handoff = Handoff(settings, journal, begin, self._looks_after)
        self._leaving = asyncio.Event()
        self._journal = journal
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(settings.run.workers)
        self._lanes: WeakValueDictionary[ConversationKey, asyncio.Lock] = WeakValueDictionary()

    @property
    def in_hand(self) -> int:
        """How many messages are not settled yet."""
        return len(self._tasks)

    def receiver(self, adapter: Adapter) -> Receive:
        """Return what the adapter hands its messages to. It returns once the message is in the journal."""
        self._desk.office.platforms.add(adapter.name)
        return partial(self._receive, adapter)

    async def resume(self, *bots: Adapter) -> None:
        """Take up what the last run received but did not settle. `bots` are all of one platform."""
        for adapter, message, previous in await unfinished(self._journal, bots):
            with named(adapter):
                self._start(adapter, message, previous)

    async def drain(self, grace_s: float) -> int:
        """Wait for answers in the making, at most `grace_s` seconds; return how many are left to the next start.

        Questions that were left to people for a while are not waited for: the next start looks at them again.
        """
        self._leaving.set()
        until, left = time.monotonic() + grace_s, 0
        # An answer may begin another one: a call for people, a second try.
        while running := {task for task in self._tasks if not task.done()}:
            _, late = await asyncio.wait(running, timeout=max(0.0, until - time.monotonic()))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            left += len(late)
        return left

    # Not to be cut in two: what is in the journal but not taken up is no news when it is delivered again.
    @unbroken
    async def _receive(self, adapter: Adapter, message: Message) -> None:
        if message.reference.get("edited"):
            if not is_question(message.command):
                logger(__name__).debug("command.edited", message=message.id)
                return
            taken = await self._journal.edited(message)
            logger(__name__).debug("message.edited", message=message.id, in_time=taken)
        elif await self._journal.received(message):
            self._start(adapter, message, "")

    def _start(self, adapter: Adapter, message: Message, previous: str) -> None:
        key = message.key
        if self._desk.takes_at_once(message):
            # What one person commands counts in the order it was given, and nobody waits for anybody else's answer.
            key = replace(key, thread=f"/{message.author_id}")
        elif not key.thread and self._comments.concerns(message):
            # Posts that share their channel are races of their own, and other bots' messages are only counted.
            key = replace(key, thread=f"post {message.id}")
        lane = self._lanes.setdefault(key, asyncio.Lock())
        task = asyncio.create_task(self._in_turn(lane, adapter, message, previous))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_turn(self, lane: asyncio.Lock, adapter: Adapter, message: Message, previous: str) -> None:
        key = message.key
        with context(message=message.id, platform=key.platform, chat=key.chat):
            try:
                if self._desk.takes_at_once(message):
                    async with lane:
                        verdict = await self._gate.judge(message, begun=bool(previous))
                        await self._settle(adapter, message, previous, verdict)
                    return
                if is_press(message):
                    async with lane:
                        await self._feedback.settle(adapter, message, Noted(self._journal, message))
                    return
                async with lane, self._slots:
                    if self._comments.concerns(message):
                        await self._comment(adapter, message, previous)
                        return
                    if await self._kept(adapter, message):
                        return
                    verdict = await self._gate.judge(message, begun=bool(previous))
                    if not verdict.wait_s:
                        await self._settle(adapter, message, previous, verdict)
                        return
                if await self._left_to_people(verdict.wait_s) and await let_them_finish(
                    adapter, message, verdict.wait_s, self._left_to_people
                ):
                    async with lane, self._slots:
                        await self._settle(adapter, message, previous, await self._gate.confirm(message, verdict))
            except Exception as fault:
                # The last place before the loop: the journal itself may be what failed, so only the log is left.
                logger(__name__).exception("message.unsettled", error=str(fault))

    async def _comment(self, adapter: Adapter, message: Message, previous: str) -> None:
        await self._gate.place.look()
        if held := self._gate.place.paused(message) or await self._gate.left_to_another(message):
            await self._journal.silent(message, held)
        else:
            await self._comments.settle(adapter, message, previous, Noted(self._journal, message))

    async def _left_to_people(self, seconds: float) -> bool:
        """Give people time to answer, while other messages go on; False when the daemon stops before it is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._leaving.wait()
        except TimeoutError:
            return True
        return False

    async def _settle(self, adapter: Adapter, message: Message, previous: str, verdict: Verdict) -> None:
        if not verdict.speak:
            logger(__name__).debug("message.silent", reason=verdict.reason)
            await self._journal.silent(message, verdict.reason)
            return
        delivery = Noted(self._journal, message)
        question = is_question(message.command) and not verdict.text and has_words(message)
        sink = adapter.sink(self._feedback.offering(message, question=question), delivery, previous)
        try:
            reply = await self._reply(adapter, message, sink, verdict)
        except asyncio.CancelledError:
            await delivery.settle()
            raise
        except MessageGone:
            await self._journal.silent(message, "the question was deleted before it was answered")
            if verdict.unasked:
                self._gate.unspoken(message)
        except PlatformError as fault:
            logger(__name__).error("reply.refused", error=str(fault))
            await self._journal.failed(message, str(fault))
        except Exception as fault:
            # Nobody asked for it, so nobody misses it: an apology would only disturb.
            needless = verdict.unasked or (isinstance(fault, Refused) and self._gate.place.is_off(message))
            await self._tell(message, None if needless and not delivery.seen else sink, fault)
            if verdict.unasked and not delivery.seen:
                self._gate.unspoken(message)
        else:
            await self._journal.answered(message, reply)
            logger(__name__).info(
                "message.answered",
                unasked=verdict.unasked,
                citations=len(reply.citations),
                cut=reply.trace.cut,
                **reply.trace.timings_ms,
            )
            if question:
                await self._handoff.after(adapter, message, reply)

    async def _reply(self, adapter: Adapter, message: Message, sink: Sink, verdict: Verdict) -> Reply:
        if verdict.text:
            await self._journal.begin(message)
            return await _say(sink, verdict.text)
        if self._handoff.takes(message):
            return await _say(sink, await self._handoff.answer(adapter, message))
        # Not the text that an edit left behind: a command is what its author sent.
        if not is_question(message.command):
            return await _say(sink, await self._desk.answer(message, adapter))
        if message.command and not has_words(message):
            return await _say(sink, await self._desk.answer(replace(message, command="help"), adapter))
        text = await self._journal.begin(message)
        history = await self._journal.conversation(message.key, self._settings.answer.history_turns)
        if not text.strip():
            text = message.quoted[: self._settings.answer.max_question_chars]
        elif message.quoted:
            history = [*history, *await self._replied_to(message, history)]
        closed = bool(message.reference.get(CLOSED))
        question = Question(text, tuple(history), message.id, message.author, message.author_id, message.key, closed)
        question = with_attachments(question, message, adapter)
        return await self._answer(await self._feedback.again(message, question), sink)

    async def _kept(self, adapter: Adapter, message: Message) -> bool:
        """Settle a message that is an answer of somebody who is trusted, where the bot may speak at all."""
        await self._gate.place.look()
        if self._gate.place.against(message) or not await self._handoff.hear(adapter, message):
            return False
        await self._journal.silent(message, "kept as an answer to be reviewed")
        return True

    async def _looks_after(self, message: Message, adapter: Adapter) -> bool:
        """Say whether the author of a message looks after the bot in its chat."""
        await self._desk.steering.load()
        return stands(await self._desk.permissions.standing(message, adapter), "admin")

    async def _replied_to(self, message: Message, history: Sequence[Turn]) -> Sequence[Turn]:
        """Return the message that this one replies to as conversation, without an author: it counts for the asker."""
        known = await self._journal.answer_shown_as(message)
        if known is None:
            return [Turn("user", _shortened(message.quoted))]
        if all(turn in own_turns(history, message.author_id) for turn in known):
            return []
        return [Turn(turn.role, _shortened(turn.text)) for turn in known]

    async def _tell(self, message: Message, sink: Sink | None, fault: Exception) -> None:
        """Tell the asker plainly, where there is a sink for it, and the log in full."""
        expected, notes = isinstance(fault, KimasError), notes_in(language_of(message.text))
        if isinstance(fault, UsageError):
            reason = str(fault)
            logger(__name__).info("question.refused", reason=reason)
        else:
            reason = notes.outside if isinstance(fault, ServiceError) else notes.inside
            logger(__name__).error("answer.failed", error=str(fault), exc_info=None if expected else fault)
        try:
            if sink:
                await sink.fail(str(fault) if isinstance(fault, UsageError) else notes.sorry.format(reason=reason))
        except PlatformError as refusal:
            logger(__name__).error("reply.refused", error=str(refusal))
        await self._journal.failed(message, str(fault) or type(fault).__name__)


def _shortened(text: str) -> str:
    return text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]} …"


async def _say(sink: Sink, text: str) -> Reply:
    reply = Reply(text)
    await sink.finish(reply)
    return reply
