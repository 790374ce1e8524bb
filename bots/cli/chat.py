"""`kimas chat`: a conversation in the terminal, under the same gate and with the same commands as in a private chat.

It runs through the same `Inbox` as every platform. A journal of the session keeps the messages; an answer that is
rated is kept in the deployment's journal, with its rating.
"""

from __future__ import annotations

import asyncio
import select
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bots.cli.console import print_refresh_result, redact_refresh_result
from bots.cli.first_reading import describe_unfilled, read_first
from bots.common.open_storage import has_database, open_journal, open_refresh_repository
from bots.common.terminal import ingest_progress, interruptible, make_console
from bots.console.adapter import TerminalAdapter
from bots.console.convert import HINT
from bots.console.render import ConsoleSink
from bots.console.sink import OutcomePrinter, with_terminal_owner
from bots.daemon.bootstrap import (
    App,
    make_dispatcher,
    make_inbox,
    make_live_settings,
    open_app,
)
from core.answering.introduction import list_sources
from core.errors import KimasError, StoreError, UsageError
from core.messaging.commands.answer_commands import explain_command
from core.messaging.policy.command_table import forget_text, is_ask_command
from core.observability.logs import get_logger, make_redactor
from core.observability.metrics import ProcessingOutcome
from core.ports import AnswerFunction, Library, Sink, SourceRefresher
from core.runtime.tasks import task_group
from core.settings import HandoffSettings, Settings
from core.settings.loader import get_secret_values
from core.storage.engine import Database
from core.storage.feedback import FeedbackRepository, JournaledAnswer, Rating
from core.storage.messages import Journal
from core.types import Message, Question, Reply, Turn
from knowledge.stores import require_sources

if TYPE_CHECKING:
    from core.messaging.commands.context import CommandRequest
    from core.messaging.inbox import Inbox

_log = get_logger(__name__)

EXIT_WORDS = frozenset({"exit", "quit", "/exit", "/quit", ":q"})
WARM_UP_START_S = 0.01
# How often it is looked whether a line was typed, while vectors are made.
POLL_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class LineOutcome:
    """The outcome of a line, and the answer where the line was a question."""

    state: ProcessingOutcome
    answer: str = ""


class SessionFeedback(FeedbackRepository):
    """Ratings of a session's answers. An answer is kept in the deployment's journal once it is rated."""

    def __init__(self, session_journal: Journal, deployment_journal: Journal, replies: Mapping[str, Reply]) -> None:
        super().__init__(deployment_journal.database)
        self._session = FeedbackRepository(session_journal.database)
        self._deployment_journal = deployment_journal
        self._deployment_ids: dict[str, str] = {}
        self._replies = replies

    async def find_answer(self, press: Message) -> JournaledAnswer | None:
        """Return the answer of the session that a press is about."""
        return await self._session.find_answer(press)

    async def get_rating(self, press: Message, question_id: str) -> Rating:
        """Return the rating of an answer."""
        return await super().get_rating(press, self._deployment_ids.get(question_id, question_id))

    async def rate(self, press: Message, question_id: str, verdict: str, reason: str = "") -> Rating:
        """Keep the answer with its question and rating."""
        if question_id not in self._deployment_ids and (answer := await self.find_answer(press)):
            question = replace(answer.question, id=uuid.uuid4().hex)
            await self._deployment_journal.record_message(question)
            await self._deployment_journal.mark_answered(
                question, self._replies.get(question_id) or Reply(answer.reply)
            )
            self._deployment_ids[question_id] = question.id
        return await super().rate(press, self._deployment_ids.get(question_id, question_id), verdict, reason)


async def _read_nothing() -> None:
    return None


