"""Feedback over plain HTTP: an event in, a callback with what is known, and another try as a reply of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from core.catalogue import ENGLISH
from tests.support.http_helpers import Harness, event, open_harness


def make_press(number: str, choice: str, message_id: str = "1", **changes: Any) -> dict[str, Any]:
    message = {"id": number, "chat": "room", "author": {"id": "42", "name": "Ann"}, "text": choice, "kind": "feedback"}
    return {**message, "reply_to": message_id, **changes}


async def get_stored_feedback(harness: Harness) -> list[tuple[str, str]]:
    async with harness.journal.database.connect() as connection:
        rows = (await connection.execute(sql("SELECT verdict, reason FROM feedback ORDER BY number"))).all()
    return [tuple(row) for row in rows]


async def test_a_reply_is_rated_by_its_id_or_by_that_of_its_question(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        # Otherwise the network's own id is the reply's.
        harness.peer.own_ids = False
        await harness.send(event())
        await harness.wait_until_finished()
        [final] = await harness.peer.until("final")
        assert await harness.send(make_press("2", "up")) == [202]
        [first] = await harness.peer.until("noted")
        assert await harness.send(make_press("3", "wrong", final["reply_id"], author={"id": "43"})) == [202]
        _, second = await harness.peer.until("noted", 2)
        assert (first["event_id"], first["thread"], first["offers"]) == ("2", "", [])
        assert first["text"] == ENGLISH.rated_up.format(up=1, down=0)
        assert [button["text"] for button in second["offers"]] == ["wrong", "outdated", "other", "unclear", "again"]
        assert await get_stored_feedback(harness) == [("up", ""), ("down", "wrong")]


async def test_another_try_is_a_reply_of_its_own(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.send(event())
        await harness.wait_until_finished()
        await harness.send(make_press("2", "down"))
        await harness.wait_until_finished()
        await harness.send(make_press("3", "again"))
        first, second = await harness.peer.until("final", 2)
        await harness.wait_until_finished()
        assert (first["event_id"], second["event_id"]) == ("1", "1")
        assert first["reply_id"] != second["reply_id"]
        assert second["text"].startswith("3: "), "it knows the first answer and that it did not help"


async def test_a_private_question_is_not_asked_again_where_others_read_by_now(tmp_path: Path) -> None:
    """It would be answered as in private, from what its author may see there."""
    async with open_harness(tmp_path) as harness:
        hello = event("9", author={"id": "7"}, addressed=False, chat="chat 2")
        for number, is_private, others in (("1", True, ()), ("2", True, (hello,)), ("3", False, ())):
            place = {"chat": f"chat {number}"}
            await harness.send(event(number, private=True, **place))
            await harness.wait_until_finished()
            await harness.send(*others, make_press(f"press {number}", "again", number, private=is_private, **place))
            await harness.wait_until_finished()
        assert [message["event_id"] for message in harness.peer.of("final")] == ["1", "1", "2", "3"]
        assert [message["text"] for message in harness.peer.of("failed")] == 2 * [ENGLISH.unknown_answer]


async def test_what_is_no_feedback_on_a_reply_changes_nothing(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.send(event())
        await harness.wait_until_finished()
        by_bot = {"author": {"id": "7", "bot": True}}
        by_nobody = {"author": None}
        by_forwarder = {"forwarded": True}
        invalid_events = [
            make_press("2", "splendid"),
            make_press("2", "up", ""),
            *(make_press("2", "up", **item) for item in (by_bot, by_nobody, by_forwarder)),
        ]
        answers = await harness.send(*invalid_events)
        assert answers == [422] * 5
        assert await harness.send(make_press("4", "up", message_id="unknown"), make_press("5", "up", chat="other")) == [
            202,
            202,
        ]
        messages = await harness.peer.until("failed", 2)
        assert {message["text"] for message in messages} == {ENGLISH.unknown_answer}
        assert await get_stored_feedback(harness) == []


@pytest.mark.parametrize("secret", ["", "another secret of thirty-two char"])
async def test_an_unsigned_event_is_no_feedback(tmp_path: Path, secret: str) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.send(event())
        await harness.wait_until_finished()
        headers: dict[str, Any] = {"secret": secret} if secret else {"signature": ""}
        status, _ = await harness.peer.send(harness.adapter.port, make_press("2", "up"), **headers)
        assert status == 401
        assert await get_stored_feedback(harness) == []
