"""The gateway and the reading of channels against a strict server: nothing is lost, doubled, or waited for in vain."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bots.common.diagnosis import Scope
from bots.discord.adapter import DiscordAdapter
from bots.discord.diagnosis import diagnose
from bots.discord.forwards import MAX_FORWARDS
from core.errors import PlatformError
from core.messaging.feedback.handoff import ASK_ABOUT_THIS
from core.types import Message
from tests.support.discord_helpers import PACE, Inbox, Positions, listening, settings
from tests.support.peers.discord import PRIVATE, Author, DiscordPeer
from tests.support.peers.discord_gateway import HEARTBEAT, INVALID, RECONNECT
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

GROUP = 3
OTHER_BOT = Author("2001", "echo", "Echo", bot=True)
BEA = Author("1002", "bea", "Bea")
Make = Callable[..., DiscordAdapter]


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer:
        # A busy machine is late with its heartbeats; another test looks at those.
        peer.gateway.beat_ms = 5000
        yield peer


@pytest.fixture
def positions() -> Positions:
    return Positions()


@pytest.fixture
def make(peer: DiscordPeer, positions: Positions, tmp_path: Path) -> Make:
    return lambda **changes: DiscordAdapter(settings(peer, tmp_path, **changes), positions, PACE)


async def test_open_registers_the_commands_and_close_is_idempotent(peer: DiscordPeer, make: Make) -> None:
    adapter = make()
    await adapter.open()
    await adapter.close()
    await adapter.close()
    names = [command["name"] for command in peer.commands]
    assert names[:2] == ["ask", "help"]
    assert "start" not in names
    assert peer.commands[0]["options"][0]["required"]


async def test_identify_changes_nothing(peer: DiscordPeer, tmp_path: Path) -> None:
    assert (await diagnose(settings(peer, tmp_path), Scope())).identity == "kimas"
    assert {call.name for call in peer.calls} == {"GET /users/@me", "GET /oauth2/applications/@me"}


@pytest.mark.parametrize("token", ["wrong", "Bot MTAwMDA.tests.a-token-for-tests", "ä", "a.b.c"])
async def test_a_wrong_token_is_named_with_the_way_out(peer: DiscordPeer, tmp_path: Path, token: str) -> None:
    with pytest.raises(PlatformError, match=r"discord\.token was refused.*Reset Token") as error_info:
        await diagnose(settings(peer, tmp_path, token), Scope())
    assert token == "a.b.c" or token not in str(error_info.value).replace("the word Bot", "")


async def test_a_missing_token_is_named(peer: DiscordPeer, tmp_path: Path) -> None:
    discord_settings = settings(peer, tmp_path)
    (tmp_path / "token").unlink()
    with pytest.raises(PlatformError, match=r"discord\.token cannot be read"):
        await diagnose(discord_settings, Scope())


async def test_what_is_said_in_channels_threads_and_private(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    forum = peer.channel(15)
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        first = await peer.say(channel_id, f"{peer.mention}, what is it?")
        await peer.say(channel_id, "nice weather")
        thread = await peer.thread(forum)
        await peer.say(thread, f"<@!{peer.me.id}> and <@1001> here?")
        await peer.say(peer.channel(private=True), "hello?")
        await peer.say(channel_id, f"<@&{peer.role}> all of you?")
        await inbox.until(5)
    message, chatter, post, private, role = inbox.messages
    assert (message.id, message.text, message.addressed, message.private) == (first, "what is it?", True, False)
    assert (message.key.platform, message.key.chat, message.key.thread) == ("discord", channel_id, "")
    assert (message.author, message.author_id, message.bot) == ("Ann", "1001", peer.me.id)
    assert abs(message.sent_at.timestamp() - time.time()) < 60
    assert not chatter.addressed
    assert (post.key.chat, post.key.thread, post.addressed, post.text) == (forum, thread, True, "and @Ann here?")
    assert (private.private, private.addressed, private.text) == (True, True, "hello?")
    assert (role.addressed, role.text) == (True, "all of you?")
    assert not peer.get_calls("GET /channels/{}"), "the gateway said it all"


async def test_a_reply_is_addressed_and_quotes(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        ours = await peer.say(channel_id, "It is a *library*.", author=peer.me)
        hers = await peer.say(channel_id, "the error says E42", author=BEA)
        await peer.say(channel_id, "which one?", reply_to=ours)
        await peer.say(channel_id, "no idea", reply_to=hers)
        await peer.say(channel_id, f"{peer.mention}", reply_to=hers)
        await inbox.until(4)
    _, to_us, to_her, about_hers = inbox.messages
    assert (to_us.addressed, to_us.reply_to, to_us.quoted) == (True, ours, "It is a *library*.")
    assert (to_her.addressed, to_her.quoted) == (False, "the error says E42")
    assert (about_hers.addressed, about_hers.text, about_hers.quoted) == (True, "", "the error says E42")
    found = [message.quoted_authors for message in (to_us, to_her, about_hers)]
    assert found == [(peer.me.id,), (BEA.id,), (BEA.id,)]


async def test_bots_webhooks_and_service_messages_are_ignored(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    adapter = make()
    inbox = Inbox()
    async with listening(peer, adapter, inbox.receive):
        await peer.say(channel_id, f"{peer.mention} loop?", author=OTHER_BOT)
        await peer.say(channel_id, f"{peer.mention} loop?", webhook=True)
        await peer.say(channel_id, f"{peer.mention} loop?", author=peer.me)
        await peer.say(channel_id, "joined", kind=7)
        await peer.say(channel_id, "")
        await peer.say(channel_id, "real")
        await inbox.until(1)
    assert inbox.texts == ["real"]
    assert adapter.skipped["written by a bot"] == 2
    assert adapter.skipped["written by a webhook"] == 1
    assert adapter.skipped["a service message"] == 1


async def test_what_a_thread_was_opened_below_is_quoted_to_the_first_question(peer: DiscordPeer, make: Make) -> None:
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        channel_id = peer.channel()
        alert = await peer.say(channel_id, "", author=OTHER_BOT, embeds=[{"title": "Down", "description": "db-1"}])
        thread = await peer.thread(channel_id, below=alert)
        await peer.say(thread, "hm")
        await peer.say(thread, f"<@{peer.me.id}> what does this mean?")
        await peer.say(thread, f"<@{peer.me.id}> and now?")
        other_thread = await peer.thread(channel_id)
        await peer.say(other_thread, f"<@{peer.me.id}> below nothing")
        ours = await peer.say(channel_id, "It is numbat.", author=peer.me)
        await peer.say(await peer.thread(channel_id, below=ours), f"<@{peer.me.id}> is it?")
        await until(lambda: len(inbox.messages) == 5)
    assert [message.quoted for message in inbox.messages] == ["", "Down\ndb-1", "", "", "It is numbat."]
    # Whose words it brings: they are forgotten with them.
    assert [message.quoted_authors for message in inbox.messages] == [(), (OTHER_BOT.id,), (), (), (peer.me.id,)]


async def test_a_forward_is_of_who_wrote_it_there(peer: DiscordPeer, make: Make) -> None:
    """Discord names nobody; what the bot may not read, or is deleted, is nobody's."""
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        channel_id, closed, hidden = (peer.channel() for _ in range(3))
        peer.channels[hidden].lacking.add("view")
        ours = await peer.say(closed, "It is numbat.", author=peer.me)
        hers = await peer.say(closed, "It is wombat.", author=BEA)
        unseen = await peer.say(hidden, "It is koala.", author=BEA)
        forwards = []
        for channel, original in ((closed, ours), (closed, hers), (hidden, unseen), (hidden, unseen), (closed, "5")):
            reference = {"type": 1, "channel_id": channel, "message_id": original}
            snapshots = [{"message": {"content": "It is an animal."}}]
            forward = {"message_reference": reference, "message_snapshots": snapshots}
            forwards.append(await peer.say(channel_id, "", author=BEA, **forward))
        await peer.say(channel_id, f"{peer.mention} what does this mean?", reply_to=forwards[0])
        await peer.say(channel_id, f"{peer.mention} and this?", reply_to=forwards[2])
        thread = await peer.thread(channel_id, below=forwards[0])
        await peer.say(thread, f"{peer.mention} what is it?")
        await inbox.until_true(lambda: len([item for item in inbox.messages if item.addressed]) == 3)
    found = [item.quoted_authors for item in inbox.messages if "animal" in item.quoted]
    assert found == [(peer.me.id,), (BEA.id,), (), (), (), (peer.me.id,), (BEA.id,), (peer.me.id,)]
    statuses = [call.status for call in peer.get_calls("GET /channels/{}/messages/{}")]
    assert statuses.count(403) == 1, "what was refused is not asked for again"


