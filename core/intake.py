"""The intake: every delivered message is journalled, judged, and answered once, or its silence has a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from weakref import WeakValueDictionary

from core import commands
from core.commenting.commenter import Commenter
from core.errors import KimasError, MessageGone, PlatformError, ServiceError, UsageError
from core.gate import Gate, Verdict
from core.gating.room import Room
from core.journal import Journal
from core.language import language_of
from core.logs import context, logger
from core.notes import notes_in
from core.ports import Adapter, Library, Receive, Sink
from core.rewrite import own_turns
from core.settings import Settings
from core.types import ConversationKey, Message, Question, Reply, Turn

# A stop must not take long; what is posted by then or not at all is known for all but a broken connection.
LAST_POSTING_S = 5.0
QUOTED_CHARS = 1000

Answer = Callable[[Question, Sink], Awaitable[Reply]]


class _Delivery:
    """Tells the journal around the posting of one reply's first part."""

    def __init__(self, journal: Journal, message: Message) -> None:
        self._journal = journal
        self._message = message
        self._clear = asyncio.Event()
        self._clear.set()
        self.seen = False

    async def posting(self) -> None:
        self._clear.clear()
        self.seen = True
        await self._journal.posting(self._message)

    async def refused(self) -> None:
        self.seen = False
        await self._journal.refused(self._message)
        self._clear.set()

    async def posted(self, reply_id: str) -> None:
        await self._journal.posted(self._message, reply_id)
        self._clear.set()

    async def settle(self) -> None:
        """Wait a little for a posting on its way, so that its outcome is known before the answer is given up."""
        try:
            async with asyncio.timeout(LAST_POSTING_S):
                await self._clear.wait()
        except TimeoutError:
            logger(__name__).warning("reply.in_doubt", waited_s=LAST_POSTING_S)


class Intake:
    """Takes messages from all adapters, in order within a conversation; conversations do not wait for each other.

    Without a `library` nothing tells whether a question is about the knowledge, and the bot never speaks unasked.
    """

    def __init__(self, settings: Settings, journal: Journal, answer: Answer, library: Library | None = None) -> None:
        self._settings = settings
        self._gate = Gate(settings, Room(journal.database), library)
        self._comments = Commenter(settings, journal, answer, library)
        self._leaving = asyncio.Event()
        self._journal = journal
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(settings.run.workers)
        self._lanes: WeakValueDictionary[ConversationKey, asyncio.Lock] = WeakValueDictionary()

    def receiver(self, adapter: Adapter) -> Receive:
        """Return what the adapter hands its messages to. It returns once the message is in the journal."""
        return partial(self._receive, adapter)

    async def resume(self, adapter: Adapter) -> None:
        """Take up what the last run received but did not settle."""
        doubtful = await self._journal.uncertain(adapter.name)
        pending = await self._journal.pending(adapter.name)
        if doubtful or pending:
            logger(__name__).info("intake.resumed", platform=adapter.name, pending=len(pending), doubtful=doubtful)
        for message, previous in pending:
            self._start(adapter, message, previous)

    async def drain(self, grace_s: float) -> int:
        """Wait for answers in the making, at most `grace_s` seconds; return how many are left to the next start.

        Questions that were left to people for a while are not waited for: the next start looks at them again.
        """
        self._leaving.set()
        _, late = await asyncio.wait(self._tasks, timeout=grace_s) if self._tasks else (set(), set())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    async def _receive(self, adapter: Adapter, message: Message) -> None:
        if message.reference.get("edited"):
            taken = await self._journal.edited(message)
            logger(__name__).debug("message.edited", message=message.id, in_time=taken)
        elif await self._journal.received(message):
            self._start(adapter, message, "")

    def _start(self, adapter: Adapter, message: Message, previous: str) -> None:
        lane = self._lanes.setdefault(message.key, asyncio.Lock())
        task = asyncio.create_task(self._in_turn(lane, adapter, message, previous))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_turn(self, lane: asyncio.Lock, adapter: Adapter, message: Message, previous: str) -> None:
        key = message.key
        with context(message=message.id, platform=key.platform, chat=key.chat):
            try:
                async with lane, self._slots:
                    if self._comments.concerns(message):
                        await self._comments.settle(adapter, message, previous, _Delivery(self._journal, message))
                        return
                    verdict = await self._gate.judge(message, begun=bool(previous))
                    if not verdict.wait_s:
                        await self._settle(adapter, message, previous, verdict)
                        return
                if await self._left_to_people(verdict.wait_s):
                    async with lane, self._slots:
                        await self._settle(adapter, message, previous, await self._gate.confirm(message, verdict))
            except Exception as fault:
                # The last place before the loop: the journal itself may be what failed, so only the log is left.
                logger(__name__).exception("message.unsettled", error=str(fault))

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
            await self._journal.silent(message, verdict.reason)
            return
        delivery = _Delivery(self._journal, message)
        sink = adapter.sink(message, delivery, previous)
        try:
            reply = await self._reply(message, sink, verdict)
        except asyncio.CancelledError:
            await delivery.settle()
            raise
        except MessageGone:
            await self._journal.silent(message, "the question was deleted before it was answered")
        except PlatformError as fault:
            logger(__name__).error("reply.refused", error=str(fault))
            await self._journal.failed(message, str(fault))
        except Exception as fault:
            # Nobody asked for it, so nobody misses it: an apology would only disturb.
            await self._tell(message, None if verdict.unasked and not delivery.seen else sink, fault)
        else:
            await self._journal.answered(message, reply)
            logger(__name__).info(
                "message.answered",
                unasked=verdict.unasked,
                citations=len(reply.citations),
                cut=reply.trace.cut,
                **reply.trace.timings_ms,
            )

    async def _reply(self, message: Message, sink: Sink, verdict: Verdict) -> Reply:
        if verdict.text:
            await self._journal.begin(message)
            return await _say(sink, verdict.text)
        if message.command == "forget":
            return await _say(sink, commands.forgotten(await self._journal.forget_author(message)))
        if message.command in ("help", "start") or (
            message.command == "ask" and not (message.text.strip() or message.quoted)
        ):
            return await _say(sink, commands.help_text(self._settings))
        if message.command not in ("", "ask"):
            return await _say(sink, commands.unknown_command(message.command))
        text = await self._journal.begin(message)
        history = await self._journal.conversation(message.key, self._settings.answer.history_turns)
        if not text.strip():
            text = message.quoted[: self._settings.answer.max_question_chars]
        elif message.quoted:
            history = [*history, *await self._replied_to(message, history)]
        return await self._answer(
            Question(text, tuple(history), message.id, message.author, message.author_id, message.key), sink
        )

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
