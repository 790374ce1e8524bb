"""`kimas eval make`: lines from a real journal and real knowledge, accepted by somebody at a real terminal."""

from __future__ import annotations

import asyncio
import json
import os
import pty
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bots.evaluation.datasets import Split, read_cases
from bots.evaluation.gate import GATE_CASE_FORMAT, parse_gate_case
from bots.evaluation.proposals import choose_split
from core.errors import UsageError
from core.storage.messages import Journal
from core.types import ConversationKey, Message, Reply, SkipReason, skip
from core.types.replies import Trace
from tests.support.deployment import README, Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.ratings import rate
from tests.support.terminal import Terminal, open_kimas

KEY = ConversationKey("telegram", "-1007")
CHAT = "telegram:-1007"
SEARCHED = Trace("q", "single", ("docs",), {})


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    return Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": "docs"}}})


def _message(message_id: str, text: str, chat: str = "-1007") -> Message:
    return Message(message_id, ConversationKey("telegram", chat), "9", "Ann", text, datetime.now(UTC), addressed=True)


async def _fill(deployment: Deployment) -> None:
    """A chat with liked and disliked answers, answers without citations, a failure, chatter, and another chat."""
    journal = await Journal.open(deployment.folder / "data" / "journal.db")
    await rate(journal, KEY, ["How do I rotate keys?"], "up")
    await rate(journal, KEY, ["Which fuel is best?"], "down")
    for number, (text, reply) in enumerate(
        {
            "Where is the moon?": Reply("The sources do not say.", trace=SEARCHED),
            "hello": Reply("Hello!"),
        }.items()
    ):
        message = _message(f"m{number}", text)
        await journal.record_message(message)
        await journal.begin_answer(message, None)
        await journal.mark_answered(message, reply)
    for message_id, text, chat in (("f", "Why did it fail?", "-1007"), ("o", "In another chat?", "-2")):
        message = _message(message_id, text, chat)
        await journal.record_message(message)
        await journal.mark_failed(message, "the model failed")
    silent_message = _message("s", "lunch anyone")
    await journal.record_message(silent_message)
    await journal.mark_skipped(silent_message, skip(SkipReason.NOT_ADDRESSED))
    await journal.close()


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


async def _proposed(deployment: Deployment, *arguments: str) -> list[Any]:
    result = await asyncio.to_thread(deployment.call, "eval", "make", *arguments, "--json")
    return _lines(result.stdout)


async def test_liked_answers_and_unanswered_questions_are_proposed(deployment: Deployment, tmp_path: Path) -> None:
    await _fill(deployment)
    data = str(tmp_path / "questions.jsonl")
    [liked] = await _proposed(deployment, "questions", data, "--from", "ratings")
    assert (liked["question"], liked["relevant"]) == ("How do I rotate keys?", ["docs: install.md"])
    assert liked["reference"] == "About How do I rotate keys?"
    unanswered = await _proposed(deployment, "questions", data, "--from", "unanswered", "--chat", CHAT)
    assert [line["question"] for line in unanswered] == [
        "Why did it fail?",
        "Where is the moon?",
        "Which fuel is best?",
    ]
    all_lines = await _proposed(deployment, "questions", data)
    assert {line["question"] for line in all_lines} >= {"In another chat?", "How do I rotate keys?"}
    assert not Path(data).exists()


async def test_messages_of_a_chat_become_lines_for_the_gate(deployment: Deployment, tmp_path: Path) -> None:
    await _fill(deployment)
    data = tmp_path / "gate.jsonl"
    lines = await _proposed(deployment, "gate", str(data), "--chat", CHAT)
    labels = {line["text"]: line["should_answer"] for line in lines}
    assert (labels["lunch anyone"], labels["How do I rotate keys?"]) == (False, True)
    assert "In another chat?" not in labels
    data.write_text("\n".join(json.dumps(line) for line in lines[:3]), "utf-8")
    rest = await _proposed(deployment, "gate", str(data), "--chat", CHAT)
    assert [line["id"] for line in rest] == [line["id"] for line in lines[3:]], "what is there is not proposed again"