@pytest.mark.parametrize(("depth", "is_known"), [(2, True), (MAX_FORWARDS, True), (MAX_FORWARDS + 1, False)])
async def test_a_forward_of_forwards_is_of_who_wrote_the_first(
    peer: DiscordPeer, make: Make, depth: int, is_known: bool
) -> None:
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        closed, channel_id = peer.channel(), peer.channel()
        original = await peer.say(closed, "It is numbat.", author=peer.me)
        for number in range(depth):
            channel = channel_id if number == depth - 1 else closed
            reference = {"type": 1, "channel_id": closed, "message_id": original}
            snapshots = [{"message": {"content": "It is numbat."}}]
            forward = {"message_reference": reference, "message_snapshots": snapshots}
            original = await peer.say(channel, "", author=BEA, **forward)
        await inbox.until_true(lambda: any(item.key.chat == channel_id for item in inbox.messages))
    [found] = [item for item in inbox.messages if item.key.chat == channel_id]
    assert found.quoted_authors == ((peer.me.id,) if is_known else ())


async def test_a_command_in_the_menu_of_a_forward_is_about_who_wrote_it(peer: DiscordPeer, make: Make) -> None:
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        channel_id, closed = peer.channel(), peer.channel()
        ours = await peer.say(closed, "It is numbat.", author=peer.me)
        reference = {"type": 1, "channel_id": closed, "message_id": ours}
        snapshots = [{"message": {"content": "It is numbat."}}]
        forward = await peer.say(channel_id, "", author=BEA, message_reference=reference, message_snapshots=snapshots)
        await peer.choose(channel_id, forward, ASK_ABOUT_THIS)
        await inbox.until_true(lambda: any(item.command == "ask" for item in inbox.messages))
    [asked] = [item for item in inbox.messages if item.command == "ask"]
    assert (asked.quoted, asked.quoted_authors) == ("It is numbat.", (peer.me.id,))


