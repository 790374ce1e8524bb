"""A group played in the terminal: the daemon's gate, desk and feedback over lines, and nothing of it is left."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bots.actions import ingest
from bots.console import console
from bots.group import Group, play
from core.configuration import load_settings
from core.settings import Settings
from tests.deployment import README, Deployment

QUESTION = "How do I rotate the signing keys of sessions?"


@pytest.fixture
async def whole(tmp_path: Path) -> Settings:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    sources = {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}
    gate = {"chats": ["telegram:-1"], "wait_s": 0, "cooldown_s": 0}
    deployment = Deployment(tmp_path, {"sources": sources, "gate": gate, "handoff": {"trusted": ["console:cleo"]}})
    settings = load_settings([deployment.config], (), {})
    await ingest(settings, (), rebuild=False, as_json=True)
    return settings


async def played(settings: Settings, *lines: str) -> None:
    """Type these lines, the end of input behind them."""
    reading, writing = os.pipe()
    try:
        os.write(writing, "\n".join(lines).encode())
        os.close(writing)
        assert await play(settings, reading) == 0
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


def test_a_line_is_what_somebody_says() -> None:
    group = Group(0, console())
    first = group.message("Ben: @KIMAS, how does it work?")
    assert (first.author, first.author_id, first.text, first.addressed) == ("Ben", "ben", "how does it work?", True)
    reply = group.message("^ That is so: it does.")
    assert (reply.author_id, reply.reply_to, reply.quoted, reply.addressed) == (
        *("owner", first.id, "how does it work?"),
        False,
    )
    group.said("9", "An answer.")
    more = group.message("Ben: ^ and why?")
    assert (more.reply_to, more.addressed, more.command) == ("9", True, "")
    order = group.message("/mode auto")
    assert (order.command, order.text, order.addressed) == ("mode", "auto", True)
    assert group.message("/nothing at all").command == ""
    assert group.message("https://a.example: is it down?").author == "You"
