"""`kimas chat`: a conversation in the terminal, under the same gate and with the same commands as in a private chat."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bots.cli.ask import without_secrets
from bots.cli.console import print_refreshed
from bots.common.terminal import console, ingest_progress
from bots.console.commands import Terminal, question_in
from bots.console.rating import AGAIN, BAD, GOOD, HINT, Ratings
from bots.console.render import ConsoleSink
from bots.daemon.bootstrap import App, open_app, open_record, require_knowledge
from core.errors import KimasError
from core.messaging.policy.command_table import find
from core.observability.logs import redactor
from core.observability.recorder import Settled
from core.ports import Sink
from core.runtime.tasks import task_group
from core.settings import Settings
from core.settings.loader import secret_values
from core.types import Question, Reply, Turn

if TYPE_CHECKING:
    from rich.console import Console

    from core.ports import Upkeep
    from core.storage.engine import Database

GOODBYE = frozenset({"exit", "quit", ":q"})
WARM_UP_BEGINS_S = 0.01
COMMAND = re.compile(r"/[A-Za-z_]+")
OWN, IN_GROUPS = frozenset({GOOD, BAD, AGAIN}), frozenset({"/escalate", "/learn"})

Answer = Callable[[Question, Sink], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a line, and the answer to it where it was a question."""

    state: Settled
    answer: str = ""


class Conversation:
    """What one person says, line by line, and what is shown to that. `answer` makes the answers to questions."""

    def __init__(
        self, settings: Settings, answer: Answer, out: Console, upkeep: Callable[[Database], Upkeep] | None = None
    ) -> None:
        self._settings = settings
        self._answer = answer
        self._out = out
        self._commands = Terminal(settings, upkeep)
        self._ratings = Ratings(settings)
        self._history: list[Turn] = []
        self._hide = redactor(secret_values(settings))

    async def hear(self, line: str) -> Told:
        """Show what there is to say to a line."""
        with closing(ConsoleSink(self._out)) as sink:
            try:
                if (told := _not_here(line) or await self._commands.heard(line)) is not None:
                    await sink.finish(Reply(told))
                    if line.lower().split()[0] == "/forget":
                        self._forget()
                    return Told("answered")
                return await self._answered(line, sink)
            except KimasError as fault:
                await sink.fail(self._hide(str(fault)))
                return Told("failed")

    async def _answered(self, line: str, sink: ConsoleSink) -> Told:
        count = self._settings.answer.history_turns
        question = Question(question_in(line), tuple(self._history[-count:] if count else ()))
        if (heard := await self._ratings.heard(line)) is not None:
            self._out.print(heard.text, style="dim", markup=False)
            if heard.again is None:
                return Told("answered")
            question = heard.again
        if reason := await self._commands.silence():
            self._out.print(f"(silent: {reason})", style="dim", markup=False, soft_wrap=True)
            return Told("silent")
        reply = await self._answer(question, sink)
        self._out.print()
        self._ratings.answered(question, reply)
        self._commands.answered(reply)
        self._history += [Turn("user", question.text), Turn("assistant", reply.text)]
        return Told("answered", reply.text)

    def _forget(self) -> None:
        """Let go of what no journal has."""
        self._history.clear()
        self._ratings = Ratings(self._settings)
        self._commands.forgotten()


async def chat(settings: Settings) -> int:
    """Hold a conversation in the terminal until its end of input."""
    out = console()
    async with open_app(settings) as app, task_group() as tasks:
        conversation = Conversation(settings, app.answer, out, app.keeper)
        require_knowledge(app)
        out.print(_welcome(settings), style="dim", markup=False)
        # Reading a line blocks the loop, but not the thread that this begins: it loads while somebody types.
        tasks.create_task(app.warm_up())
        await asyncio.sleep(WARM_UP_BEGINS_S)
        while (line := _read_line(out)) is not None:
            if line:
                await conversation.hear(line)
            if line.lower().startswith("/refresh"):
                await _refresh_asked(app, settings)
    return 0


def _welcome(settings: Settings) -> str:
    known = ", ".join(settings.sources)
    return f"{settings.name} answers from: {known}. /help shows the commands, Ctrl-D leaves. {HINT}"


async def _refresh_asked(app: App, settings: Settings) -> None:
    """Do here what a command has asked for: there need not be a daemon that does."""
    out = console()
    async with open_record(settings) as record:
        asked = [name for name, entry in (await record.entries()).items() if entry.asked and name in settings.sources]
    if asked:
        with ingest_progress(out) as progress:
            done = without_secrets(await app.refresh(asked, progress), settings)
        print_refreshed(out, done.reports, done.failures)


def _not_here(line: str) -> str | None:
    """Return what to say to a line that looks like a command and is none in the terminal."""
    name, *_ = line.split(maxsplit=1)
    if name.lower() in IN_GROUPS:
        return f"`{name}` concerns other people: it works in groups. `kimas chat --group` plays one."
    if line == name and COMMAND.fullmatch(name) and name not in OWN and find(name[1:].lower()) is None:
        return f"I do not know `{name}`. `/help` shows the commands."
    return None


def _read_line(out: Console) -> str | None:
    """Return the next line, or None at the end. Reading blocks: nothing else runs in this process meanwhile."""
    try:
        line = str(out.input("[bold]> [/]")).strip()
    except (EOFError, KeyboardInterrupt):
        out.print()
        return None
    return None if line.lower() in GOODBYE else line