class Conversation:
    """A person's lines and the bot's replies. `answer` answers the questions.

    The deployment's journal is opened by the first command or rating, or where it exists. Use as an async context
    manager.
    """

    def __init__(
        self,
        settings: Settings,
        answer: AnswerFunction,
        out: Console,
        make_source_refresher: Callable[[Database], SourceRefresher] | None = None,
        read_line: Callable[[], Awaitable[str | None]] = _read_nothing,
        *,
        library: Library | None = None,
    ) -> None:
        self._settings = _to_terminal_settings(settings)
        self._answer = answer
        self._out = out
        self._make_source_refresher = make_source_refresher
        self._library = library
        self._redact = make_redactor(get_secret_values(settings))
        self._outcomes = OutcomePrinter(out)
        self._stack = AsyncExitStack()
        self._replies: dict[str, Reply] = {}
        self._inbox: Inbox | None = None
        self._has_deployment_journal = False
        self._answer_text = ""
        self.adapter = TerminalAdapter(out, read_line)

    async def __aenter__(self) -> Conversation:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kimas-chat-"))
        self._session_journal = Journal(await Database.open(Path(folder) / "session.db"), self._outcomes)
        self._stack.push_async_callback(self._session_journal.close)
        self._stack.push_async_callback(self.adapter.close)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._inbox:
            await self._inbox.drain(0)
        await self._stack.aclose()

    async def process_line(self, line: str) -> LineOutcome:
        """Reply to a line."""
        self._outcomes.outcome = "answered"
        self._answer_text = ""
        await self.adapter.process_line(line, self.receive)
        return LineOutcome(self._outcomes.outcome, self._answer_text)

    async def receive(self, message: Message) -> None:
        """Reply to a message, and return once the whole reply is shown."""
        try:
            inbox = await self._get_inbox(message)
            await inbox.handler_for(self.adapter)(message)
            await inbox.join()
        except KimasError as error:
            self._outcomes.outcome = "failed"
            await ConsoleSink(self._out).fail(self._redact(str(error)))
        finally:
            await self.adapter.close()

    async def _get_inbox(self, message: Message) -> Inbox:
        """Return the inbox; it uses the deployment's journal from the first message that needs it."""
        needs_journal = not is_ask_command(message.command) or await has_database(self._settings)
        if self._inbox is None or (needs_journal and not self._has_deployment_journal):
            self._has_deployment_journal = needs_journal
            deployment_journal = self._session_journal
            if needs_journal:
                deployment_journal = await open_journal(self._settings)
                self._stack.push_async_callback(deployment_journal.close)
            self._inbox = self._make_inbox(deployment_journal)
        return self._inbox

    def _make_inbox(self, deployment_journal: Journal) -> Inbox:
        dispatcher = make_dispatcher(
            make_live_settings(self._settings, deployment_journal.database),
            deployment_journal,
            refresher=self._make_source_refresher(deployment_journal.database) if self._make_source_refresher else None,
            library=self._library,
            extra_handlers={"forget": self._forget, "why": self._explain},
        )
        self._context = dispatcher.context
        self._context.session = self._session_journal
        repository = SessionFeedback(self._session_journal, deployment_journal, self._replies)
        return make_inbox(self._session_journal, self._answer_question, dispatcher, feedback_repository=repository)

    async def _answer_question(self, question: Question, sink: Sink) -> Reply:
        history = tuple(Turn(turn.role, turn.text) for turn in question.history)
        # Only one person is here: no quota per chat or user applies.
        anonymous = replace(question, id="", author="", author_id="", key=None, history=history)
        try:
            reply = await self._answer(anonymous, sink)
        except KimasError as error:
            # This person runs the bot, and sees the full error.
            raise UsageError(self._redact(str(error))) from error
        self._out.print()
        self._replies.clear()
        self._replies[question.id] = reply
        self.adapter.answer_id = question.id
        self._answer_text = reply.text
        return reply

    async def _forget(self, request: CommandRequest) -> str:
        """Erase the person's messages from the deployment's journal and from the session's."""
        # What was rated is in both.
        erased_counts = [
            await journal.erase_author(request.message) for journal in (self._context.journal, self._session_journal)
        ]
        self.adapter.answer_id = ""
        self._replies.clear()
        return forget_text(max(erased_counts), request.texts)

    async def _explain(self, request: CommandRequest) -> str:
        """Explain an answer of the session, or else one from the deployment's journal."""
        explanation = await explain_command(replace(self._context, journal=self._session_journal), request)
        is_unknown = explanation in (request.texts.nothing_answered, request.texts.message_unknown)
        return await explain_command(self._context, request) if is_unknown else explanation


