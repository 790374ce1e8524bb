"""The bot under test: real adapter, processor and journal, and a scripted answer; it stops, dies and starts again."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from sqlalchemy import text as sql

from bots.cli.chat import Conversation
from bots.console.adapter import parse_line
from core.messaging.inbox import Inbox
from core.ports import AnswerFunction, Sink
from core.storage.messages import Journal
from core.types import Citation, Message, Question, Reply
from tests.conformance.platforms import ANN, Channel, Driver, Person, PostedMessage, Skipping, until
from tests.conformance.played import Played, printed
from tests.support.fixtures import settings
from tests.support.wiring import make_processor

GRACE_S = 60
OTHER_PERSON = Person(77, "Elsewhere")


class Gate:
    """Holds whoever comes to it until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def passed(self) -> None:
        self.reached.set()
        await self.open.wait()


@dataclass
class Script:
    """An answer function: it streams `pieces`, then finishes with `says` and its citations.

    `before` holds an answer before its first sign, `midway` after its pieces; both only for questions that contain
    `waiting_text`. `raises` is raised in place of an answer, `fails_with` in place of its end.
    """

    says: Callable[[Question], str] = lambda question: f"Answer to: {question.text}"
    citations: Sequence[Citation] = ()
    pieces: Sequence[str] = ()
    before: Gate | None = None
    midway: Gate | None = None
    waiting_text: str = ""
    raises: Exception | None = None
    fails_with: Exception | None = None
    pause_s: float = 0.0
    found_nothing: bool = False
    questions: list[Question] = field(default_factory=list)

    @property
    def question_texts(self) -> list[str]:
        return [question.text for question in self.questions]

    async def __call__(self, question: Question, sink: Sink) -> Reply:
        self.questions.append(question)
        must_wait = self.waiting_text in question.text
        if self.before and must_wait:
            await self.before.passed()
        await sink.open()
        if self.raises:
            raise self.raises
        for piece in self.pieces:
            await sink.update(piece)
            await asyncio.sleep(self.pause_s)
        if self.midway and must_wait:
            await self.midway.passed()
        if self.fails_with:
            raise self.fails_with
        reply = Reply(self.says(question), tuple(self.citations), found_nothing=self.found_nothing)
        await sink.finish(reply)
        return reply


@dataclass(frozen=True, slots=True)
class Entry:
    """What the journal says about one message."""

    id: str
    state: str
    reason: str
    text: str
    thread: str
    author_id: str
    reply: str