async def test_questions_are_written_for_passages(deployment: Deployment, tmp_path: Path) -> None:
    replies = iter(['{"question": "", "answer": ""}', "no idea"])
    for name in ("fuel", "engine", "landing"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}\n\nRocket has a part for {name}.", "utf-8")

    def write(body: dict[str, Any]) -> str:
        assert "<passage>" in body["messages"][1]["content"]
        return next(replies, '{"question": "How do I install\\n Rocket?", "answer": "With pip."}')

    async with LanguageModelPeer(reply=write) as peer:
        await asyncio.to_thread(deployment.call, "ingest")
        data = str(tmp_path / "questions.jsonl")
        result = await asyncio.to_thread(
            lambda: deployment.call("eval", "make", "questions", data, "--from", "knowledge", "--json", code=2)
        )
        assert "set models.main" in result.stderr
        deployment.settings["models"] = {"main": {"base_url": peer.base_url, "model": "writer"}}
        lines = await _proposed(deployment, "questions", data, "--from", "knowledge", "--count", "2")
    assert len(lines) == 2
    assert lines[0]["question"] == "How do I install Rocket?"
    assert lines[0]["reference"] == "With pip."
    assert lines[0]["relevant"][0].startswith("docs: ")
    assert lines[0]["split"] == choose_split(lines[0]["id"])


def _at_a_terminal(deployment: Deployment, keys: Sequence[str], *arguments: str) -> str:
    """Run the command at a pseudo-terminal, and type the keys, each with Enter."""
    controller, terminal = pty.openpty()
    try:
        os.write(controller, "".join(f"{key}\n" for key in keys).encode())
        result = deployment.kimas("eval", "make", *arguments, stdin=terminal)
        return result.stderr + result.stdout
    finally:
        os.close(controller)
        os.close(terminal)


async def test_somebody_accepts_lines_at_a_terminal(deployment: Deployment, tmp_path: Path) -> None:
    await _fill(deployment)
    data = tmp_path / "questions.jsonl"
    # Accept the liked one; refuse the failure; edit the next and name its document; stop.
    keys = ["y", "n", "e", "Where is the moon of Rocket?", "docs: rocket.md; docs: moon.md", "q"]
    output = await asyncio.to_thread(_at_a_terminal, deployment, keys, "questions", str(data), "--chat", CHAT)
    first, edited_line = _lines(data.read_text("utf-8"))
    assert first["question"] == "How do I rotate keys?"
    assert (edited_line["question"], edited_line["relevant"]) == (
        "Where is the moon of Rocket?",
        ["docs: rocket.md", "docs: moon.md"],
    )
    assert "2 lines were added" in output
    [proposal] = await _proposed(deployment, "questions", str(data), "--chat", CHAT)
    assert proposal["question"] == "Which fuel is best?", "what was refused is not proposed again"


@asynccontextmanager
async def _asking(deployment: Deployment, data: Path) -> AsyncIterator[Terminal]:
    """Run the command at a terminal, where it proposes questions of a filled journal for a file."""
    await _fill(deployment)
    arguments = deployment.arguments("eval", "make", "questions", str(data), "--chat", CHAT)
    async with open_kimas(arguments, data.parent) as user:
        yield user


