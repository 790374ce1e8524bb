"""Commands in the terminal, and the audit that `kimas audit` shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from sqlalchemy import select

from bots.cli.chat import Conversation
from bots.cli.records import audit
from bots.console.adapter import parse_line
from bots.console.convert import NO_ANSWER
from core.catalogue import ENGLISH, messages_for
from core.messaging.policy.command_table import is_ask_command
from core.ports import Sink, SourceRefresher
from core.settings import Settings
from core.storage.engine import Database
from core.storage.tables import feedback, messages
from core.types import Citation, Message, Question, Reply
from core.types.replies import Trace
from tests.support.command_bot import FolderRefresher
from tests.support.fixtures import settings


@pytest.fixture
def configuration(tmp_path: Path) -> Settings:
    return settings(data_dir=str(tmp_path))


class Typed:
    """A conversation with an answer that says how much of the conversation it was given."""

    def __init__(self, configuration: Settings, refresher: Callable[[Database], SourceRefresher] | None = None) -> None:
        self.out = StringIO()
        self.history_lengths: list[int] = []
        self.trace = Reply("").trace
        self.citations: tuple[Citation, ...] = ()
        self._conversation = Conversation(configuration, self._answered, Console(file=self.out, width=200), refresher)

    async def __aenter__(self) -> Typed:
        await self._conversation.__aenter__()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._conversation.__aexit__()

    async def _answered(self, question: Question, sink: Sink) -> Reply:
        self.history_lengths.append(len(question.history))
        reply = Reply(f"Answer to: {question.text}", self.citations, trace=self.trace)
        await sink.finish(reply)
        return reply

    async def type_lines(self, *lines: str) -> list[str]:
        """Return what is shown to each line."""
        output = []
        for line in lines:
            output_start = self.out.tell()
            await self._conversation.process_line(line)
            output.append(self.out.getvalue()[output_start:].strip())
        return output

    async def run_command(self, line: str) -> str:
        [output] = await self.type_lines(line)
        return output


async def run_lines(configuration: Settings, *lines: str) -> list[str]:
    """Return what a conversation of its own shows to each line."""
    async with Typed(configuration) as terminal_input:
        return await terminal_input.type_lines(*lines)


@pytest.mark.parametrize("line", ["How?", "/ask How?", "/ASK How?", "/nothing of ours", "what is /status?", " /status"])
async def test_other_lines_are_questions(configuration: Settings, line: str) -> None:
    message = parse_line(line)
    assert isinstance(message, Message)
    assert is_ask_command(message.command)
    assert "Answer to:" in (await run_lines(configuration, line))[0]
    assert not (configuration.data_dir / "journal.db").exists()


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("/ask How do I install it?", "How do I install it?"),
        ("How do I /ask it?", "How do I /ask it?"),
        ("/ask", ""),
    ],
)
def test_a_question_may_follow_ask(line: str, question: str) -> None:
    message = parse_line(line)
    assert isinstance(message, Message)
    assert message.text == question


async def test_who_sits_there_is_the_owner(configuration: Settings) -> None:
    async with Typed(configuration) as terminal_input:
        assert "no longer used" in await terminal_input.run_command("/sources off docs")
        assert "switched off" in (await run_lines(configuration, "/sources"))[0]
        assert "`/reload`" in await terminal_input.run_command("/help")
        assert "`/reload`" in await terminal_input.run_command("/ask")
        assert "Platforms: console" in await terminal_input.run_command("/status")
        assert "one of" in await terminal_input.run_command("/mode atuo")


async def test_the_refresher_uses_the_database_of_the_deployment(configuration: Settings, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "docs.md").write_text("One.\n\nTwo.")
    databases: list[Database] = []
    folder_refresher = FolderRefresher(tmp_path / "kept")

    def refresher(database: Database) -> SourceRefresher:
        databases.append(database)
        return folder_refresher

    async with Typed(configuration, refresher) as terminal_input:
        assert "2 passages" in await terminal_input.run_command("/sources")
        assert "I am refreshing `docs` now" in await terminal_input.run_command("/refresh docs")
        assert folder_refresher.requests == [("docs",)]
        [database] = databases
        assert str(configuration.data_dir / "journal.db") in database._location


async def test_why_explains_the_answer_that_was_given_here(configuration: Settings) -> None:
    async with Typed(configuration) as terminal_input:
        assert "do not remember answering anything here" in await terminal_input.run_command("/why")
        terminal_input.trace = Trace("install package", "parallel", ("docs",), {"total": 1500.0}, degraded=("rerank",))
        terminal_input.citations = (Citation(1, "p", "docs", "Install", "install.md", ""),)
        output = (await terminal_input.type_lines("How?", "/why"))[1]
        for piece in ("`parallel`", "`install package`", "`docs` (1)", "1.5 s", "`rerank`"):
            assert piece in output


async def test_a_command_without_words_has_the_language_of_the_conversation(configuration: Settings) -> None:
    async with Typed(configuration) as terminal_input:
        await terminal_input.type_lines("怎么安装这个软件？")
        assert messages_for("zh").help_commands in await terminal_input.run_command("/help")
        await terminal_input.type_lines("How do I install it?")
        assert ENGLISH.help_commands in await terminal_input.run_command("/help")


async def test_what_was_rated_here_can_be_forgotten_here(configuration: Settings) -> None:
    async with Typed(configuration) as terminal_input:
        await terminal_input.type_lines("Where is my secret kept?", "/good")
        assert (await terminal_input.run_command("/forget")).startswith("Forgotten: 2 messages")
    database = await Database.open(configuration.data_dir / "journal.db")
    try:
        async with database.connect() as connection:
            assert (await connection.execute(select(messages.c.text, messages.c.reply))).all() == [("", "")]
            assert (await connection.execute(select(feedback))).all() == []
    finally:
        await database.close()


async def test_the_audit_is_shown(configuration: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert await audit(configuration, 5, as_json=False) == 0
    assert capsys.readouterr().out == "the audit log is empty\n"
    assert not (configuration.data_dir / "journal.db").exists()
    await run_lines(configuration, "/mode auto", "/sources scale docs 2")
    assert await audit(configuration, 5, as_json=False) == 0
    newest, oldest = capsys.readouterr().out.splitlines()
    assert newest.endswith("changed  owner in console:terminal  /sources scale docs 2, scale.docs: 1 -> 2")
    assert "/mode auto, console:terminal mode: mention -> auto" in oldest
    assert await audit(configuration, 1, as_json=True) == 0
    [entry] = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["outcome"], entry["author_id"], entry["after"]) == ("changed", "owner", "2")


async def test_what_silences_it_silences_it_here(configuration: Settings) -> None:
    lines = ["/pause", "How?", "/resume", "How?", "/mode off", "/ask How?", "/mode default", "How?"]
    async with Typed(configuration) as terminal_input:
        outputs = await terminal_input.type_lines(*lines)
    assert outputs[1] == "(silent: console:terminal is paused by a command until resumed)"
    assert outputs[5] == "(silent: console:terminal is switched off (gate.mode))"
    assert outputs[3] == outputs[7] == "Answer to: How?"
    assert len(terminal_input.history_lengths) == 2


async def test_a_terminal_that_is_switched_off_by_configuration_says_so(tmp_path: Path) -> None:
    chats = {"console:terminal": {"mode": "off"}}
    configuration = settings(data_dir=str(tmp_path), gate={"private": False}, chats=chats)
    assert await run_lines(configuration, "How?") == ["(silent: console:terminal is switched off (gate.mode))"]
    assert not (tmp_path / "journal.db").exists()
    assert await run_lines(settings(data_dir=str(tmp_path), gate={"private": False}), "How?") == ["Answer to: How?"]


async def test_what_is_forgotten_is_in_no_later_answer(configuration: Settings) -> None:
    async with Typed(configuration) as terminal_input:
        await terminal_input.type_lines("Where is my secret kept?", "And when?")
        outputs = await terminal_input.type_lines("/forget", "/good", "/why", "How?")
    assert terminal_input.history_lengths == [0, 2, 0]
    assert outputs[1] == NO_ANSWER
    assert "do not remember answering anything here" in outputs[2]
