"""Feedback in the terminal, and what `kimas feedback` makes of all feedback."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bots.console.rating import NO_ANSWER, USAGE, RatingCommands
from core.answering.retry import RetryQuestion
from core.settings.loader import load_settings
from core.text.catalogue import ENGLISH
from core.types import Question, Reply
from tests.deployment import README, Deployment

QUESTION = "How do I rotate the signing keys of sessions?"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    return Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}})


async def test_a_line_is_feedback_only_where_it_says_so(deployment: Deployment) -> None:
    ratings = RatingCommands(load_settings([deployment.config], (), {}))
    assert await ratings.handle_line("is /good a command?") is None
    for line in ("/good", "/bad wrong", "/again"):
        heard = await ratings.handle_line(line)
        assert heard is not None
        assert heard.text == NO_ANSWER
    ratings.record_answer(Question(QUESTION), Reply("Call it."))
    for line in ("/bad because", "/good wrong"):
        heard = await ratings.handle_line(line)
        assert heard is not None
        assert heard.text == USAGE
    assert not (deployment.folder / "data" / "journal.db").exists(), "nothing was said, so nothing is kept"


async def test_an_answer_is_rated_changed_taken_back_and_made_once_more(deployment: Deployment) -> None:
    ratings = RatingCommands(load_settings([deployment.config], (), {}))
    ratings.record_answer(Question(QUESTION), Reply("Call it."))
    lines = ("/good", "/bad", "/bad", "/bad outdated", "/again")
    heard = [one for line in lines if (one := await ratings.handle_line(line)) is not None]
    assert [one.text for one in heard] == [
        ENGLISH.rated_up.format(up=1, down=0),
        ENGLISH.rated_down.format(up=0, down=1),
        ENGLISH.rating_removed.format(up=0, down=0),
        ENGLISH.reason_noted,
        ENGLISH.retrying,
    ]
    again = heard[-1].retry_question
    assert isinstance(again, RetryQuestion)
    assert [turn.text for turn in again.history] == [QUESTION, "Call it.", ENGLISH.complaints["outdated"]]
    ratings.record_answer(again, Reply("Call that."))
    once = await ratings.handle_line("/again")
    assert once is not None
    assert (once.text, once.retry_question) == (ENGLISH.already_retried, None)


def test_what_is_said_in_the_terminal_is_shown_and_becomes_labels(deployment: Deployment) -> None:
    assert deployment.json("feedback") == {"days": []}
    assert "nobody has said anything" in deployment.call("feedback").output
    deployment.call("ingest")
    done = deployment.call("chat", given=f"{QUESTION}\n/good\n/again\n/bad wrong\nexit\n")
    assert ENGLISH.retrying in done.output
    days = deployment.json("feedback")["days"]
    # It may have become midnight.
    assert (sum(day["up"] for day in days), sum(day["down"] for day in days)) == (1, 1)
    assert [day["reasons"] for day in days if day["reasons"]] == [{"wrong": 1}]
    assert "outdated" in deployment.call("feedback").output
    lines = [json.loads(line) for line in deployment.call("feedback", "--labels").output.splitlines()]
    assert [(one["text"], one["should_answer"]) for one in lines] == [(QUESTION, True), (QUESTION, False)]
    assert lines[0]["id"].startswith("console:terminal:")
    assert deployment.call("feedback", "--labels", "--chat", "telegram:-100").output == ""
    with closing(sqlite3.connect(deployment.folder / "data" / "journal.db")) as connection:
        assert connection.execute("SELECT count(*) FROM messages WHERE platform = 'console'").fetchone() == (2,)