async def test_in_a_thread_mentions_and_replies_address_and_the_rest_may_follow(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        thread = await peer.thread(channel_id)
        ours = await peer.say(thread, "an answer", author=peer.me)
        await peer.say(thread, "and on Windows?")
        await peer.say(thread, "<@1002> do you know?")
        hers = await peer.say(thread, "yes", author=BEA)
        await peer.say(thread, "thanks Bea", reply_to=hers)
        await peer.say(thread, "right", reply_to=ours)
        await inbox.until(5)
    assert [message.addressed for message in inbox.messages] == [False, False, False, False, True]
    assert [message.thread_state.is_shared for message in inbox.messages] == [True, False, True, False, True]
    later_inbox = Inbox()
    async with listening(peer, make(follow_threads=False), later_inbox.receive):
        await peer.say(thread, "switched off?")
        await later_inbox.until(1)
    assert later_inbox.messages[-1].thread_state.is_shared is False


async def test_edits_are_handed_on_and_unfolded_links_are_not(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        number = await peer.say(channel_id, f"{peer.mention} how?")
        await peer.edit(channel_id, number, f"{peer.mention} how?", silently=True)
        await peer.edit(channel_id, number, f"{peer.mention} how on Linux?")
        await inbox.until_true(lambda: bool(inbox.edits))
    assert [(edit.id, edit.text) for edit in inbox.edits] == [(number, "how on Linux?")]


async def test_a_short_break_is_resumed_without_loss(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        await peer.say(channel_id, "one")
        await inbox.until(1)
        peer.gateway.drop()
        await peer.say(channel_id, "two")
        await inbox.until(2)
        await peer.gateway.tell(RECONNECT)
        await peer.say(channel_id, "three")
        await inbox.until(3)
        await peer.gateway.tell(INVALID, True)
        await peer.say(channel_id, "four")
        await inbox.until(4)
        await peer.gateway.tell(HEARTBEAT)
    assert inbox.texts == ["one", "two", "three", "four"]
    assert (peer.gateway.identified, peer.gateway.resumed, inbox.twice) == (1, 3, 0)


async def test_a_lost_session_is_caught_up_from_the_history(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        await peer.say(channel_id, "one")
        await inbox.until(1)
        peer.gateway.forget()
        peer.gateway.drop()
        await peer.say(channel_id, "two")
        await inbox.until(2)
        await peer.wait_until(lambda: peer.gateway.identified == 2, 30)
        await peer.gateway.tell(INVALID, False)
        await peer.say(channel_id, "three")
        await inbox.until(3)
    assert inbox.texts == ["one", "two", "three"]
    assert peer.gateway.identified == 3


async def test_after_a_restart_every_channel_is_read_on(peer: DiscordPeer, make: Make, positions: Positions) -> None:
    channel_id = peer.channel()
    unread_channel = peer.channel()
    private = peer.channel(private=True)
    old_message = await peer.say(channel_id, f"{peer.mention} before the bot ever ran?", at=time.time() - 60)
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        await peer.say(channel_id, "one")
        await peer.say(private, "two")
        await inbox.until(2)
        thread = await peer.thread(channel_id)
        await peer.say(thread, "three")
        await inbox.until(3)
    for n in range(130):
        await peer.say(channel_id, f"missed {n}")
    await peer.say(unread_channel, "in a channel never seen")
    await peer.say(private, "in private")
    await peer.say(thread, "in a thread")
    await peer.say(channel_id, f"{peer.mention} edited", edited_timestamp="2026-01-01T00:00:00+00:00")
    later_inbox = Inbox()
    async with listening(peer, make(), later_inbox.receive):
        await later_inbox.until(134)
        await peer.say(channel_id, "live")
        await later_inbox.until(135)
    assert [
        message.text for message in later_inbox.messages if message.key.chat == channel_id and not message.key.thread
    ] == [
        *(f"missed {n}" for n in range(130)),
        "edited",
        "live",
    ]
    assert {"in a channel never seen", "in private", "in a thread"} <= set(later_inbox.texts)
    assert later_inbox.twice == 0
    assert old_message not in [message.id for message in [*inbox.messages, *later_inbox.messages]]
    third = Inbox()
    async with listening(peer, make(), third.receive):
        await peer.say(channel_id, "only this")
        await third.until(1)
    assert third.texts == ["only this"]


async def test_a_private_chat_begun_during_an_outage_is_read_from_its_start(
    peer: DiscordPeer, make: Make, positions: Positions
) -> None:
    async with listening(peer, make(), Inbox().receive):
        pass
    private = peer.channel(private=True)
    await peer.say(private, "asked while nobody was there")
    await peer.say(private, "and again")
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        await peer.say(private, "hello?")
        await inbox.until(3)
        await peer.say(private, "live")
        await inbox.until(4)
    assert inbox.texts == ["asked while nobody was there", "and again", "hello?", "live"]
    assert inbox.twice == 0
    assert len(peer.get_calls("GET /channels/{}/messages")) == 1, "its history is read once"


async def test_a_group_conversation_is_never_private(peer: DiscordPeer, make: Make) -> None:
    """Nor after a restart, which reads what was missed in the chats of which it kept the ids alone."""
    private = peer.channel(private=True)
    group = peer.channel(private=True)
    peer.channels[group].kind = GROUP
    async with listening(peer, make(), Inbox().receive):
        pass
    for _ in range(2):
        inbox = Inbox()
        await peer.say(group, "among others")
        await peer.say(private, "alone")
        async with listening(peer, make(), inbox.receive):
            await peer.say(group, "among others, live")
            await peer.say(private, "alone, live")
            await inbox.until(4)
        assert {message.text: message.private for message in inbox.messages} == {
            "among others": False,
            "among others, live": False,
            "alone": True,
            "alone, live": True,
        }


async def test_a_new_private_chat_is_heard_where_nothing_is_caught_up(peer: DiscordPeer, make: Make) -> None:
    private = peer.channel(private=True)
    inbox = Inbox()
    async with listening(peer, make(catch_up_hours=0), inbox.receive):
        await peer.say(private, "one")
        await peer.say(private, "two")
        await inbox.until(2)
    assert inbox.texts == ["one", "two"]


async def test_a_message_during_a_history_fetch_hides_none_before_it(peer: DiscordPeer, make: Make) -> None:
    private = peer.channel(private=True)
    inbox = Inbox()
    peer.history_open.clear()
    async with listening(peer, make(catch_up_hours=0), inbox.receive):
        await peer.say(private, "one")
        await peer.wait_until(lambda: peer.history_requests == 1, 30)
        await peer.say(private, "two")
        peer.history_open.set()
        await inbox.until(2)
        await peer.say(private, "three")
        await inbox.until(3)
    assert inbox.texts == ["one", "two", "three"]
    assert inbox.twice == 0
    assert peer.history_requests == 1


async def test_a_new_private_chat_is_read_on_where_a_position_could_not_be_saved(
    peer: DiscordPeer, make: Make, positions: Positions
) -> None:
    async with listening(peer, make(), Inbox().receive):
        pass
    private = peer.channel(private=True)
    inbox = Inbox()
    for text in ("one", "two", "three"):
        await peer.say(private, text)

    async def receive(message: Message) -> None:
        positions.refusals = int(message.text == "two" and "two" not in inbox.texts)
        await inbox.receive(message)

    async with listening(peer, make(), receive):
        await peer.say(private, "four")
        await inbox.until(4)
    assert inbox.texts == ["one", "two", "three", "four"]


async def test_what_is_too_old_is_not_read(peer: DiscordPeer, make: Make, positions: Positions) -> None:
    channel_id = peer.channel()
    positions.saved[f"{peer.me.id}:since"] = 1
    await peer.say(channel_id, "yesterday?", at=time.time() - 7200)
    await peer.say(channel_id, "just now?", at=time.time() - 60)
    inbox = Inbox()
    async with listening(peer, make(catch_up_hours=1), inbox.receive):
        await inbox.until(1)
        await peer.say(channel_id, "live")
        await inbox.until(2)
    assert inbox.texts == ["just now?", "live"]
    none = Inbox()
    await peer.say(channel_id, "missed")
    async with listening(peer, make(catch_up_hours=0), none.receive):
        await peer.say(channel_id, "live again")
        await none.until(1)
    assert none.texts == ["live again"]


async def test_killed_while_receiving_it_is_read_again(peer: DiscordPeer, make: Make) -> None:
    channel_id = peer.channel()
    start_event = asyncio.Event()

    async def hang(_: object) -> None:
        start_event.set()
        await asyncio.Event().wait()

    async with listening(peer, make(), hang):
        await peer.say(channel_id, "one")
        await asyncio.wait_for(start_event.wait(), 30)
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        await inbox.until(1)
    assert inbox.texts == ["one"]


async def test_a_failing_receiver_or_position_holds_everything_back(
    peer: DiscordPeer, make: Make, positions: Positions
) -> None:
    channel_id = peer.channel()
    inbox = Inbox()
    inbox.refusals = 3
    async with listening(peer, make(), inbox.receive):
        await peer.say(channel_id, "one")
        positions.refusals = 2
        await peer.say(channel_id, "two")
        await inbox.until(2)
    assert inbox.texts == ["one", "two"]


async def test_malformed_events_lose_no_others(peer: DiscordPeer, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    channel_id = peer.channel()
    adapter = make()
    inbox = Inbox()
    async with listening(peer, adapter, inbox.receive):
        await peer.say(channel_id, "one")
        await inbox.until(1)
        for event in (
            {},
            {"id": "x"},
            {"id": "1", "channel_id": channel_id, "author": {"id": 5}, "mentions": 7, "content": "x"},
        ):
            await peer.gateway.emit("MESSAGE_CREATE", event)
        await peer.gateway.emit("THREAD_CREATE", {"type": 11, "id": "4"})
        await peer.gateway.emit("GUILD_CREATE", {"id": "3", "channels": [{"id": None}]})
        await peer.gateway.emit("INTERACTION_CREATE", {"type": 2})
        await peer.gateway.emit("NEW_KIND", {"a": 1})
        await peer.say(channel_id, "two")
        await inbox.until(2)
        assert peer.gateway.identified == 1
        await peer.gateway.raw("{not json")
        await peer.say(channel_id, "three")
        await inbox.until(3)
        await peer.gateway.raw('{"op": 10, "d": null}')
        await peer.say(channel_id, "four")
        await inbox.until(4)
    assert inbox.texts == ["one", "two", "three", "four"]
    assert inbox.twice == 0
    assert adapter.skipped["malformed"] >= 4


@pytest.mark.parametrize("mishap", ["drop_after_hello", "malformed_hello", "refuse_handshakes"])
async def test_a_failed_handshake_is_tried_again(peer: DiscordPeer, make: Make, mishap: str) -> None:
    setattr(peer.gateway, mishap, 2)
    inbox = Inbox()
    channel_id = peer.channel()
    async with listening(peer, make(), inbox.receive):
        await peer.say(channel_id, "one")
        await inbox.until(1)
    assert len(peer.gateway.handshakes) >= 3


async def test_a_server_that_drops_every_connection_is_not_stormed(peer: DiscordPeer, make: Make) -> None:
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        started_at = time.monotonic()
        for _ in range(40):
            peer.gateway.drop()
            await asyncio.sleep(0.02)
        times = list(peer.gateway.handshakes)
        await peer.wait_until(lambda: len(peer.gateway.handshakes) >= 2, 30)
    # The pauses come to their longest soon, and are at least half as long as they may be.
    for count, at in enumerate(times):
        assert count <= 8 + (at - started_at) / (PACE.max_retry_s / 2)


async def test_no_more_sessions_than_discord_allows(peer: DiscordPeer, make: Make) -> None:
    peer.sessions_left = 0
    adapter = make()
    await adapter.open()
    task = asyncio.create_task(adapter.listen(Inbox().receive))
    await peer.wait_until(lambda: bool(peer.get_calls("GET /gateway/bot")), 30)
    await asyncio.sleep(0.4)
    assert peer.gateway.handshakes == []
    assert len(peer.get_calls("GET /gateway/bot")) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await adapter.close()


async def test_without_the_content_intent_it_goes_on_and_says_so(
    peer: DiscordPeer, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    peer.gateway.granted = 0
    channel_id = peer.channel()
    inbox = Inbox()
    with caplog.at_level(logging.WARNING, "bots"):
        async with listening(peer, make(), inbox.receive):
            await peer.say(channel_id, "not to be read")
            await peer.say(channel_id, f"{peer.mention} to be read")
            await peer.say(peer.channel(private=True), "and this")
            await inbox.until(2)
    assert inbox.texts == ["to be read", "and this"]
    assert "Message Content Intent" in caplog.text
    assert peer.gateway.closed == []


async def test_an_intent_taken_away_meanwhile_does_not_end_it(peer: DiscordPeer, make: Make) -> None:
    adapter = make()
    await adapter.open()
    peer.gateway.granted = 0
    inbox = Inbox()
    task = asyncio.create_task(adapter.listen(inbox.receive))
    await peer.connected()
    assert peer.gateway.closed == [4014]
    await peer.say(peer.channel(private=True), "hello")
    await inbox.until(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await adapter.close()


async def test_a_token_that_was_reset_ends_it(peer: DiscordPeer, make: Make) -> None:
    adapter = make()
    await adapter.open()
    peer.token = "MTAwMDA.another.one"
    peer.gateway.token = "MTAwMDA.another.one"
    with pytest.raises(PlatformError, match=r"discord\.token was refused"):
        await asyncio.wait_for(adapter.listen(Inbox().receive), 30)
    await adapter.close()


async def test_one_refusal_of_a_good_token_does_not_end_it(peer: DiscordPeer, make: Make) -> None:
    peer.gateway.close_with = [4004]
    channel_id = peer.channel()
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        await peer.say(channel_id, "still here")
        await inbox.until(1)
    assert peer.gateway.identified == 2


async def test_a_refusal_for_good_is_said(peer: DiscordPeer, make: Make) -> None:
    peer.gateway.close_with = [4011]
    adapter = make()
    await adapter.open()
    with pytest.raises(PlatformError, match="2,500"):
        await asyncio.wait_for(adapter.listen(Inbox().receive), 30)
    await adapter.close()


async def test_open_waits_for_the_network_and_says_so_once(
    peer: DiscordPeer, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    peer.fail("GET /users/@me", drop="before", times=2)
    peer.fail("GET /users/@me", 500)
    peer.fail("GET /users/@me", 429, body={"retry_after": 0.1, "global": True}, headers={"Via": "1.1 google"})
    adapter = make()
    with caplog.at_level(logging.INFO, "bots"):
        await adapter.open()
    assert len(peer.get_calls("GET /users/@me")) == 5
    assert caplog.text.count("discord.opening_stopped") == 2, "one line per kind of failure"
    assert "discord.opening_resumed" in caplog.text
    await adapter.close()


async def test_commands_that_cannot_be_registered_do_not_stop_it(peer: DiscordPeer, make: Make) -> None:
    peer.fail("PUT /applications/{}/commands", 400, body={"message": "no", "code": 30034})
    adapter = make()
    await adapter.open()
    await adapter.close()
    assert peer.commands == []


async def test_heartbeats_go_on_and_a_silent_gateway_is_left(peer: DiscordPeer, make: Make) -> None:
    peer.gateway.beat_ms = 60
    async with listening(peer, make(), Inbox().receive):
        await until(lambda: peer.gateway.beats >= 5)
    assert peer.gateway.closed == []


async def test_no_error_and_no_log_line_holds_the_token(
    peer: DiscordPeer, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "bots"):
        peer.fail("GET /gateway/bot", 500, body="<html>", times=1)
        peer.gateway.drop_after_hello = 1
        async with listening(peer, make(), Inbox().receive):
            peer.gateway.forget()
            peer.gateway.drop()
            await peer.connected()
    assert "discord." in caplog.text
    assert peer.token not in caplog.text


async def test_nothing_is_left_behind(peer: DiscordPeer, make: Make) -> None:
    tasks_before = asyncio.all_tasks()

    def remaining_tasks() -> set[asyncio.Task[Any]]:
        return {
            task for task in asyncio.all_tasks() - tasks_before if "adapter" in repr(task) or "discord.py" in repr(task)
        }

    async with listening(peer, make(), Inbox().receive):
        await peer.say(peer.channel(), "one")
        assert remaining_tasks(), "it works in tasks of its own"
    peer.gateway.drop()
    await until(lambda: not remaining_tasks())
    alive = {thread for thread in threading.enumerate() if thread.name.startswith("keep-alive")}
    await until(lambda: not any(thread.is_alive() for thread in alive))
    assert remaining_tasks() == set()
    assert not [thread.name for thread in alive if thread.is_alive()]


async def test_an_unknown_channel_is_asked_for_once(peer: DiscordPeer, make: Make) -> None:
    inbox = Inbox()
    channel_id = peer.channel()
    async with listening(peer, make(), inbox.receive):
        late_channel = peer.channel(parent=channel_id)
        await peer.say(late_channel, f"{peer.mention} one")
        await peer.say(late_channel, f"{peer.mention} two")
        await inbox.until(2)
    assert [(message.key.chat, message.key.thread) for message in inbox.messages] == [(channel_id, late_channel)] * 2
    assert len(peer.get_calls("GET /channels/{}")) == 1
    assert peer.channels[late_channel].kind != PRIVATE


async def test_hidden_channels_are_asked_for_once_and_outages_lose_nothing(
    peer: DiscordPeer, make: Make, positions: Positions
) -> None:
    positions.saved[f"{peer.me.id}:since"] = 1
    channel_ids = [peer.channel() for _ in range(20)]
    for channel_id in channel_ids:
        await peer.say(channel_id, f"missed in {channel_id}")
    peer.channels[channel_ids[3]].lacking.add("view")
    data = {"message": "You are being rate limited.", "retry_after": 0.05, "global": True}
    peer.fail("GET /channels/{}/messages", 429, times=3, body=data, headers={"Via": "1.1 google"})
    peer.fail("GET /channels/{}/messages", drop="before", times=2)
    inbox = Inbox()
    async with listening(peer, make(), inbox.receive):
        await inbox.until(19)
        refused_calls = [call for call in peer.get_calls("GET /channels/{}/messages") if call.status == 403]
        await peer.gateway.tell(INVALID, False)
        await peer.say(channel_ids[0], "live")
        await inbox.until(20)
        assert len([call for call in peer.get_calls("GET /channels/{}/messages") if call.status == 403]) == len(
            refused_calls
        )
    assert len(refused_calls) == 1
    assert inbox.twice == 0
