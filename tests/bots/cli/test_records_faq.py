"""What people taught, from its review on the command line to an answer that cites it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.types import ConversationKey, Message
from tests.support.deployment import README, Deployment

QUESTION = "How do I feed the office hamster?"
ANSWER = "Give the hamster two spoons of oats every morning."
GROUP = ConversationKey("telegram", "-100")


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    sources = {"docs": {"kind": "files", "path": str(tmp_path / "docs")}, "people": {"kind": "learned"}}
    return Deployment(tmp_path, {"sources": sources})


def forget_audiences(deployment: Deployment) -> None:
    """Make the answers those of an earlier version, which did not record who may see them."""
    with closing(sqlite3.connect(deployment.folder / "data" / "journal.db")) as connection, connection:
        connection.execute("UPDATE taught_answers SET closed_sources = NULL")


def submit_answers(deployment: Deployment) -> None:
    """Have somebody teach two answers."""

    async def taught() -> None:
        journal = await Journal.open(deployment.folder / "data" / "journal.db")
        for number, (question, answer) in enumerate([(QUESTION, ANSWER), ("Is \x1b[2Jthis?", "Nonsense.")]):
            message = Message(str(number), GROUP, "7", "Ben", answer, datetime.now(UTC))
            await TaughtAnswerRepository(journal.database).submit(message, "42", question, answer, (), words_of=())
        await journal.close()

    asyncio.run(taught())


def test_nothing_was_taught_yet(deployment: Deployment) -> None:
    assert deployment.json("faq", "list") == {"answers": []}
    assert deployment.call("faq", "export").output == ""
    assert "nobody has taught anything yet" in deployment.call("faq", "approve", "1", code=2).stderr
    assert deployment.json("ingest")["sources"][1]["passages"] == 0, "a source of nothing is no failure"
    assert "somebody approved" in deployment.call("check").output


def test_only_approved_answers_are_cited_with_who_approved_them(deployment: Deployment) -> None:
    started_at = datetime.now(UTC)
    submit_answers(deployment)
    output = deployment.call("faq", "list").output
    assert QUESTION in output
    assert "\x1b" not in output
    deployment.call("ingest")
    assert "hamster" not in json.dumps(deployment.json("ask", QUESTION)["passages"])
    assert datetime.fromisoformat(deployment.json("sources")["sources"][1]["next_run"]) > datetime.now(UTC)
    assert deployment.json("faq", "approve", "1")["state"] == "approved"
    docs, people = deployment.json("sources")["sources"]
    assert datetime.fromisoformat(people["next_run"]) < datetime.now(UTC) < datetime.fromisoformat(docs["next_run"])
    assert deployment.json("faq", "reject", "2")["reviewer"] == "the operator"
    assert "There is no answer 3" in deployment.call("faq", "reject", "3", code=2).stderr
    deployment.call("ingest")
    body = deployment.json("ask", QUESTION)
    assert "oats" in body["answer"]
    [people_citation] = [citation for citation in body["citations"] if citation["source"] == "people"]
    assert people_citation["title"] == QUESTION
    days = {f"{day:%Y-%m-%d}" for day in (started_at, datetime.now(UTC))}
    assert people_citation["path"] in {f"answer 1, approved on {day}" for day in days}
    lines = [json.loads(line) for line in deployment.call("faq", "export").output.splitlines()]
    assert lines == [{"question": QUESTION, "answer": ANSWER}]
    deployment.call("faq", "reject", "1")
    deployment.call("ingest")
    assert "oats" not in deployment.json("ask", QUESTION)["answer"], "what is rejected later leaves again"
    states = [answer["state"] for answer in deployment.json("faq", "list", "--state", "all")["answers"]]
    assert states == ["rejected", "rejected"]


def test_an_answer_of_an_earlier_version_waits_until_somebody_says_who_may_see_it(deployment: Deployment) -> None:
    submit_answers(deployment)
    deployment.json("faq", "approve", "1")
    assert "are not used" not in deployment.call("check").output
    forget_audiences(deployment)
    warning = " ".join(deployment.call("check").output.split())
    assert "1 approved answers that people taught are not used" in warning
    assert "kimas faq release --all" in warning
    assert "`kimas faq release 1`" in deployment.call("faq", "list", "--state", "approved").output
    deployment.call("ingest")
    assert "oats" not in deployment.json("ask", QUESTION)["answer"]
    assert "give the numbers" in deployment.call("faq", "release", code=2).stderr
    assert "There is no answer 7" in deployment.call("faq", "release", "7", code=2).stderr
    assert "write PLATFORM:CHAT" in deployment.call("faq", "release", "1", "--chat", "team", code=2).stderr
    assert deployment.json("faq", "release", "--all") == {"released": 2, "closed_sources": []}
    assert "are not used" not in deployment.call("check").output
    deployment.call("ingest")
    assert "oats" in deployment.json("ask", QUESTION)["answer"]
