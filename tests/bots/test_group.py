"""A group played in the terminal: the daemon's gate, desk and feedback over lines, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bots.actions import ingest
from bots.cli import main
from bots.console import console
from bots.group import play
from bots.played.adapter import Group
from bots.rating import USAGE
from core.configuration import load_settings
from core.errors import StoreError, StoreLocked
from core.feedback.calling import SECOND
from core.feedback.words import ENGLISH
from core.settings import Settings
from core.types import Message
from knowledge.locks import play_lock
from tests.deployment import README, Deployment

QUESTION = "How do I rotate the signing keys of sessions?"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Settings:
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


async def played(settings: Settings, *lines: str, folder: Path | None = None) -> None:
    """Type these lines, the end of input behind them."""
    reading, writing = os.pipe()
    try:
        os.write(writing, "\n".join(lines).encode())
        os.close(writing)
        assert await play(settings, reading, folder) == 0
    finally:
        os.close(reading)


async def test_the_bot_is_silent_until_it_is_meant(whole: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(whole, f"Ben: {QUESTION}", f"@kimas {QUESTION}", f"Ben: {QUESTION} @kimas")
    shown = capsys.readouterr().out
    assert shown.count("(silent: the bot was not addressed)") == 1
    assert shown.count("kimas:") == 2
    assert "rotate" in shown.partition("kimas:")[2]
    with closing(sqlite3.connect(whole.data_dir / "journal.db")) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,), "nothing of it is kept"


async def test_commands_hold_for_the_next_line(whole: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(whole, "Ben: /pause", "/pause", f"@kimas {QUESTION}", "/resume", f"@kimas {QUESTION}")
    shown = capsys.readouterr().out
    refused, paused, silent, resumed, answered = (
        shown.index(one) for one in ("Only those who", "I am silent in", "(silent: console:group is", "I speak", "[1]")
    )
    assert refused < paused < silent < resumed < answered


async def test_in_auto_it_speaks_unasked_where_it_knows_and_nobody_else_is_meant(
    whole: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    await played(whole, "/mode auto", "Ben: I am off to lunch.", f"Cleo: {QUESTION}")
    shown = capsys.readouterr().out
    assert "(silent: " in shown
    assert "rotate" in shown.rpartition("kimas:")[2]


async def test_somebody_trusted_teaches_by_replying(whole: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(
        whole, "Ben: Which colour is it?", "Cleo: ^ Green, a dark one.", "Cleo: ^ /learn", "Ben: ^ /learn", "/faq"
    )
    shown = capsys.readouterr().out
    assert "kept as an answer to be reviewed" in shown
    assert "Only those who are trusted" in shown
    assert "Green, a dark one." in shown.rpartition("kimas:")[2]


async def test_people_say_what_an_answer_is_worth(whole: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(
        whole,
        *("Ben: /good", f"Ben: @kimas {QUESTION}", "Ben: /good", "Cleo: /bad", "Cleo: /bad outdated", "Cleo: /bad so"),
        *("Cleo: /again", "Ben: ^ /again", "Robot (bot): /good", "Ben (alone): /good"),
    )
    shown = capsys.readouterr().out
    told = [line for line in shown.splitlines() if line.startswith(("(to ", "(ignored"))]
    assert told == [
        f"(to Ben: {ENGLISH.unknown})",
        f"(to Ben: {ENGLISH.up.format(up=1, down=0)})",
        f"(to Cleo: {ENGLISH.down.format(up=1, down=1)} {ENGLISH.why})",
        f"(to Cleo: {ENGLISH.noted})",
        f"(ignored: {USAGE})",
        f"(to Cleo: {ENGLISH.asker})",
        f"(to Ben: {ENGLISH.trying})",
        "(ignored: written by a bot)",
        f"(to Ben: {ENGLISH.unknown})",
    ]
    assert shown.count("/good: 👍 · /bad: 👎") == 2, "below both answers"
    assert "/bad outdated: Outdated · " in shown
    assert "(silent: " not in shown, "what was told is no silence"


async def test_a_reply_says_where_it_stands(whole: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    await played(
        whole, f"Ben (in release): @kimas {QUESTION}", f"Cleo (in release): {QUESTION}", f"Ben (alone): {QUESTION}"
    )
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("kimas")] == [
        *("kimas (in release):", "kimas (in release):", "kimas (alone with Ben):")
    ]


async def test_a_private_talk_is_closed_where_the_configuration_says_so(
    whole: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    closed = whole.model_copy(update={"gate": whole.gate.model_copy(update={"private": False})})
    await played(closed, f"Ben (alone): {QUESTION}")
    shown = capsys.readouterr().out
    assert "gate.private" in shown.partition("(silent: ")[2]
    assert "kimas (" not in shown


async def test_a_call_names_who_is_configured(whole: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    people = ("telegram:@nobody", "console:cleo")
    called = whole.model_copy(update={"handoff": whole.handoff.model_copy(update={"people": people})})
    await played(called, "Ben (in release): Who knows the colour?", "Ben (in release): ^ /escalate")
    shown = capsys.readouterr().out
    assert "@cleo\nBen could use your help here." in shown
    assert "nobody" not in shown


async def test_with_a_folder_the_next_play_goes_on(
    whole: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    capsys.readouterr()
    await played(whole, "/pause", f"Ben (in release): @kimas {QUESTION}", folder=folder)
    assert "(silent: console:group is paused" in capsys.readouterr().out
    await played(whole, f"Ben (in release): @kimas {QUESTION}", "/resume", folder=folder)
    assert "(silent: console:group is paused" in capsys.readouterr().out
    await played(whole, f"Ben (in release): @kimas {QUESTION}", folder=folder)
    assert "kimas (in release):" in capsys.readouterr().out
    await played(whole, "Ben (in release): How do I revoke a session?", folder=folder)
    shown = capsys.readouterr().out
    assert "kimas (in release):" in shown, "it goes on in the thread without a mention"
    assert f"kept in {folder}." in shown
    with closing(sqlite3.connect(folder / "group.db")) as connection:
        states = connection.execute("SELECT state FROM messages ORDER BY number").fetchall()
    assert [one for (one,) in states] == ["answered", "silent", "silent", "answered", "answered", "answered"]


async def test_a_folder_is_for_one_play_at_a_time(whole: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "why?not"
    with play_lock(folder), pytest.raises(StoreLocked, match=r"chat --group. is at .*why\?not.* name another folder"):
        await played(whole, "Hello", folder=folder)
    await played(whole, "Hello", folder=folder)
    assert (folder / "group.db").is_file()


async def test_a_folder_that_cannot_be_one_is_said(whole: Settings, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", "utf-8")
    with pytest.raises(StoreError, match=r"--keep .*taken/inside cannot be used: Not a directory; choose a folder"):
        await played(whole, "Hello", folder=tmp_path / "taken" / "inside")


def test_keep_belongs_to_a_group(whole: Settings, tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["chat", "--keep", str(tmp_path)])
    assert (told.exit_code, "--keep belongs to --group" in told.output) == (2, True)


def test_a_second_try_goes_with_its_question() -> None:
    group = Group(0, console())
    question = group.hear("Ben: @kimas Why?")
    assert isinstance(question, Message)
    second = replace(question, id=f"{question.id}{SECOND}")
    assert not group.is_deleted(second)
    group.delete(question.id)
    assert group.is_deleted(question)
    assert group.is_deleted(second)
