"""The Slack peer refuses what Slack refuses: a fake that takes everything would prove nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.support.peers.slack import SlackPeer
from tests.support.waiting import until

MISSING = "no such thing"


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        peer.say("C1", "hello")
        peer.say("D1", "hello")
        yield peer


async def call(peer: SlackPeer, method: str, token: str | None = None, **parameters: Any) -> str:
    """Return the error of a call, or nothing."""
    bearer = {"Authorization": f"Bearer {peer.bot_token if token is None else token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(peer.api_url + method, json=parameters, headers=bearer) as answer,
    ):
        body = await answer.json()
        assert body["ok"] == (not body.get("error"))
        return str(body.get("error", ""))


async def test_tokens_methods_and_parameters_are_checked(peer: SlackPeer) -> None:
    assert await call(peer, "auth.test") == ""
    assert await call(peer, "auth.test", "xoxb-other") == "invalid_auth"
    assert await call(peer, "auth.test", "") == "not_authed"
    assert await call(peer, "apps.connections.open") == "invalid_auth"
    assert await call(peer, "apps.connections.open", peer.app_token) == ""
    assert await call(peer, "chat.shout", channel="C1") == "unknown_method"
    for value in ({"channel": "C1"}, {"channel": "C1", "text": 5}, {"channel": "C1", "text": "x", "colour": "red"}):
        assert (await call(peer, "chat.postMessage", **value)).startswith("invalid_arguments")
    assert await call(peer, "chat.postMessage", channel="C9", text="x") == "channel_not_found"
    assert await call(peer, "chat.postMessage", channel="C1", text=" ") == "no_text"
    assert await call(peer, "chat.postMessage", channel="C1", text="x", thread_ts="9.9") == "invalid_thread_ts"


async def test_edits_and_streams_have_their_rules(peer: SlackPeer) -> None:
    theirs = peer.say("C1", "mine")
    assert await call(peer, "chat.update", channel="C1", ts=theirs, text="x") == "cant_update_message"
    assert await call(peer, "chat.update", channel="C1", ts="9.9", text="x") == "message_not_found"
    start = {"channel": "C1", "thread_ts": theirs, "markdown_text": "a"}
    assert await call(peer, "chat.startStream", **start) == "missing_recipient_user_id"
    assert await call(peer, "chat.startStream", **start, recipient_user_id="U1") == "missing_recipient_team_id"
    assert await call(peer, "chat.startStream", **start, recipient_user_id="U1", recipient_team_id="T1") == ""
    (message,) = peer.messages("C1")
    target = {"channel": "C1", "ts": message.ts}
    assert await call(peer, "chat.update", **target, text="x") == "streaming_state_conflict"
    assert await call(peer, "chat.appendStream", **target, markdown_text="b" * 12001) == "msg_too_long"
    assert await call(peer, "chat.appendStream", **target, markdown_text="b") == ""
    assert await call(peer, "chat.stopStream", **target) == ""
    assert await call(peer, "chat.stopStream", **target) == "message_not_in_streaming_state"
    assert await call(peer, "chat.update", **target, text="x" * 4001) == "msg_too_long"
    assert await call(peer, "chat.update", **target, text="hidden") == ""
    assert message.text == "ab", "the streamed blocks stay unless they are taken away"
    assert await call(peer, "chat.update", **target, text="@here", blocks=[]) == ""
    assert message.notifies() == ["!here"], "names are linked unless that is switched off"


async def test_limits_are_kept(peer: SlackPeer) -> None:
    peer.limits["chat.postMessage"] = (2, 30.0)
    results = [await call(peer, "chat.postMessage", channel="C1", text="x") for _ in range(3)]
    assert results == ["", "", "ratelimited"]


async def test_an_envelope_that_is_not_acknowledged_comes_again(peer: SlackPeer) -> None:
    peer.deliveries.patience_s = 1.0
    async with aiohttp.ClientSession() as session:
        async with session.post(peer.api_url + "apps.connections.open", data={"token": peer.app_token}) as answer:
            url = (await answer.json())["url"]
        async with session.ws_connect(url) as socket:
            assert (await socket.receive_json())["type"] == "hello"
            first = [await socket.receive_json() for _ in range(2)]
            assert [entry["retry_attempt"] for entry in first] == [0, 0]
            await socket.send_json({"envelope_id": first[0]["envelope_id"]})
            second_message = await socket.receive_json()
            assert (second_message["envelope_id"], second_message["retry_attempt"]) == (first[1]["envelope_id"], 1)
            await socket.send_json({"envelope_id": MISSING})
            await until(lambda: peer.deliveries.unknown_acknowledgements)
            assert MISSING in peer.deliveries.unknown_acknowledgements[0]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(url)


def modal(**changes: Any) -> dict[str, Any]:
    """Return a modal that Slack takes, but for the changes."""
    return {"type": "modal", "title": text("Title"), "submit": text("Save"), "blocks": [choice("a")], **changes}


def text(words: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": words}


def choice(name: str, *labels: str, **changes: Any) -> dict[str, Any]:
    options = [{"text": text(label), "value": str(number)} for number, label in enumerate(labels or ("one", "two"))]
    element = {"type": "static_select", "action_id": "x", "options": options, **changes}
    return {"type": "input", "block_id": name, "label": text("Label"), "element": element}


async def open_view(peer: SlackPeer, view: object, trigger: str = "") -> str:
    number = f"{len(peer.calls)}.1.a"
    return await call(peer, "views.open", trigger_id=trigger or peer.views.trigger(number, "U1"), view=view)


@pytest.mark.parametrize(
    "view",
    [
        modal(type="home"),
        modal(title=text("x" * 25)),
        modal(title={"type": "mrkdwn", "text": "Title"}),
        modal(private_metadata="x" * 3001),
        modal(colour="red"),
        modal(blocks=[]),
        modal(blocks=[choice("a"), choice("a")]),
        modal(blocks=[choice(str(number)) for number in range(101)]),
        modal(blocks=[choice("x" * 256)]),
        modal(blocks=[choice("a", "x" * 76)]),
        modal(blocks=[choice("a", "")]),
        modal(blocks=[choice("a", initial_option={"text": text("three"), "value": "3"})]),
        modal(blocks=[choice("a", action_id="")]),
        modal(blocks=[{"type": "section", "text": text("x" * 3001)}]),
        modal(blocks=[{"type": "marquee"}]),
        {name: value for name, value in modal().items() if name != "submit"},
    ],
    ids=range(16),
)
async def test_a_modal_is_checked(peer: SlackPeer, view: dict[str, Any]) -> None:
    assert (await open_view(peer, view)).startswith("invalid_arguments")
    assert peer.views.all == []


async def test_a_modal_needs_a_trigger_that_is_fresh_and_unused(peer: SlackPeer) -> None:
    assert await open_view(peer, modal(), "1.2.made-up") == "invalid_trigger_id"
    trigger = peer.views.trigger("1.2.3", "U1")
    assert await open_view(peer, modal(), trigger) == ""
    assert await open_view(peer, modal(), trigger) == "exchanged_trigger_id"
    peer.views.trigger_s = 0.0
    assert await open_view(peer, modal()) == "expired_trigger_id"
    peer.views.trigger_s = 3.0
    assert await open_view(peer, modal(callback_id="x" * 250_000)) == "view_too_large"
    assert [view.user for view in peer.views.all] == ["U1"]


async def test_a_modal_takes_only_what_people_could_fill_in_and_slack_takes(peer: SlackPeer) -> None:
    input_element = {"type": "plain_text_input", "action_id": "x", "initial_value": "5"}
    blocks = [choice("a"), {"type": "input", "block_id": "b", "label": text("Label"), "element": input_element}]
    assert await open_view(peer, modal(blocks=blocks)) == ""
    (view,) = peer.views.all
    for values in ({"a": "7"}, {"a": "1", "b": ""}, {"c": "1"}, {}):
        with pytest.raises(LookupError):
            peer.submit(view, values)
    state = view.filled({"a": "1"})["state"]["values"]
    assert state["a"]["x"]["selected_option"]["value"] == "1"
    assert state["b"]["x"] == {"type": "plain_text_input", "value": "5"}
    for answer in ({"text": "thanks"}, {"response_action": "errors", "errors": {"c": "bad"}}):
        view.trouble = False
        view.take(answer)
        assert view.trouble
    view.trouble = False
    view.take({"response_action": "errors", "errors": {"a": "bad"}})
    assert (view.open, view.trouble, view.errors) == (True, False, {"a": "bad"})
    view.take({})
    assert not view.open
    with pytest.raises(LookupError):
        peer.submit(view, {"a": "1"})
