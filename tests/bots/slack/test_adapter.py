"""Events against a strict server: acknowledged only once they are safe, answered once, and no outage ends it."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from bots.common.diagnosis import Scope
from bots.slack import events
from bots.slack.adapter import SlackAdapter
from bots.slack.diagnosis import diagnose
from core.errors import PlatformError
from core.types import ConversationKey
from tests.support.peers.slack import BOT, BOT_ID, SlackPeer
from tests.support.slack_helpers import PACE, Inbox, Threads, listening, settings

pytestmark = pytest.mark.usefixtures("time_lapse")


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        # What a busy machine is late with need not come again; other tests look at that.
        peer.deliveries.patience_s = 60
        yield peer


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
async def adapter(peer: SlackPeer, inbox: Inbox, threads: Threads, tmp_path: Path) -> AsyncIterator[SlackAdapter]:
    async with listening(SlackAdapter(settings(peer, tmp_path), threads.answered_in, PACE), inbox) as adapter:
        yield adapter


@pytest.fixture
async def over_http(peer: SlackPeer, inbox: Inbox, threads: Threads, tmp_path: Path) -> AsyncIterator[SlackAdapter]:
    slack_adapter = SlackAdapter(settings(peer, tmp_path, http=True), threads.answered_in, PACE)
    async with listening(slack_adapter, inbox) as adapter:
        await peer.wait_until(lambda: bool(adapter.port), 30)
        peer.deliveries.target = f"http://127.0.0.1:{adapter.port}/slack/events"
        yield adapter


async def wait_until_finished(peer: SlackPeer) -> None:
    await peer.wait_until(lambda: all(envelope.acknowledged.is_set() for envelope in peer.deliveries.envelopes), 30)


async def test_a_channel_with_another_id_is_recorded_before_the_event_is_acknowledged(
    peer: SlackPeer, inbox: Inbox, threads: Threads, tmp_path: Path
) -> None:
    moves = list[tuple[str, str]]()

    async def record(former: str, chat: str) -> None:
        moves.append((former, chat))

    adapter = SlackAdapter(settings(peer, tmp_path), threads.answered_in, PACE, record_move=record)
    async with listening(adapter, inbox):
        for values in ({"old_channel_id": "G1", "new_channel_id": "C1"}, {"old_channel_id": "G2"}):
            peer.event({"type": "channel_id_changed", "event_ts": "1.0", **values})
        await wait_until_finished(peer)
    assert set(moves) == {("G1", "C1")}
    assert adapter.skipped["malformed"] >= 1


async def test_a_mention_that_arrives_twice_is_one_message(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    ts = peer.say("C1", f"<@{BOT}>: what is <https://a.example/x|this> &amp; that?")
    message = await inbox.until(1)
    await wait_until_finished(peer)
    assert (message.id, message.text, message.addressed) == (ts, "what is this (https://a.example/x) & that?", True)
    assert message.key == ConversationKey("slack", "C1", ts)
    assert inbox.repeated_ids == [ts]
    assert peer.deliveries.unknown_acknowledgements == []
    assert max(envelope.acknowledged_after for envelope in peer.deliveries.envelopes) < 10


async def test_direct_messages_are_addressed_and_chatter_is_not(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    peer.say("C1", "nice weather")
    peer.say("D1", "how do I install it?")
    await inbox.until(2)
    assert [(message.addressed, message.private, message.key.thread) for message in inbox.messages] == [
        (False, False, inbox.messages[0].id),
        (True, True, ""),
    ]


async def test_in_a_thread_only_a_mention_addresses_and_the_rest_may_follow(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox, threads: Threads
) -> None:
    root = peer.say("C1", "<@UBOT> first")
    threads.known_keys.add(ConversationKey("slack", "C1", root))
    peer.say("C1", "and on a Mac?", thread=root)
    peer.say("C1", "<@U2BOB> can you help?", thread=root)
    peer.say("C1", "<@U2BOB> asks, <@UBOT> answers", thread=root)
    await inbox.until(4)
    assert {message.key.thread for message in inbox.messages} == {root}
    assert [message.addressed for message in inbox.messages] == [True, False, False, True]
    assert [message.thread_state.is_shared for message in inbox.messages] == [None, True, False, False]
    assert [message.thread_state.in_main_chat for message in inbox.messages] == [True, False, False, False]
    assert all(message.thread_state.started_at is None for message in inbox.messages)


async def test_a_channel_is_called_what_slack_says_even_after_a_new_name(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    peer.channel_names["C1"] = "general"
    for count, channel in enumerate(("C1", "C1", "D1"), 1):
        peer.say(channel, f"what is it, {count}?")
        await inbox.until(count)
    assert [message.chat_title for message in inbox.messages] == ["#general", "#general", ""]
    assert len(peer.get_calls("conversations.info")) == 1
    peer.rename("C1", "help")
    peer.say("C1", "and now?")
    assert (await inbox.until(4)).chat_title == "#help"


async def test_without_a_scope_for_it_a_channel_has_no_name(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    peer.lacking.add("conversations.info")
    for count in (1, 2):
        peer.say("C1", f"what is it, {count}?")
        assert (await inbox.until(count)).chat_title == ""
    assert len(peer.get_calls("conversations.info")) == 1, "it would fail again"


async def test_a_channel_that_slack_could_not_name_gets_its_name_later(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.slack.channel_directory.PAUSE_S", 0.2)
    peer.channel_names["C1"] = "general"
    peer.fail("conversations.info", "internal_error", status=500)
    for count in (1, 2):
        peer.say("C1", f"what is it, {count}?")
        assert (await inbox.until(count)).chat_title == ""
    assert len(peer.get_calls("conversations.info")) == 1, "nobody waits for it again at once"
    await asyncio.sleep(0.3)
    peer.say("C1", "and now?")
    assert (await inbox.until(3)).chat_title == "#general"


async def test_a_mention_in_a_thread_of_others_quotes_what_it_is_about(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    root = peer.say("C1", "the build fails with E12")
    peer.say("C1", "<@UBOT>", thread=root)
    message = await inbox.until(2)
    assert (message.text, message.quoted, message.reply_to) == ("", "the build fails with E12", root)


async def test_a_thread_that_began_before_the_bot_did_is_read_on_a_mention(peer: SlackPeer, tmp_path: Path) -> None:
    root = peer.write("C1", "the build fails with E12").ts
    peer.write("C1", "since when?", root)
    peer.write("C1", "a robot's word", root).extra_fields = {"bot_id": "B2"}
    peer.write("C1", "since 2.1", root)
    inbox = Inbox()
    async with listening(SlackAdapter(settings(peer, tmp_path), Threads().answered_in, PACE), inbox):
        peer.say("C1", "<@UBOT>", thread=root)
        message = await inbox.until(1)
        assert message.quoted == "the build fails with E12\n\nsince when?\n\nsince 2.1"
        # Who may not read it still has what was delivered.
        peer.lacking = {"conversations.replies"}
        peer.say("C1", "<@UBOT> and now?", thread=root)
        assert (await inbox.until(2)).quoted == ""


async def test_bots_are_ignored_whatever_they_are(peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox) -> None:
    peer.say("C1", "<@UBOT> hello", bot_id="B2")
    peer.say("C1", "<@UBOT> hello", subtype="bot_message")
    peer.say("D1", "an echo", user=BOT)
    peer.say("D1", "an echo", user=BOT, bot_id=BOT_ID)
    peer.event(
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "joined", "channel": "C1", "ts": "1.0"}
    )
    peer.event({"type": "assistant_thread_started", "assistant_thread": {}})
    await wait_until_finished(peer)
    assert inbox.messages == []
    assert adapter.skipped["written by a bot"] == 4
    assert adapter.skipped["written by ourselves"] == 2


async def test_an_edit_before_the_answer_is_read_and_a_preview_is_ignored(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    ts = peer.say("D1", "how do I intsall it?")
    peer.edit("D1", ts, "how do I install it?")
    edited_messages = await inbox.until(2)
    assert (edited_messages.id, edited_messages.text, edited_messages.is_edit) == (ts, "how do I install it?", True)


async def test_what_is_not_safe_is_not_acknowledged_and_comes_again(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    peer.deliveries.patience_s = 1.0
    inbox.refusals = 1
    peer.say("D1", "how do I install it?")
    await inbox.until(1)
    await wait_until_finished(peer)
    (envelope,) = peer.deliveries.envelopes
    assert len(envelope.attempts) >= 2
    assert len(inbox.messages) == 1


async def test_malformed_payloads_are_acknowledged_and_hold_nothing_up(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    for event in (None, [], "text", {}, {"type": "message", "text": "x", "user": "U1"}, {"type": "message", "ts": 7}):
        peer.event(event)
    peer.event({"type": "message", "subtype": "message_changed", "channel": "C1"})
    peer.event({"type": "message", "text": "x", "user": "U1", "channel": "C1", "ts": "noon"})
    for payload in ({}, {"type": "event_callback"}, [1], "text", None, {"event": 3}, {"command": "/kimas"}):
        peer.deliveries.deliver("events_api", payload)
    for socket in peer.deliveries.connections:
        for text in ("", "no json", "[]", '{"type": "surprise"}', '{"envelope_id": 5, "type": "events_api"}'):
            await socket.send_str(text)
    peer.say("D1", "still there?")
    await inbox.until(1)
    await wait_until_finished(peer)
    assert inbox.texts == ["still there?"]
    assert peer.deliveries.opened == 1


@pytest.mark.parametrize("break_kind", ["refresh_requested", "closed", "broken"])
async def test_a_lost_connection_is_replaced_and_nothing_is_lost(
    peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox, break_kind: str
) -> None:
    peer.say("D1", "one")
    await inbox.until(1)
    peer.deliveries.patience_s = 1.0
    if break_kind == "broken":
        peer.deliveries.abort()
    else:
        await peer.deliveries.disconnect("refresh_requested" if break_kind == "refresh_requested" else "")
    peer.say("D1", "two")
    await inbox.until(2)
    await peer.wait_until(lambda: peer.deliveries.opened == 2, 30)
    assert inbox.texts == ["one", "two"]


async def test_an_address_that_went_stale_is_replaced_by_a_new_one(
    peer: SlackPeer, inbox: Inbox, threads: Threads, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = SlackAdapter(settings(peer, tmp_path), threads.answered_in, PACE)
    await adapter.open()
    peer.expire_tickets()
    task = asyncio.create_task(adapter.listen(inbox.receive))
    peer.say("D1", "hello")
    await inbox.until(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await adapter.close()
    await adapter.close()
    assert len(peer.get_calls("apps.connections.open")) == 2
    assert "the connection to Slack broke" in caplog.text
    assert "ticket=" not in caplog.text


@pytest.mark.parametrize("which", ["bot", "app"])
async def test_a_wrong_token_is_named(peer: SlackPeer, threads: Threads, tmp_path: Path, which: str) -> None:
    wrong_token = "xoxb-wrong-and-secret"
    adapter = SlackAdapter(settings(peer, tmp_path, **{which: wrong_token}), threads.answered_in, PACE)
    with pytest.raises(PlatformError, match=rf"slack\.{which}_token was refused") as error_info:
        await adapter.open()
    assert wrong_token not in str(error_info.value)
    with pytest.raises(PlatformError, match="not open"):
        await adapter.listen(Inbox().receive)


async def test_an_app_token_revoked_later_ends_the_listening(
    peer: SlackPeer, inbox: Inbox, threads: Threads, tmp_path: Path
) -> None:
    adapter = SlackAdapter(settings(peer, tmp_path), threads.answered_in, PACE)
    await adapter.open()
    task = asyncio.create_task(adapter.listen(inbox.receive))
    await peer.wait_until(lambda: peer.deliveries.opened == 1, 30)
    peer.app_token = "xapp-another"
    await peer.deliveries.disconnect()
    with pytest.raises(PlatformError, match=r"slack\.app_token was refused"):
        await asyncio.wait_for(task, 30)
    await adapter.close()


async def test_the_start_waits_for_slack_to_come_up(peer: SlackPeer, threads: Threads, tmp_path: Path) -> None:
    peer.fail("auth.test", status=503, body="<html>", times=1)
    peer.fail("auth.test", drop="before")
    peer.fail("auth.test", "ratelimited", status=429)
    peer.fail("apps.connections.open", "internal_error")
    adapter = SlackAdapter(settings(peer, tmp_path), threads.answered_in, PACE)
    await adapter.open()
    await adapter.close()
    assert len(peer.get_calls("auth.test")) == 4
    assert (await diagnose(settings(peer, tmp_path), Scope())).identity == "kimas in Rocket"


async def test_a_command_is_acknowledged_at_once(peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox) -> None:
    texts = ["ask How do I install it?", "How do I install it?", "help", "", "ask"]
    envelopes = []
    for number, text in enumerate(texts):
        envelopes.append(peer.command(text))
        await inbox.until(number + 1)
    await wait_until_finished(peer)
    assert [(message.command, message.text) for message in inbox.messages] == [
        *[("ask", "How do I install it?")] * 2,
        *[("help", "")] * 2,
        ("ask", ""),
    ]
    assert all(message.addressed and message.key.chat == "C1" for message in inbox.messages)
    assert [envelope.answer for envelope in envelopes] == [*["Looking it up…"] * 2, "", "", "Looking it up…"]
    assert max(envelope.acknowledged_after for envelope in envelopes) < 10


async def test_over_http_signed_requests_are_taken(peer: SlackPeer, over_http: SlackAdapter, inbox: Inbox) -> None:
    peer.say("C1", "<@UBOT> what is it?")
    envelope = peer.command("ask What is it?")
    await inbox.until(2)
    await wait_until_finished(peer)
    assert {message.text for message in inbox.messages} == {"what is it?", "What is it?"}
    assert envelope.answer == "Looking it up…"
    assert len(inbox.repeated_ids) == 1
    challenge = json.dumps({"type": "url_verification", "challenge": "c-1", "token": "old"})
    status, answer = await peer.deliveries.request(challenge, **{"Content-Type": "application/json"})
    assert (status, json.loads(answer)) == (200, {"challenge": "c-1"})
    assert peer.get_calls("apps.connections.open") == []


async def test_over_http_what_is_not_safe_comes_again_and_is_one_message(
    peer: SlackPeer, over_http: SlackAdapter, inbox: Inbox
) -> None:
    peer.deliveries.patience_s = 1.0
    inbox.refusals = 1
    peer.say("D1", "hello")
    await inbox.until(1)
    await wait_until_finished(peer)
    assert peer.deliveries.refused == [500]
    peer.deliveries.deliver("events_api", peer.deliveries.envelopes[0].payload)
    await wait_until_finished(peer)
    assert len(inbox.messages) == 1


async def test_over_http_forged_old_and_malformed_requests_are_refused(
    peer: SlackPeer, over_http: SlackAdapter, inbox: Inbox
) -> None:
    event = {"type": "message", "channel": "D1", "user": "U1", "text": "hi", "ts": "1.0"}
    body = json.dumps({"type": "event_callback", "event": event})
    request = peer.deliveries.request
    kind = {"Content-Type": "application/json"}
    assert (await request(body, secret="another", **kind))[0] == 401
    assert (await request(body, at=int(time.time()) - 400, **kind))[0] == 401
    assert (await request(body, at=int(time.time()) + 400, **kind))[0] == 401
    assert (await request(body, **kind, **{"X-Slack-Signature": ""}))[0] == 401
    assert (await request(body, **kind, **{"X-Slack-Request-Timestamp": "noon"}))[0] == 401
    for malformed in ("{", "[]", "payload=%7B", '"text"'):
        assert (await request(malformed, **kind))[0] in (400, 401)
    assert (await request("payload=", **{"Content-Type": "application/x-www-form-urlencoded"}))[0] in (200, 400)
    assert inbox.messages == []
    assert (await request(body, **kind))[0] == 200
    assert inbox.texts == ["hi"]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain; charset=punycode", b"a" * 4_000_000),
        ("application/x-www-form-urlencoded", b"a&" * 2_000_000),
        ("application/json", b"[" + b"[]," * 1_300_000 + b"[]]"),
        ("application/json", b"[" * 4_000_000),
        ("application/json; charset=utf-16", b"\xff\xfe" + b"\x00\xd8" * 2_000_000),
    ],
    ids=["character set", "form", "values", "depth", "no text"],
)
@pytest.mark.parametrize("at", ["now", "9" * 5000, "\u0663"], ids=["now", "endless", "digit"])
async def test_over_http_nothing_is_parsed_before_it_is_known_to_be_slack_s(
    peer: SlackPeer, over_http: SlackAdapter, inbox: Inbox, content_type: str, body: bytes, at: str
) -> None:
    headers = {
        "Content-Type": content_type,
        "X-Slack-Request-Timestamp": str(int(time.time())) if at == "now" else at,
        "X-Slack-Signature": "v0=" + "0" * 64,
    }
    async with aiohttp.ClientSession() as session:
        began_at = time.thread_time()
        async with session.post(peer.deliveries.target, data=io.BytesIO(body), headers=headers) as response:
            assert response.status == 401
        assert time.thread_time() - began_at < 1.0
    assert inbox.messages == []


@pytest.mark.parametrize("letter", ["\u4e2d", ",", "\\"])
async def test_long_messages_of_members_hide_no_thread_and_no_answer(
    peer: SlackPeer, adapter: SlackAdapter, letter: str
) -> None:
    """So many of them that a page is too large to be read at once: smaller pages are asked for."""
    root = peer.say("C1", "What is it?")
    for _ in range(30):
        peer.say("C1", letter * 39_000, thread=root)
        peer.say("C1", letter * 39_000)
    client = adapter._get_client()
    own_posts = [await client.post("C1", thread, "So.", label="k/1") for thread in (root, None)]
    began_at = time.thread_time()
    timestamps = [await client.find_own("C1", thread, root, "k/1") for thread in (root, None)]
    messages = await client.read_thread("C1", root, own_posts[0])
    assert time.thread_time() - began_at < 3.0, "the peer's time is in it, which writes all that is read"
    assert timestamps == own_posts
    assert (messages[0]["ts"], len(messages)) == (root, 31)
    limits = {int(call.parameters["limit"]) for call in peer.calls if "limit" in call.parameters}
    assert (min(limits) < 200) is (letter == "\u4e2d"), "four megabytes are read at once"


async def test_over_http_a_body_that_does_not_come_is_given_up(
    peer: SlackPeer, over_http: SlackAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "READ_TIMEOUT_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", over_http.port)
    writer.write(b"POST /slack/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    async with asyncio.timeout(30):
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_a_port_that_is_taken_is_told(
    peer: SlackPeer, over_http: SlackAdapter, threads: Threads, tmp_path: Path
) -> None:
    slack_settings = settings(peer, tmp_path, http=True).model_copy(update={"port": over_http.port})
    second = SlackAdapter(slack_settings, threads.answered_in, PACE)
    await second.open()
    with pytest.raises(PlatformError, match=r"slack\.host and slack\.port cannot be listened on"):
        await asyncio.wait_for(second.listen(Inbox().receive), 30)
    await second.close()


async def test_the_bot_is_known_as_a_member_and_as_an_app(peer: SlackPeer, adapter: SlackAdapter) -> None:
    """The answer to a slash command names no user."""
    assert adapter.author_ids == {peer.bot, peer.bot_id}
