"""A group played in the terminal: the daemon's gate, commands and feedback over lines, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bots.cli.ask import ingest
from bots.cli.group import (
    EDITED,
    EDITED_LATE,
    GroupJournal,
    ReadOnlySourceRefresher,
    run_group_chat,
    wait_until_idle,
)
from bots.cli.main import main
from bots.common.terminal import make_console
from bots.console.adapter import DELETED, DELETED_LATE, ConsoleGroupAdapter
from bots.console.convert import USAGE
from bots.console.sink import OutcomePrinter
from core.catalogue import ENGLISH
from core.errors import StoreError, StoreLocked, UsageError
from core.ports import Sink
from core.runtime.locks import group_lock
from core.settings import Settings
from core.settings.loader import load_settings
from core.storage.engine import Database
from core.types import Message, Origin, Question, Reply, SkipReason
from tests.support.deployment import README, Deployment
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")

QUESTION = "How do I rotate the signing keys of sessions?"


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A deployment that knows one document; a play changes nothing of it."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "docs").mkdir()
    (folder / "docs" / "rocket.md").write_text(README, "utf-8")
    sources = {"docs": {"kind": "files", "path": str(folder / "docs")}}
    gate = {"chats": ["telegram:-1"], "wait_s": 0, "cooldown_s": 0}
    deployment = Deployment(folder, {"sources": sources, "gate": gate, "handoff": {"trusted": ["console:cleo"]}})
    settings = load_settings([deployment.config], (), {})
    asyncio.run(ingest(settings, (), rebuild=False, as_json=True))
    return settings


async def played(settings: Settings, *lines: str, folder: Path | None = None, code: int = 0) -> None:
    """Type these lines, the end of input behind them."""
    reading, writing = os.pipe()
    try:
        os.write(writing, "\n".join(lines).encode())
        os.close(writing)
        assert await run_group_chat(settings, reading, folder) == code
    finally:
        os.close(reading)


@asynccontextmanager
async def open_journal(folder: Path, printer: OutcomePrinter | None = None) -> AsyncIterator[GroupJournal]:
    database = await Database.open(folder / "group.db")
    journal = GroupJournal(database, printer or OutcomePrinter(make_console()), make_console())
    try:
        yield journal
    finally:
        await journal.close()


async def test_the_bot_is_silent_until_it_is_meant(configuration: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(configuration, f"Ben: {QUESTION}", f"@kimas {QUESTION}", f"Ben: {QUESTION} @kimas")
    output = capsys.readouterr().out
    assert output.count("(silent: the bot was not addressed)") == 1
    assert output.count("kimas:") == 2
    assert "rotate" in output.partition("kimas:")[2]
    with closing(sqlite3.connect(configuration.data_dir / "journal.db")) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,), "nothing of it is kept"


async def test_commands_hold_for_the_next_line(configuration: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(configuration, "Ben: /pause", "/pause", f"@kimas {QUESTION}", "/resume", f"@kimas {QUESTION}")
    output = capsys.readouterr().out
    refused, paused, silent, resumed, answered = (
        output.index(text)
        for text in ("Only this bot's admins", "I am silent in", "(silent: console:group is", "I am speaking", "[1]")
    )
    assert refused < paused < silent < resumed < answered


async def test_in_auto_it_speaks_unasked_where_it_knows_and_nobody_else_is_meant(
    configuration: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    await played(configuration, "/mode auto", "Ben: I am off to lunch.", f"Cleo: {QUESTION}")
    output = capsys.readouterr().out
    assert "(silent: " in output
    assert "rotate" in output.rpartition("kimas:")[2]


async def test_somebody_trusted_teaches_by_replying(
    configuration: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    await played(
        configuration,
        "Ben: Which colour is it?",
        "Cleo: ^ Green, a dark one.",
        "Cleo: ^ /learn",
        "Ben: ^ /learn",
        "/faq",
    )
    output = capsys.readouterr().out
    assert "kept as an answer to be reviewed" in output
    assert "Only trusted people" in output
    assert "Green, a dark one." in output.rpartition("kimas:")[2]


async def test_people_say_what_an_answer_is_worth(configuration: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(
        configuration,
        "Ben: /good",
        f"Ben: @kimas {QUESTION}",
        "Ben: /good",
        "Cleo: /bad",
        "Cleo: /bad outdated",
        "Cleo: /bad so",
        "Cleo: /again",
        "Ben: ^ /again",
        "Robot (bot): /good",
        "Ben (alone): /good",
    )
    output = capsys.readouterr().out
    lines = [line for line in output.splitlines() if line.startswith(("(to ", "(ignored"))]
    assert lines == [
        f"(to Ben: {ENGLISH.unknown_answer})",
        f"(to Ben: {ENGLISH.rated_up.format(up=1, down=0)})",
        f"(to Cleo: {ENGLISH.rated_down.format(up=1, down=1)} {ENGLISH.ask_reason})",
        f"(to Cleo: {ENGLISH.reason_noted})",
        f"(ignored: {USAGE})",
        f"(to Cleo: {ENGLISH.only_asker})",
        f"(to Ben: {ENGLISH.retrying})",
        "(ignored: written by a bot)",
        f"(to Ben: {ENGLISH.unknown_answer})",
    ]
    assert output.count("/good: 👍 · /bad: 👎") == 2, "below both answers"
    assert "/bad outdated: Outdated · " in output
    assert "(silent: " not in output, "what was told is no silence"


async def test_a_reply_says_where_it_stands(configuration: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(
        configuration,
        f"Ben (in release): @kimas {QUESTION}",
        f"Cleo (in release): {QUESTION}",
        f"Ben (alone): {QUESTION}",
    )
    output = capsys.readouterr().out
    assert [line for line in output.splitlines() if line.startswith("kimas")] == [
        "kimas (in release):",
        "kimas (in release):",
        "kimas (alone with Ben):",
    ]


async def test_a_private_talk_is_closed_where_the_configuration_says_so(
    configuration: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    closed_settings = configuration.model_copy(
        update={"gate": configuration.gate.model_copy(update={"private": False})}
    )
    await played(closed_settings, f"Ben (alone): {QUESTION}")
    output = capsys.readouterr().out
    assert "gate.private" in output.partition("(silent: ")[2]
    assert "kimas (" not in output


async def test_a_call_names_who_is_configured(configuration: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    people = ("telegram:@nobody", "console:cleo")
    handoff_settings = configuration.model_copy(
        update={"handoff": configuration.handoff.model_copy(update={"people": people})}
    )
    await played(handoff_settings, "Ben (in release): Who knows the colour?", "Ben (in release): ^ /escalate")
    output = capsys.readouterr().out
    assert "@cleo\nBen could use your help here." in output
    assert "nobody" not in output


async def test_with_a_folder_the_next_play_goes_on(
    configuration: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    capsys.readouterr()
    await played(configuration, "/pause", f"Ben (in release): @kimas {QUESTION}", folder=folder)
    assert "(silent: console:group is paused" in capsys.readouterr().out
    await played(configuration, f"Ben (in release): @kimas {QUESTION}", "/resume", folder=folder)
    assert "(silent: console:group is paused" in capsys.readouterr().out
    await played(configuration, f"Ben (in release): @kimas {QUESTION}", folder=folder)
    assert "kimas (in release):" in capsys.readouterr().out
    await played(configuration, "Ben (in release): How do I revoke a session?", folder=folder)
    output = capsys.readouterr().out
    assert "kimas (in release):" in output, "it goes on in the thread without a mention"
    assert f"kept in {folder}." in output
    with closing(sqlite3.connect(folder / "group.db")) as connection:
        states = connection.execute("SELECT state FROM messages ORDER BY number").fetchall()
    assert [item for (item,) in states] == ["answered", "silent", "silent", "answered", "answered", "answered"]


async def test_a_folder_is_for_one_play_at_a_time(configuration: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "why?not"
    with group_lock(folder), pytest.raises(StoreLocked, match=r"chat --group. is at .*why\?not.* name another folder"):
        await played(configuration, "Hello", folder=folder)
    await played(configuration, "Hello", folder=folder)
    assert (folder / "group.db").is_file()


async def test_a_folder_that_cannot_be_one_is_said(configuration: Settings, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", "utf-8")
    with pytest.raises(StoreError, match=r"--keep .*taken/inside cannot be used: Not a directory; choose a folder"):
        await played(configuration, "Hello", folder=tmp_path / "taken" / "inside")


async def test_unanswered_questions_are_told_and_wait_for_the_next_play(
    configuration: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patient_settings = configuration.model_copy(update={"gate": configuration.gate.model_copy(update={"wait_s": 60.0})})
    await played(configuration, "/mode auto", "/delete", folder=tmp_path)
    assert f"({DELETED_LATE})" in capsys.readouterr().out
    with monkeypatch.context() as hurry:
        hurry.setattr("bots.cli.group.REPLY_WAIT_S", 0.3)
        hurry.setattr("bots.cli.group.GRACE_S", -1000.0)
        capsys.readouterr()
        lines = (
            "/mode auto",
            f"Ben: {QUESTION}",
            f"Cleo: {QUESTION}",
            "Ben: /edit How do I rotate the keys of sessions?",
            "Cleo: /delete",
        )
        await played(patient_settings, *lines, folder=tmp_path, code=1)
        output = capsys.readouterr().out
    messages = [line for line in output.splitlines() if line.startswith("(")]
    assert messages == [EDITED, f"({DELETED})", "(1 not answered: the play is over)"]
    await played(configuration, "Dan: Good morning.", folder=tmp_path)
    assert capsys.readouterr().out.count("kimas:") == 1
    with closing(sqlite3.connect(tmp_path / "group.db")) as connection:
        rows = connection.execute("SELECT author_id, text, state, reason FROM messages WHERE command = ''").fetchall()
    assert rows[0] == ("ben", "How do I rotate the keys of sessions?", "answered", "")
    assert rows[1] == ("cleo", QUESTION, "silent", SkipReason.DELETED.text)


async def test_a_change_says_whether_it_came_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = ConsoleGroupAdapter(0, make_console())
    async with open_journal(tmp_path) as journal:
        question = group.parse_line("Ben: @kimas Hwo?")
        assert isinstance(question, Message)
        await journal.record_message(question)
        assert await journal.record_edit(replace(question, text="How?"))
        assert await journal.begin_answer(question, None) == "How?"
        assert not await journal.record_edit(replace(question, text="Who?"))
        assert capsys.readouterr().out == f"{EDITED}\n{EDITED_LATE}\n"
        second = replace(
            question,
            id="second",
            origin=Origin(root_id=question.id, purpose="retry"),
        )
        await journal.record_message(second)
        assert await journal.complete_deleted(question.id)
        assert not await journal.complete_deleted(question.id)
        assert not await journal.get_pending("console"), "the second try goes with it"
        message = replace(question, id="shown")
        await journal.record_message(message)
        await journal.mark_posting(message)
        await journal.mark_posted(message, "9")
        assert not await journal.complete_deleted("shown"), "its answer is there"


async def test_the_time_limit_starts_again_with_each_finished_question(configuration: Settings, tmp_path: Path) -> None:
    stuck = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        await (stuck.wait() if "stuck" in question.text else asyncio.sleep(0.1))
        return Reply("So.")

    printer = OutcomePrinter(make_console())
    group = ConsoleGroupAdapter(0, make_console())
    async with open_journal(tmp_path, printer) as journal:
        processor = make_processor(configuration, journal, answer)
        receive = processor.handler_for(group)

        async def ask(*texts: str) -> None:
            for text in texts:
                line = group.parse_line(f"Ben (alone): {text}")
                assert isinstance(line, Message)
                await receive(line)

        await ask(*["How?"] * 6)
        assert await wait_until_idle(processor, 0.3) > 0, "in all that is too little"
        await ask(*["How?"] * 4)
        assert await wait_until_idle(processor, 0.3, lambda: printer.count - processor.in_flight) == 0
        await ask("How?", "I am stuck", "How?")
        assert await wait_until_idle(processor, 0.3, lambda: printer.count - processor.in_flight) == 2
        await processor.drain(0)


async def test_the_sources_are_shown_as_they_stand(configuration: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(configuration, "/sources", "/refresh", "/refresh", "/status")
    output = " ".join(capsys.readouterr().out.split())
    assert "kept elsewhere" not in output
    assert "in 1 document, refreshed" in output, output
    assert "1, all working" in output
    assert output.count("I cannot refresh sources here. ") == 2
    with pytest.raises(UsageError, match="kimas sources pause NAME"):
        await ReadOnlySourceRefresher(configuration).pause("docs")


async def test_a_name_is_not_the_owner_and_one_with_a_figure_may_look_after_it(
    configuration: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    await played(configuration, "Owner: /pause", "B42: /pause", "/admins add b42", "B42: /pause")
    output = capsys.readouterr().out
    assert (output.count("Only this bot's admins"), output.count("I am silent in")) == (2, 1)


async def test_a_folder_in_place_of_the_journal_is_said(configuration: Settings, tmp_path: Path) -> None:
    (tmp_path / "group.db").mkdir()
    with pytest.raises(StoreError, match=r"group\.db cannot be opened: it is a folder; move it away"):
        await played(configuration, "Hello", folder=tmp_path)


@pytest.mark.parametrize("group", [(), ("--group",)])
def test_without_a_standard_input_that_is_said(group: tuple[str, ...], tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(tmp_path)}}})
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *deployment.command("chat", *group)]
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=deployment.variables()
    )
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert "there is no standard input to read from" in result.stderr


def test_keep_belongs_to_a_group(configuration: Settings, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["chat", "--keep", str(tmp_path)])
    assert (result.exit_code, "--keep belongs to --group" in result.output) == (2, True)


def test_a_second_try_goes_with_its_question() -> None:
    group = ConsoleGroupAdapter(0, make_console())
    question = group.parse_line("Ben: @kimas Why?")
    assert isinstance(question, Message)
    second = replace(
        question,
        id="second",
        origin=Origin(root_id=question.id, purpose="retry"),
    )
    assert not group.is_deleted(second)
    group.mark_deleted(question.id)
    assert group.is_deleted(question)
    assert group.is_deleted(second)
