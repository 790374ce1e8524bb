"""Buttons below an answer on Slack: to stop it while it is written, and Slack's own thumbs, with what replaces them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bots.slack.adapter import SlackAdapter
from core.messaging.feedback.rating_buttons import is_press, with_answer_buttons
from core.ports import Sink
from core.types import STOP, UP, Reply
from tests.support.peers.slack import BOT, PostedMessage, SlackPeer
from tests.support.sink_helpers import DeliveryLog
from tests.support.slack_helpers import Inbox

pytestmark = pytest.mark.usefixtures("time_lapse")
STREAMS = {"chat.startStream", "chat.appendStream", "chat.stopStream"}
Ask = Callable[[], Awaitable[Sink]]


@pytest.fixture
def ask(peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox) -> Ask:
    """Have somebody ask and return the sink for an answer with all its buttons."""

    async def open_sink() -> Sink:
        count = len(inbox.messages) + 1
        peer.say("C1", f"<@{BOT}> what is it?")
        return adapter.sink(with_answer_buttons(await inbox.until(count), "", has_ratings=True), DeliveryLog())

    return open_sink


def choices(message: PostedMessage) -> list[str]:
    return [button["value"].split(":")[1] for button in message.buttons()]


def layout(message: PostedMessage) -> list[str]:
    return [block["type"] for block in message.blocks]


@pytest.mark.parametrize("missing_methods", [set(), STREAMS], ids=["stream", "edits"])
async def test_it_can_be_stopped_while_it_grows_and_rated_in_the_end(
    peer: SlackPeer, ask: Ask, missing_methods: set[str]
) -> None:
    peer.lacking = missing_methods
    sink = await ask()
    await sink.open()
    await sink.update("The first words")
    growing = await peer.wait_for_reply("C1", 30, containing="first")
    assert choices(growing) == [STOP]
    assert growing.streaming == (not missing_methods)
    await sink.update("The first words, and more")
    await peer.wait_for_reply("C1", 30, containing="more")
    assert choices(growing) == [STOP]
    await sink.finish(Reply("The first words, and more"))
    [message] = peer.messages("C1")
    assert message.ts == growing.ts
    assert layout(message) == ["section", "context_actions"]
    assert choices(message) == ["up", "down"]


async def test_a_stream_that_takes_no_button_goes_on_without_one(peer: SlackPeer, ask: Ask) -> None:
    peer.lacking = {"blocks in streams"}
    for _ in range(2):
        sink = await ask()
        await sink.open()
        await sink.update("Some words")
        await peer.wait_until(lambda: any(message.streaming for message in peer.messages("C1")), 30)
        await sink.finish(Reply("Some words."))
    assert [message.text for message in peer.messages("C1")] == ["Some words."] * 2
    assert [call.error for call in peer.get_calls("chat.startStream")] == ["invalid_blocks", "", ""], "it is tried once"


async def test_a_state_that_takes_no_button_is_shown_without_one(peer: SlackPeer, ask: Ask) -> None:
    peer.lacking = {*STREAMS, "assistant.threads.setStatus", "reactions.add"}
    peer.fail("chat.postMessage", "invalid_blocks")
    sink = await ask()
    await sink.open()
    await sink.update("Some words")
    message = await peer.wait_for_reply("C1", 30, containing="Some words")
    assert message.blocks == []
    await sink.finish(Reply("Some words."))
    assert choices(message) == ["up", "down"]


async def test_where_slack_has_no_thumbs_of_its_own_ours_are_shown(peer: SlackPeer, ask: Ask) -> None:
    peer.lacking = {"feedback_buttons", *STREAMS}
    for number in range(2):
        sink = await ask()
        await sink.open()
        if number:
            await sink.update("Some")
        await sink.finish(Reply("Some words."))
    for message in peer.messages("C1"):
        assert message.text == "Some words."
        assert (layout(message), choices(message)) == (["section", "actions"], ["up", "down"])
    errors = [call.error for method in ("chat.postMessage", "chat.update") for call in peer.get_calls(method)]
    assert errors.count("invalid_blocks") == 1, "it is tried once"


async def test_where_blocks_are_refused_the_text_is_posted(peer: SlackPeer, ask: Ask) -> None:
    peer.fail("chat.postMessage", "invalid_blocks", times=2)
    await (await ask()).finish(Reply("Some words."))
    await (await ask()).finish(Reply("More words."))
    first, second = peer.messages("C1")
    assert (first.text, first.blocks) == ("Some words.", [])
    assert layout(second) == ["section", "context_actions"], "the workspace has them: it was the text"


async def test_a_command_gets_other_thumbs_where_slack_refuses_its_own(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    peer.lacking = {"feedback_buttons"}
    peer.command("ask How?", channel="C1")
    message = with_answer_buttons(await inbox.until(1), "", has_ratings=True)
    await adapter.sink(message, DeliveryLog()).finish(Reply("With pip."))
    [response] = peer.responses
    assert [block["type"] for block in response["blocks"]] == ["section", "actions"]


async def test_a_press_on_slacks_own_thumbs_arrives_once(peer: SlackPeer, ask: Ask, inbox: Inbox) -> None:
    sink = await ask()
    await sink.finish(Reply("Some words."))
    [message] = peer.messages("C1")
    peer.deliveries.patience_s = 0.5
    inbox.refusals = 1
    peer.press("C1", message.buttons()[0]["value"], ts=message.ts)
    press = await inbox.until(2)
    assert is_press(press)
    assert (press.text, press.reply_to) == (UP, inbox.messages[0].id)
    await asyncio.sleep(3)
    assert len(inbox.messages) == 2