async def test_control_c_at_a_question_keeps_what_was_accepted(deployment: Deployment, tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    async with _asking(deployment, data) as user:
        await user.answer("y: accept", "y")
        await user.interrupt("y: accept")
        assert await user.end() == 130
        assert "Traceback" not in user.output
    [accepted_line] = _lines(data.read_text("utf-8"))
    assert accepted_line["question"] == "How do I rotate keys?"


async def test_the_end_of_the_input_stops_at_every_question(deployment: Deployment, tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    async with _asking(deployment, data) as user:
        await user.answer("y: accept", "e")
        await user.read("Question (")
        user.type(b"\x04")
        assert await user.end() == 0
        assert "0 lines were added" in user.output
    assert not data.exists()


async def test_who_stops_in_the_middle_sees_what_was_added_and_nothing_else(
    deployment: Deployment, tmp_path: Path
) -> None:
    for name in ("fuel", "engine"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}\n\nRocket has a part for {name}.", "utf-8")
    async with LanguageModelPeer(reply='{"question": "How?", "answer": "With pip."}') as peer:
        deployment.settings["models"] = {"main": {"base_url": peer.base_url, "model": "writer"}}
        await asyncio.to_thread(deployment.call, "ingest")
        arguments = ("questions", str(tmp_path / "questions.jsonl"), "--from", "knowledge")
        output = await asyncio.to_thread(_at_a_terminal, deployment, ["y", "q"], *arguments)
    assert output.rstrip().endswith(f"1 line was added to {tmp_path / 'questions.jsonl'}")


async def test_a_hostile_question_harms_neither_the_terminal_nor_the_file(
    deployment: Deployment, tmp_path: Path
) -> None:
    journal = await Journal.open(deployment.folder / "data" / "journal.db")
    await rate(journal, KEY, ["What is\u2028the\u0085moon\x1b]0;owned\x07 \u202e[bold]of {x} \x0bRocket?"], "up")
    await journal.close()
    data = tmp_path / "questions.jsonl"
    # Edit it, and keep what is there.
    arguments = ("questions", str(data), "--chat", CHAT, "--from", "ratings")
    output = await asyncio.to_thread(_at_a_terminal, deployment, ["e", "", "q"], *arguments)
    assert "1 line was added" in output
    assert not {"\x1b", "\x07", "\u202e"} & set(output)
    (line,) = [json.loads(line) for line in data.read_text("utf-8").split("\n") if line]
    assert "Rocket?" in line["question"]
    assert await _proposed(deployment, *arguments) == [], "the file can be read, and has the question"


def test_without_a_terminal_nobody_can_accept(deployment: Deployment, tmp_path: Path) -> None:
    data = tmp_path / "lines.jsonl"
    assert "print the proposals with --json" in deployment.call("eval", "make", "gate", str(data), code=2).stderr
    error = deployment.call("eval", "make", "gate", str(data), "--json", code=2).stderr
    assert "name it with --chat" in error
    error = deployment.call("eval", "make", "gate", str(data), "--chat", "nowhere", "--json", code=2).stderr
    assert "PLATFORM:CHAT" in error
    data.write_text("{}\n", "utf-8")
    error = deployment.call("eval", "make", "questions", str(data), "--json", code=2).stderr
    assert "line 1: it is no JSON object with an id" in error


async def test_who_gets_no_proposals_is_told_why(deployment: Deployment, tmp_path: Path) -> None:
    async def propose(*arguments: str) -> str:
        result = await asyncio.to_thread(deployment.call, "eval", "make", *arguments, "--json")
        assert result.stdout == ""
        return result.stderr

    questions = ("questions", str(tmp_path / "questions.jsonl"))
    other_chat_options = ("--chat", "telegram:-9")
    gate = ("gate", str(tmp_path / "gate.jsonl"), *other_chat_options)
    assert "there is no journal yet" in await propose(*questions)
    assert "there is no journal yet" in await propose(*gate)
    await _fill(deployment)
    assert "the journal has no messages of telegram:-9" in await propose(*gate)
    reasons = await propose(*questions, *other_chat_options)
    assert "no liked answers and no unanswered questions of telegram:-9" in reasons
    assert "set models.main, and it writes the questions" in reasons
    assert "models.main" not in await propose(*questions, *other_chat_options, "--from", "ratings")
    async with LanguageModelPeer(reply="How do I install it?") as peer:
        deployment.settings["models"] = {"main": {"base_url": peer.base_url, "model": "writer"}}
        assert "no passages: kimas ingest reads them" in await propose(*questions, *other_chat_options)
        await asyncio.to_thread(deployment.call, "ingest")
        unreadable = await propose(*questions, "--from", "knowledge")
    assert "the model wrote no question that can be used, for any of 1 passage" in unreadable


def test_the_help_says_that_lines_are_printed(tmp_path: Path) -> None:
    help_text = " ".join(Deployment(tmp_path, {}).call("eval", "make", "--help").stdout.split())
    assert "Print the proposed lines as JSON Lines" in help_text
    assert "one JSON object" not in help_text


def test_a_line_stays_in_its_split_and_the_other_split_is_left_out(tmp_path: Path) -> None:
    ids = [f"telegram:1:{number}" for number in range(1000)]
    splits = [choose_split(line_id) for line_id in ids]
    assert 250 < splits.count("test") < 350
    data = tmp_path / "gate.jsonl"
    lines = [
        {"id": line_id, "text": "Why?", "should_answer": True, "split": split}
        for line_id, split in zip(ids, splits, strict=True)
    ]
    lines += [{"id": "both", "text": "Why?", "should_answer": True}]
    lines += [{"id": "other", "text": "Why?", "should_answer": True, "split": "held out"}]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    counts = [len(read_cases(data, parse_gate_case, GATE_CASE_FORMAT, split=split)) for split in ("fit", "test")]
    assert sum(counts) == len(ids) + 4, "a line without one of our splits is in both"
    assert len(read_cases(data, parse_gate_case, GATE_CASE_FORMAT)) == len(lines)


@pytest.mark.parametrize(
    ("present_split", "wanted_split", "purpose"), [("fit", "test", "fitting"), ("test", "fit", "tests")]
)
def test_lines_of_the_other_split_alone_are_explained(
    tmp_path: Path, present_split: str, wanted_split: Split, purpose: str
) -> None:
    data = tmp_path / "gate.jsonl"
    lines = [{"id": str(n), "text": "Why?", "should_answer": True, "split": present_split} for n in range(3)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    with pytest.raises(UsageError) as error_info:
        read_cases(data, parse_gate_case, GATE_CASE_FORMAT, split=wanted_split)
    assert f"all 3 lines are for {purpose} (split: {present_split}); accept more" in str(error_info.value)
    assert f"set split to {wanted_split} in some (docs/evaluate.md#make-labelled-data)" in str(error_info.value)
