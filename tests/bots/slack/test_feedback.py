"""Presses of buttons on Slack: over Socket Mode and as signed requests, in blocks that Slack takes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

from bots.slack.adapter import SlackAdapter
from bots.slack.feedback import MAX_SECTION_CHARS, to_blocks
from core.messaging.feedback.rating_buttons import is_press, with_answer_buttons
from core.types import Button, Message, Reply
from tests.support.peers.slack import SlackPeer
from tests.support.sink_helpers import DeliveryLog
from tests.support.slack_helpers import PACE, Inbox, Threads, listening, settings


@asynccontextmanager
async def receiving(folder: Path, *, http: bool) -> AsyncIterator[tuple[SlackPeer, SlackAdapter, Inbox]]:
    async with SlackPeer() as peer:
        adapter = SlackAdapter(settings(peer, folder, http=http), Threads().answered_in, PACE)
        inbox = Inbox()
        async with listening(adapter, inbox):
            if http:
                await peer.wait_until(lambda: bool(adapter.port), 30)
                peer.deliveries.target = f"http://127.0.0.1:{adapter.port}{adapter._settings.path}"
            yield peer, adapter, inbox


async def press_button(peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox) -> Message:
    envelope = peer.press("C1", "thumb:down:1700000000.1", user="U7")
    message = await inbox.until(1)
    await peer.wait_until(envelope.acknowledged.is_set, 30)
    assert envelope.answer == ""
    await adapter.sink(message, DeliveryLog()).finish(Reply("Noted."))
    return message


async def test_a_press_over_socket_mode_is_taken_then_acknowledged_then_answered(tmp_path: Path) -> None:
    async with receiving(tmp_path, http=False) as (peer, adapter, inbox):
        message = await press_button(peer, adapter, inbox)
        assert is_press(message)
        assert (message.author_id, message.text, message.reply_to) == ("U7", "down", "1700000000.1")
        [response] = peer.responses
        assert (response["text"], response["response_type"], response["replace_original"]) == (
            "Noted.",
            "ephemeral",
            False,
        )


async def test_a_press_over_http_needs_a_signature(tmp_path: Path) -> None:
    async with receiving(tmp_path, http=True) as (peer, adapter, inbox):
        message = await press_button(peer, adapter, inbox)
        assert message.text == "down"
        payload = peer.deliveries.envelopes[0].payload
        assert isinstance(payload, dict)
        body = urlencode({"payload": json.dumps({**payload, "trigger_id": "another"})})
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await peer.deliveries.request(body, secret="another secret", **form))[0] == 401
        assert (await peer.deliveries.request(body, at=1_600_000_000, **form))[0] == 401
        assert len(inbox.messages) == 1
        assert (await peer.deliveries.request(body, **form))[0] == 200
        assert len(inbox.messages) == 2


async def test_a_press_that_cannot_be_kept_is_not_acknowledged(tmp_path: Path) -> None:
    async with receiving(tmp_path, http=False) as (peer, _, inbox):
        peer.deliveries.patience_s = 1.0
        inbox.refusals = 1
        envelope = peer.press("C1", "thumb:up:1")
        await inbox.until(1)
        await peer.wait_until(envelope.acknowledged.is_set, 30)
        assert len(envelope.attempts) >= 2


async def test_foreign_and_malformed_presses_are_left_alone(tmp_path: Path) -> None:
    async with receiving(tmp_path, http=False) as (peer, adapter, inbox):
        envelopes = [
            peer.press("C1", "somebody-elses"),
            peer.deliveries.deliver("interactive", {"type": "block_actions"}),
        ]
        for envelope in envelopes:
            await peer.wait_until(envelope.acknowledged.is_set, 30)
        assert inbox.messages == []
        assert sum(adapter.skipped.values()) == 2


def test_a_long_part_becomes_sections_that_slack_takes() -> None:
    text = "\n\n".join([*("word " * 100 for _ in range(5)), "```\n" + "x = 1\n" * 150 + "```"])
    blocks = to_blocks(text, [Button("thumb:up:1", "👍"), Button("thumb:down:1", "👎")])
    sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    assert len(sections) == 2
    assert all(len(section) <= MAX_SECTION_CHARS and section.count("```") % 2 == 0 for section in sections)
    assert [element["value"] for element in blocks[-1]["elements"]] == ["thumb:up:1", "thumb:down:1"]
    assert len({element["action_id"] for element in blocks[-1]["elements"]}) == 2
    assert to_blocks(text, ()) == []


async def test_the_answer_to_a_command_has_its_buttons_in_blocks(tmp_path: Path) -> None:
    async with receiving(tmp_path, http=False) as (peer, adapter, inbox):
        peer.command("ask How?", channel="C1")
        message = await inbox.until(1)
        await adapter.sink(with_answer_buttons(message, "", has_ratings=True), DeliveryLog()).finish(Reply("With pip."))
        [response] = peer.responses
        assert [block["type"] for block in response["blocks"]] == ["section", "context_actions"]
        [element] = response["blocks"][1]["elements"]
        values = [element["positive_button"]["value"], element["negative_button"]["value"]]
        assert values == [f"thumb:up:{message.id}", f"thumb:down:{message.id}"]


async def test_the_note_to_a_press_in_a_thread_is_in_that_thread(tmp_path: Path) -> None:
    async with receiving(tmp_path, http=False) as (peer, adapter, inbox):
        root = peer.write("C1", "the question").ts
        answer = peer.write("C1", "the answer", root).ts
        peer.press("C1", f"thumb:down:{root}", ts=answer)
        await adapter.sink(await inbox.until(1), DeliveryLog()).finish(Reply("Noted."))
        assert peer.responses[0]["thread_ts"] == root
