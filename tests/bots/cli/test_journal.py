"""`kimas journal forget`: the operator erases a person who cannot do so in the chat."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.storage.messages import Journal
from core.types import ConversationKey, Message, Reply
from tests.support.deployment import Deployment
from tests.support.terminal import open_kimas

SECRET = "my number is 555-0100"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(tmp_path)}}})


def record_messages(deployment: Deployment) -> None:
    """Have one person write in two chats, one message of which still waits, and another person in one."""

    async def record() -> None:
        journal = await Journal.open(deployment.folder / "data" / "journal.db")
        people = (("1", "-1", "7", True), ("2", "-2", "7", True), ("3", "-2", "7", False), ("4", "-1", "8", True))
        for number, chat, author_id, is_answered in people:
            key = ConversationKey("telegram", chat)
            text = f"{SECRET} {author_id}"
            message = Message(number, key, author_id, "Ann", text, datetime.now(UTC))
            await journal.record_message(message)
            if is_answered:
                await journal.begin_answer(message, None)
                await journal.mark_answered(message, Reply(f"You said: {text}"))
        await journal.close()

    asyncio.run(record())


def read_journal(deployment: Deployment) -> bytes:
    """Return all that is on the disk."""
    return b"".join(path.read_bytes() for path in (deployment.folder / "data").glob("journal.db*"))


def test_a_person_is_erased_in_all_chats(deployment: Deployment) -> None:
    record_messages(deployment)
    assert f"{SECRET} 7".encode() in read_journal(deployment)
    result = deployment.call("journal", "forget", "telegram:7")
    assert "erased: 2 messages of telegram:7" in result.output
    assert "not yet answered, and still there: 1 message" in result.output
    assert deployment.json("journal", "forget", "telegram:7") == {"user": "telegram:7", "erased": 0, "waiting": 1}
    content = read_journal(deployment)
    assert f"You said: {SECRET} 7".encode() not in content
    assert f"You said: {SECRET} 8".encode() in content


async def test_at_a_terminal_it_asks_first(deployment: Deployment) -> None:
    await asyncio.to_thread(record_messages, deployment)
    command = deployment.arguments("journal", "forget", "telegram:7")
    folder = deployment.folder
    async with open_kimas(command, folder, deployment.variables()) as user:
        await user.answer("Erase 2 messages of telegram:7 and the answers to them", "n")
        assert await user.end() == 1
    async with open_kimas([*command, "--yes"], folder, deployment.variables()) as user:
        assert await user.end() == 0
    assert "Erase" not in user.output
    report = await asyncio.to_thread(deployment.json, "journal", "forget", "telegram:7")
    assert report["erased"] == 0


@pytest.mark.parametrize("user", ["7", "telegram:", ":7"])
def test_a_user_has_a_platform_and_an_id(deployment: Deployment, user: str) -> None:
    assert "write PLATFORM:PERSON" in deployment.call("journal", "forget", user, code=2).stderr


def test_nobody_is_known_before_the_first_message(deployment: Deployment) -> None:
    assert "the journal has no messages of http:[/x" in deployment.call("journal", "forget", "http:[/x").output
    assert not (deployment.folder / "data" / "journal.db").exists()


def test_a_platform_that_is_not_there_is_no_success_in_silence(deployment: Deployment) -> None:
    record_messages(deployment)
    output = deployment.call("journal", "forget", "telegramm:7").output
    assert "the journal has no messages of telegramm:7; it has messages of telegram" in output


def test_a_group_that_was_kept_elsewhere_is_named(deployment: Deployment) -> None:
    record_messages(deployment)
    assert "delete FOLDER/group.db" in deployment.call("journal", "forget", "console:ben").output
    assert "group.db" not in deployment.call("journal", "forget", "telegram:7").output


def test_the_report_is_json(deployment: Deployment) -> None:
    record_messages(deployment)
    output = deployment.call("journal", "forget", "telegram:8", "--json").output
    assert json.loads(output) == {"user": "telegram:8", "erased": 1, "waiting": 0}