def _to_terminal_settings(settings: Settings) -> Settings:
    """Return settings that answer the owner here without a rate limit, and never call people."""
    settings = with_terminal_owner(settings)
    return settings.model_copy(
        update={
            "gate": settings.gate.model_copy(update={"private": True, "answers_in_10_min": sys.maxsize}),
            "feedback": settings.feedback.model_copy(update={"try_harder": True, "ask_why": False}),
            "handoff": HandoffSettings(),
        }
    )


async def chat(settings: Settings, *, is_trial: bool = False) -> int:
    """Hold a conversation in the terminal until its end of input. What was never read is read first, by words."""
    out = make_console()
    await require_sources(settings)
    async with open_app(settings) as app, task_group() as tasks:
        await read_first(app, is_trial=is_trial)
        filling = tasks.create_task(_fill(app))
        async with Conversation(
            settings,
            app.answer,
            out,
            app.make_refresh_scheduler,
            partial(_read_line, out, filling),
            library=app.shared_library,
        ) as conversation:

            async def receive(message: Message) -> None:
                await conversation.receive(message)
                if message.command == "refresh":
                    # Both want the locks of the sources.
                    filling.cancel()
                    await asyncio.gather(filling, return_exceptions=True)
                    await _refresh_requested(app, settings)

            out.print(_format_welcome(settings, app.library), style="dim", markup=False)
            if hint := describe_unfilled(app.library, is_trial=is_trial):
                out.print(hint, style="dim", markup=False)
            # Reading a line blocks the loop, but not the thread that loads while somebody types.
            warm_up = tasks.create_task(app.warm_up())
            await asyncio.sleep(WARM_UP_START_S)
            await conversation.adapter.listen(receive)
            # Who leaves does not wait for what only a question would have needed.
            warm_up.cancel()
            filling.cancel()
    return 0


async def _fill(app: App) -> None:
    """Make the vectors that are missing while somebody asks; what is not done by the end continues next time."""
    if not app.library.unfilled_count:
        return
    try:
        # The log says what failed.
        await app.fill()
    except StoreError as error:
        _log.error("chat.not_filled", error=str(error))


def _format_welcome(settings: Settings, library: Library) -> str:
    source_names = ", ".join(list_sources(settings, library))
    return f"{settings.name} answers from: {source_names}. /help shows the commands, Ctrl-D leaves. {HINT}"


async def _refresh_requested(app: App, settings: Settings) -> None:
    """Refresh the sources that a command requested: there may be no daemon to do it."""
    out = make_console()
    async with open_refresh_repository(settings) as refresh_repository:
        source_names = [
            name
            for name, entry in (await refresh_repository.get_states()).items()
            if entry.is_requested and name in settings.sources
        ]
    if source_names:
        with ingest_progress(out) as progress:
            result = redact_refresh_result(await app.refresh(source_names, progress), settings)
        print_refresh_result(out, result)


def _has_line() -> bool:
    return bool(select.select([sys.stdin], [], [], POLL_INTERVAL_S)[0])


async def _read_line(out: Console, filling: asyncio.Task[None]) -> str | None:
    """Return the next line, or None at the end and after Ctrl-C. Reading blocks the event loop once nothing is filled.

    Only a person at a terminal is shown a prompt: answers to lines from a file or a pipe stand alone.
    """
    is_terminal = sys.stdin.isatty()
    try:
        if is_terminal:
            out.print("[bold]> [/]", end="")
            # A terminal can be read once a whole line is there.
            while not (filling.done() or await asyncio.to_thread(_has_line)):
                continue
        with interruptible():
            line = input().strip()  # noqa: ASYNC250 (nothing else runs by now)
    except (EOFError, KeyboardInterrupt, asyncio.CancelledError):
        if is_terminal:
            out.print()
        return None
    return None if line.lower() in EXIT_WORDS else line