class Bot:
    """One bot on one platform, which it can be started on again and again."""

    adapter: Skipping
    journal: Journal
    processor: Inbox

    def __init__(self, driver: Driver, folder: Path, answer: AnswerFunction | None = None) -> None:
        self.driver = driver
        self.script = Script()
        self.answer: AnswerFunction = answer or self.script
        self.changes: dict[str, object] = {}
        self._folder = folder
        self._runs = 0
        self._reader: sqlite3.Connection | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def platform(self) -> str:
        """Return the platform's name."""
        return self.driver.name

    @property
    def file(self) -> Path:
        return self._folder / f"journal-{self._runs}.db"

    async def start(self) -> None:
        self.journal = await Journal.open(self.file)
        self.adapter = self.driver.adapter(self.journal, self._folder)
        await self.adapter.open()
        self.processor = make_processor(settings(**self.changes), self.journal, self._answered)
        self._listening = asyncio.create_task(self._listen())
        await self.driver.ready()

    async def _listen(self) -> None:
        await self.processor.resume(self.adapter)
        await self.adapter.listen(self.processor.handler_for(self.adapter))

    async def _answered(self, question: Question, sink: Sink) -> Reply:
        # Looked up anew: a scenario may put another answer in its place while the bot runs.
        return await self.answer(question, sink)

    async def stop(self, grace_s: float = 0) -> None:
        """Stop in order, as the daemon does."""
        self._stop_reading()
        if self._listening is None:
            return
        listening = self._listening
        self._listening = None
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        await self.processor.drain(grace_s)
        await self.driver.part(self.adapter)
        await self.adapter.close()
        await self.journal.close()

    async def kill(self, *, while_posting: bool = False) -> None:
        """End as SIGKILL would: the next start finds the journal as it is in this moment.

        `while_posting` leaves it as it is between what is said before a post and after it.
        """
        old_journal = self._folder / f"journal-{self._runs + 1}.db"
        for ending in ("", "-wal"):
            source = Path(f"{self.file}{ending}")
            if source.exists():
                await asyncio.to_thread(shutil.copy, source, f"{old_journal}{ending}")
        await self.stop()
        self._runs += 1
        if while_posting:
            journal = await Journal.open(old_journal)
            for message, _ in await journal.get_pending(self.driver.name):
                await journal.mark_posting(message)
            await journal.close()

    async def forget_reply(self, channel: Channel, message: str) -> None:
        """Let the next start find the journal as it is between the post of a message's reply and its confirmation."""
        journal = await Journal.open(self.file)
        query = sql("UPDATE messages SET state = 'sending', reply_id = '', reply = '' WHERE chat = :chat AND id = :id")
        async with journal.database.transaction() as connection:
            await connection.execute(query, {"chat": channel.chat, "id": message})
        await journal.close()

    def private(self, person: Person = ANN) -> Channel:
        """Return the private chat with a person."""
        return self.driver.private(person)

    def group(self, number: int = 1) -> Channel:
        """Return a group, the same one for the same number."""
        return self.driver.group(number)

    async def entries(self, channel: Channel) -> list[Entry]:
        """Return what the journal holds of a chat, oldest first."""
        rows = self._read(
            "SELECT * FROM messages WHERE platform = ? AND chat = ? ORDER BY number", self.driver.name, channel.chat
        )
        return [
            Entry(*(row[name] or "" for name in ("id", "state", "reason", "text", "thread", "author_id", "reply")))
            for row in rows
        ]

    def _read(self, query: str, *values: str) -> list[sqlite3.Row]:
        """Return rows of the journal's file: scenarios look often, and its own connections work in threads."""
        if self._reader is None:
            self._reader = sqlite3.connect(self.file)
            self._reader.row_factory = sqlite3.Row
        return self._reader.execute(query, values).fetchall()

    def _stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def wait_until_finished(self, channel: Channel, message: str) -> Entry:
        """Wait until a message is answered, silent or failed."""
        async with asyncio.timeout(GRACE_S):
            while True:
                entries = [entry for entry in await self.entries(channel) if entry.id == message]
                if entries and entries[0].state in ("answered", "silent", "failed"):
                    return entries[0]
                await asyncio.sleep(0.02)

    async def journalled_reply(self, channel: Channel, message: str) -> None:
        """Wait until the journal knows the reply's id on the platform, and nothing is on its way."""
        query = "SELECT reply_id, state FROM messages WHERE chat = ? AND id = ?"
        async with asyncio.timeout(GRACE_S):
            while True:
                (row,) = self._read(query, channel.chat, message)
                if row["reply_id"] and row["state"] == "answering":
                    return
                await asyncio.sleep(0.01)

    async def idle(self) -> None:
        """Wait until the processor has nothing to do."""
        await until(lambda: not self.processor._tasks, "an idle processor")

    async def say_and_wait(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> Entry:
        """Let somebody write, and wait until the message is finished."""
        return await self.wait_until_finished(
            channel, await self.driver.say(channel, text, person=person, reply_to=reply_to, **extra_fields)
        )

    async def command(self, channel: Channel, name: str, text: str = "") -> Entry:
        """Give a command, and wait until it is finished."""
        return await self.wait_until_finished(channel, await self.driver.command(channel, name, text))

    def other_chat(self, person: Person = ANN) -> Channel:
        """Return another chat than the first group, in which a person can write."""
        return self.driver.other_chat(person)

    def anywhere(self) -> Channel:
        """Return a channel with other people, where the platform has any."""
        return self.group()

    async def ask_while_waiting(self) -> None:
        """Ask elsewhere and wait for the answer: what was said before is known by then. The gate stays closed."""
        gate = self.script.before
        self.script.before = None
        channel = self.private(OTHER_PERSON)
        await self.wait_until_finished(channel, await self.driver.say(channel, "something else", person=OTHER_PERSON))
        self.script.before = gate

    async def ask(self, channel: Channel, text: str, *, person: Person = ANN) -> Entry:
        """Let somebody ask the bot, and wait until the question is finished."""
        return await self.say_and_wait(channel, self.to_bot(channel, text), person=person)

    def to_bot(self, channel: Channel, text: str) -> str:
        """Return a text that means the bot: in a private chat every one does."""
        return text if channel.private else f"{self.driver.mention}{text}"

    def messages(self, channel: Channel) -> list[PostedMessage]:
        return self.driver.messages(channel)

    def texts(self, channel: Channel) -> list[str]:
        return [message.text for message in self.messages(channel)]

    async def skipped(self, reason: str, count: int = 1) -> None:
        """Wait until the adapter has skipped something for this reason."""
        await until(
            lambda: sum(many for skip_reason, many in self.adapter.skipped.items() if reason in skip_reason) >= count,
            f"{reason!r} among {dict(self.adapter.skipped)}",
        )


class Terminal(Bot):
    """`kimas chat`: one person, alone with the bot."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Played(), folder)
        self.out = StringIO()
        console = Console(file=self.out, force_terminal=True, color_system="standard", width=100, height=400)
        self._conversation = Conversation(settings(data_dir=str(folder)), self._answered, console)
        self._printed: list[PostedMessage] = []

    async def start(self) -> None:
        await self._conversation.__aenter__()

    async def stop(self, grace_s: float = 0) -> None:
        self._stop_reading()
        await self._conversation.__aexit__()

    def anywhere(self) -> Channel:
        return self.private()

    async def command(self, channel: Channel, name: str, text: str = "") -> Entry:
        return await self._typed(f"/{name} {text}".strip())

    async def ask(self, channel: Channel, text: str, *, person: Person = ANN) -> Entry:
        return await self._typed(text)

    async def _typed(self, line: str) -> Entry:
        output_start = self.out.tell()
        line_outcome = await self._conversation.process_line(line)
        self._printed.append(printed(len(self._printed), self.out.getvalue()[output_start:]))
        request = parse_line(line)
        text = request.text if isinstance(request, Message) else line
        return Entry(str(len(self._printed)), line_outcome.state, "", text, "", "", line_outcome.answer)

    def messages(self, channel: Channel) -> list[PostedMessage]:
        return self._printed
