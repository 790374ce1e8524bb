"""`kimas chat`: a conversation in the terminal, under the same gate and with the same commands as in a private chat."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bots.cli.ask import redact_refresh_result
from bots.cli.console import print_refresh_result
from bots.common.open_storage import open_refresh_repository
from bots.common.terminal import ingest_progress, make_console
from bots.console.commands import TerminalCommands, extract_question
from bots.console.rating import AGAIN, BAD, GOOD, HINT, RatingCommands
from bots.console.render import ConsoleSink
from bots.daemon.bootstrap import App, open_app, require_knowledge
from core.errors import KimasError
from core.messaging.policy.command_table import get_command
from core.observability.logs import make_redactor
from core.observability.recorder import ProcessingOutcome
from core.ports import Sink
from core.runtime.tasks import task_group
from core.settings import Settings
from core.settings.loader import get_secret_values
from core.types import Question, Reply, Turn

if TYPE_CHECKING:
    from rich.console import Console

    from core.ports import SourceRefresher
    from core.storage.engine import Database

EXIT_WORDS = frozenset({"exit", "quit", ":q"})
WARM_UP_START_S = 0.01
COMMAND_PATTERN = re.compile(r"/[A-Za-z_]+")
RATING_COMMANDS, GROUP_COMMANDS = frozenset({GOOD, BAD, AGAIN}), frozenset({"/escalate", "/learn"})

AnswerFunction = Callable[[Question, Sink], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class LineOutcome:
    """What became of a line, and the answer to it where it was a question."""

    state: ProcessingOutcome
    answer: str = ""


class Conversation:
    """What one person says, line by line, and what is shown to that. `answer` makes the answers to questions."""

    def __init__(
        self,
        settings: Settings,
        answer: AnswerFunction,
        out: Console,
        make_source_refresher: Callable[[Database], SourceRefresher] | None = None,
    ) -> None:
        self._settings = settings
        self._answer = answer
        self._out = out
        self._commands = TerminalCommands(settings, make_source_refresher)
        self._ratings = RatingCommands(settings)
        self._history: list[Turn] = []
        self._redact = make_redactor(get_secret_values(settings))

    async def process_line(self, line: str) -> LineOutcome:
        """Show what there is to say to a line."""
        with closing(ConsoleSink(self._out)) as sink:
            try:
                if (
                    command_reply := _explain_unavailable_command(line) or await self._commands.handle_line(line)
                ) is not None:
                    await sink.finish(Reply(command_reply))
                    if line.lower().split()[0] == "/forget":
                        self._clear_history()
                    return LineOutcome("answered")
                return await self._answer_line(line, sink)
            except KimasError as error:
                await sink.fail(self._redact(str(error)))
                return LineOutcome("failed")

    async def _answer_line(self, line: str, sink: ConsoleSink) -> LineOutcome:
        history_turns = self._settings.answer.history_turns
        question = Question(extract_question(line), tuple(self._history[-history_turns:] if history_turns else ()))
        if (rating_result := await self._ratings.handle_line(line)) is not None:
            self._out.print(rating_result.text, style="dim", markup=False)
            if rating_result.retry_question is None:
                return LineOutcome("answered")
            question = rating_result.retry_question
        if reason := await self._commands.get_skip_reason():
            self._out.print(f"(silent: {reason})", style="dim", markup=False, soft_wrap=True)
            return LineOutcome("silent")
        reply = await self._answer(question, sink)
        self._out.print()
        self._ratings.record_answer(question, reply)
        self._commands.record_answer(reply)
        self._history += [Turn("user", question.text), Turn("assistant", reply.text)]
        return LineOutcome("answered", reply.text)

    def _clear_history(self) -> None:
        """Let go of what no journal has."""
        self._history.clear()
        self._ratings = RatingCommands(self._settings)
        self._commands.clear_last_answer()


async def chat(settings: Settings) -> int:
    """Hold a conversation in the terminal until its end of input."""
    out = make_console()
    async with open_app(settings) as app, task_group() as tasks:
        conversation = Conversation(settings, app.answer, out, app.make_refresh_scheduler)
        require_knowledge(app)
        out.print(_format_welcome(settings), style="dim", markup=False)
        # Reading a line blocks the loop, but not the thread that this begins: it loads while somebody types.
        tasks.create_task(app.warm_up())
        await asyncio.sleep(WARM_UP_START_S)
        while (line := _read_line(out)) is not None:
            if line:
                await conversation.process_line(line)
            if line.lower().startswith("/refresh"):
                await _refresh_requested(app, settings)
    return 0


def _format_welcome(settings: Settings) -> str:
    source_names = ", ".join(settings.sources)
    return f"{settings.name} answers from: {source_names}. /help shows the commands, Ctrl-D leaves. {HINT}"


async def _refresh_requested(app: App, settings: Settings) -> None:
    """Do here what a command has asked for: there need not be a daemon that does."""
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
        print_refresh_result(out, result.reports, result.failures)


def _explain_unavailable_command(line: str) -> str | None:
    """Return what to say to a line that looks like a command and is none in the terminal."""
    name, *_ = line.split(maxsplit=1)
    if name.lower() in GROUP_COMMANDS:
        return f"`{name}` concerns other people: it works in groups. `kimas chat --group` plays one."
    if (
        line == name
        and COMMAND_PATTERN.fullmatch(name)
        and name not in RATING_COMMANDS
        and get_command(name[1:].lower()) is None
    ):
        return f"I do not know `{name}`. `/help` shows the commands."
    return None


def _read_line(out: Console) -> str | None:
    """Return the next line, or None at the end. Reading blocks: nothing else runs in this process meanwhile."""
    try:
        line = str(out.input("[bold]> [/]")).strip()
    except (EOFError, KeyboardInterrupt):
        out.print()
        return None
    return None if line.lower() in EXIT_WORDS else line
