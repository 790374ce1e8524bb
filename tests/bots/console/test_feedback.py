"""Feedback in the terminal, and what `kimas feedback` makes of all feedback."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bots.cli.chat import Conversation
from bots.console.convert import NO_ANSWER, USAGE
from core.answering.retry import RetryQuestion
from core.catalogue import ENGLISH
from core.ports import Sink
from core.settings.loader import load_settings
from core.types import Question, Reply
from tests.support.deployment import README, Deployment

QUESTION = "How do I rotate the signing keys of sessions?"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    return Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}})


class RecordedConversation:
    """A conversation, with the questions that were answered."""

    def __init__(self, deployment: Deployment) -> None:
        self.out = StringIO()
        self.questions = list[Question]()
        settings = load_settings([deployment.config], (), {})
        self.conversation = Conversation(settings, self._answered, Console(file=self.out, width=200))

    async def _answered(self, question: Question, sink: Sink) -> Reply:
        self.questions.append(question)
        reply = Reply("Call that." if isinstance(question, RetryQuestion) else "Call it.")
        await sink.finish(reply)
        return reply

    async def type_line(self, line: str) -> str:
        """Return what is shown to a line."""
        begun = self.out.tell()
        await self.conversation.process_line(line)
        return self.out.getvalue()[begun:].strip()


async def test_a_line_is_feedback_only_where_it_says_so(deployment: Deployment) -> None:
    session = RecordedConversation(deployment)
    async with session.conversation:
        assert await session.type_line("is /good a command?") == "Call it."
    session = RecordedConversation(deployment)
    async with session.conversation:
        for line in ("/good", "/bad wrong", "/again"):
            assert await session.type_line(line) == NO_ANSWER
        await session.type_line(QUESTION)
        for line in ("/bad because", "/good wrong"):
            assert await session.type_line(line) == USAGE
    assert not (deployment.folder / "data" / "journal.db").exists(), "nothing was said, so nothing is kept"


async def test_an_answer_is_rated_changed_taken_back_and_made_once_more(deployment: Deployment) -> None:
    session = RecordedConversation(deployment)
    async with session.conversation:
        await session.type_line(QUESTION)
        lines = ("/good", "/bad", "/bad", "/bad outdated")
        assert [await session.type_line(line) for line in lines] == [
            "Thank you, noted: 👍 1 · 👎 0. The same again takes it back.",
            ENGLISH.rated_down.format(up=0, down=1),
            ENGLISH.rating_removed.format(up=0, down=0),
            ENGLISH.reason_noted,
        ]
        assert (await session.type_line("/again")).split("\n") == [ENGLISH.retrying, "Call that."]
        retry_question = session.questions[-1]
        assert isinstance(retry_question, RetryQuestion)
        assert [turn.text for turn in retry_question.history] == [QUESTION, "Call it.", ENGLISH.complaints["outdated"]]
        assert await session.type_line("/again") == ENGLISH.already_retried
        assert len(session.questions) == 2


def test_what_is_said_in_the_terminal_is_shown_and_becomes_labels(deployment: Deployment) -> None:
    assert deployment.json("feedback") == {"days": []}
    assert "nobody has said anything" in deployment.call("feedback").output
    deployment.call("ingest")
    result = deployment.call("chat", stdin=f"{QUESTION}\n/good\n/again\n/bad wrong\nexit\n")
    assert ENGLISH.retrying in result.output
    days = deployment.json("feedback")["days"]
    # It may have become midnight.
    assert (sum(day["up"] for day in days), sum(day["down"] for day in days)) == (1, 1)
    assert [day["reasons"] for day in days if day["reasons"]] == [{"wrong": 1}]
    assert "outdated" in deployment.call("feedback").output
    lines = [json.loads(line) for line in deployment.call("feedback", "--labels").output.splitlines()]
    assert [(line["text"], line["should_answer"]) for line in lines] == [(QUESTION, True), (QUESTION, False)]
    assert lines[0]["id"].startswith("console:terminal:")
    assert deployment.call("feedback", "--labels", "--chat", "telegram:-100").output == ""
    with closing(sqlite3.connect(deployment.folder / "data" / "journal.db")) as connection:
        assert connection.execute("SELECT count(*) FROM messages WHERE platform = 'console'").fetchone() == (2,)
