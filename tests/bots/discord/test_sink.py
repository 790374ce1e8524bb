"""One reply against a strict server: replies, edits, limits, slash commands, and everything that Discord may refuse."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bots.discord.adapter import DiscordAdapter
from bots.discord.sink import DiscordSink
from core.errors import MessageDeleted, PlatformError, StoreError
from core.types import Citation, Message, Reply
from tests.support.discord_helpers import PACE, Inbox, Positions, listening, settings
from tests.support.peers.discord import DiscordPeer, Interaction
from tests.support.sink_helpers import DeliveryLog, update_until, update_until_stopped
from tests.support.waiting import until

SEND = "POST /channels/{}/messages"
EDIT = "PATCH /channels/{}/messages/{}"
TYPING = "POST /channels/{}/typing"
RESPOND = "PATCH /webhooks/{}/{}/messages/@original"
DEFER = "POST /interactions/{}/{}/callback"
WITHDRAW = "DELETE /webhooks/{}/{}/messages/@original"
CITED = (Citation(1, "p1", "docs", "Install", "docs/install.md", "https://example.org/install"),)


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer:
        # A busy machine is late with its heartbeats and acknowledgements; other tests look at those.
        peer.gateway.beat_ms = 5000
        peer.acknowledge_s = 30
        yield peer


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
async def adapter(peer: DiscordPeer, inbox: Inbox, tmp_path: Path) -> AsyncIterator[DiscordAdapter]:
    adapter = DiscordAdapter(settings(peer, tmp_path), Positions(), PACE)
    async with listening(peer, adapter, inbox.receive):
        yield adapter


@pytest.fixture
def delivery_log() -> DeliveryLog:
    return DeliveryLog()


@pytest.fixture
async def channel_id(peer: DiscordPeer, adapter: DiscordAdapter) -> str:
    return peer.channel()


Ask = Callable[..., Awaitable[DiscordSink]]
Command = Callable[..., Awaitable[tuple[DiscordSink, Interaction]]]


@pytest.fixture
def ask(peer: DiscordPeer, adapter: DiscordAdapter, inbox: Inbox, delivery_log: DeliveryLog, channel_id: str) -> Ask:
    """Have somebody ask and return the sink for the answer."""

    async def open_sink(channel: str = channel_id, *, previous: str = "") -> DiscordSink:
        number = await peer.say(channel, f"{peer.mention} what is it?")
        await inbox.until_true(lambda: any(item.id == number for item in inbox.messages))
        message = next(item for item in inbox.messages if item.id == number)
        return adapter.sink(message, delivery_log, previous)

    return open_sink


@pytest.fixture
def command(
    peer: DiscordPeer, adapter: DiscordAdapter, inbox: Inbox, delivery_log: DeliveryLog, channel_id: str
) -> Command:
    """Have somebody give a slash command and return the sink for the answer."""

    async def give_command(
        name: str = "ask", channel: str = channel_id, **options: str
    ) -> tuple[DiscordSink, Interaction]:
        request = await peer.command(channel, name, None, **options)
        await inbox.until_true(lambda: any(item.id == request.id for item in inbox.messages))
        message = next(item for item in inbox.messages if item.id == request.id)
        return adapter.sink(message, delivery_log), request

    return give_command


async def test_a_channel_sees_typing_then_a_reply_that_grows(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str
) -> None:
    sink = await ask()
    await sink.open()
    await peer.wait_until(lambda: len(peer.channels[channel_id].typed) >= 2, 30)
    await sink.update("The **first**")
    first = await peer.wait_for_reply(channel_id, 30)
    assert first.content == "The **first**"
    assert first.reply_to == next(iter(peer.channels[channel_id].messages))
    await sink.update("The **first** words")
    await peer.wait_for_reply(channel_id, 30, containing="words")
    await sink.finish(Reply("The **first** words are final [1].", CITED))
    (message,) = peer.messages(channel_id)
    assert message.content == (
        "The **first** words are final [[1]](<https://example.org/install>).\n\n"
        "**Sources**\n[1] [Install](<https://example.org/install>)"
    )
    assert delivery_log.events == ["posting", first.id]
    assert all(call.status in (200, 204) for call in peer.calls)
    assert (peer.notified, peer.unfolded) == ([], [])


async def test_nobody_is_notified_whatever_is_said(peer: DiscordPeer, ask: Ask, channel_id: str) -> None:
    await (await ask()).finish(Reply("<@1001> @everyone @here <@&7002> see https://example.org/x"))
    (message,) = peer.messages(channel_id)
    assert (peer.notified, peer.unfolded) == ([], [])
    assert "@everyone" not in message.content
    assert not re.search(r"(?<!\\)<@", message.content)


async def test_edits_are_throttled_and_the_latest_text_wins(peer: DiscordPeer, ask: Ask, channel_id: str) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("word 0")
    message = await peer.wait_for_reply(channel_id, 30)
    written_text = await update_until(sink, lambda: len(message.history) >= 4)
    await sink.finish(Reply("done"))
    assert peer.messages(channel_id) == [message]
    times, states = zip(*message.history, strict=True)
    assert all(later_time - earlier_time >= 0.08 for earlier_time, later_time in pairwise(times[:-1]))
    assert len(states) < written_text
    assert {int(state.removeprefix("word ")) % 10 for state in states[:-1]} == {0}, "the latest"
    assert (states[0], message.content) == ("word 0", "done")


async def test_a_private_chat_and_a_thread_are_answered_where_it_was_asked(
    peer: DiscordPeer, ask: Ask, channel_id: str
) -> None:
    private = peer.channel(private=True)
    thread = await peer.thread(channel_id)
    await (await ask(private)).finish(Reply("here"))
    await (await ask(thread)).finish(Reply("there"))
    assert [(message.content, message.reply_to) for message in peer.messages(private)] == [("here", "")]
    assert [message.content for message in peer.messages(thread)] == ["there"]
    assert peer.messages(channel_id) == []


async def test_a_long_answer_goes_on_in_more_messages(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str
) -> None:
    code = "\n".join(f"line {n}" for n in range(500))
    sink = await ask()
    await sink.open()
    await sink.update(f"```python\n{code}")
    await peer.wait_for_reply(channel_id, 30)
    await sink.finish(Reply(f"```python\n{code}\n```\n\nThat is it [1].", CITED))
    messages = peer.messages(channel_id)
    assert len(messages) == 3
    assert all(message.content.startswith("```python\n") for message in messages)
    assert all(len(message.content) <= 2000 and message.content.count("```") == 2 for message in messages)
    fenced_text = "\n".join(
        re.findall(r"```python\n(.*?)\n```", "\n".join(message.content for message in messages), re.DOTALL)
    )
    assert fenced_text == code
    assert [bool(message.reply_to) for message in messages] == [True, False, False]
    assert delivery_log.events == ["posting", messages[0].id]


async def test_after_a_crash_the_old_reply_is_edited(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str
) -> None:
    await (await ask()).finish(Reply("half an"))
    previous = delivery_log.events[-1]
    delivery_log.events.clear()
    sink = await ask(previous=previous)
    await sink.open()
    await sink.finish(Reply("a whole answer"))
    assert [message.content for message in peer.messages(channel_id)] == ["a whole answer"]
    assert delivery_log.events == []


async def test_a_lost_answer_to_the_post_makes_no_second_message(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str
) -> None:
    peer.fail(SEND, drop="after", times=2)
    await (await ask()).finish(Reply("once\n\n" + "x" * 1999))
    assert [message.content[:4] for message in peer.messages(channel_id)] == ["once", "xxxx"]
    assert delivery_log.events.count("refused") == 0
    assert delivery_log.events[-1] == peer.messages(channel_id)[0].id


async def test_what_a_lost_post_showed_gives_way_to_the_final_reply(
    peer: DiscordPeer, ask: Ask, channel_id: str
) -> None:
    sink = await ask()
    peer.fail(SEND, drop="after")
    await sink.open()
    await sink.update("half a")
    await peer.wait_for_reply(channel_id, 30)
    await sink.finish(Reply("a whole answer"))
    assert [message.content for message in peer.messages(channel_id)] == ["a whole answer"]


async def test_a_failure_takes_the_place_of_what_was_shown(peer: DiscordPeer, ask: Ask, channel_id: str) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("half a")
    await peer.wait_for_reply(channel_id, 30)
    await sink.fail("Sorry, something failed.")
    assert [message.content for message in peer.messages(channel_id)] == ["Sorry, something failed."]


async def test_it_waits_as_told_and_then_sends(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str
) -> None:
    data = {"message": "You are being rate limited.", "retry_after": 0.6, "global": False}
    peer.fail(SEND, 429, body=data, headers={"Via": "1.1 google"})
    await (await ask()).finish(Reply("patience"))
    refused_call, accepted_call = peer.get_calls(SEND)
    assert accepted_call.at - refused_call.at >= 0.6
    assert delivery_log.events == ["posting", "refused", "posting", peer.messages(channel_id)[0].id]


async def test_a_global_limit_holds_for_every_call(peer: DiscordPeer, ask: Ask, channel_id: str) -> None:
    first = await ask()
    second = await ask()
    data = {"message": "You are being rate limited.", "retry_after": 0.5, "global": True}
    peer.fail(SEND, 429, body=data, headers={"Via": "1.1 google", "X-RateLimit-Global": "true"})
    await asyncio.gather(first.finish(Reply("one")), second.finish(Reply("two")))
    statuses = [call.status for call in peer.get_calls(SEND)]
    assert statuses.count(200) == 2
    assert statuses.count(429) == 1


async def test_shut_out_by_the_front_servers_it_waits(peer: DiscordPeer, ask: Ask, channel_id: str) -> None:
    peer.fail(SEND, 429, body="<html>banned</html>", headers={"Retry-After": "1"})
    await (await ask()).finish(Reply("patience"))
    refused_call, accepted_call = peer.get_calls(SEND)
    assert accepted_call.at - refused_call.at >= 1


async def test_too_long_a_wait_is_an_error(peer: DiscordPeer, ask: Ask) -> None:
    peer.fail(SEND, 429, body={"retry_after": 900.0, "global": False}, headers={"Via": "1.1 google"})
    with pytest.raises(PlatformError, match="900"):
        await (await ask()).finish(Reply("patience"))


async def test_the_limit_of_a_channel_is_never_broken(peer: DiscordPeer, ask: Ask, channel_id: str) -> None:
    peer.limit = (3, 0.6)
    sinks = [await ask() for _ in range(3)]

    async def answer(sink: DiscordSink) -> None:
        await sink.open()
        for n in range(40):
            await sink.update(f"word {n}")
            await asyncio.sleep(0.02)
        await sink.finish(Reply("done"))

    await answer(sinks[0])
    assert sum(peer.exceeded.values()) == 0, "one answer alone is never told to slow down"
    await asyncio.gather(*(answer(sink) for sink in sinks[1:]))
    assert sum(peer.exceeded.values()) <= 2
    assert [message.content for message in peer.messages(channel_id)] == ["done"] * 3


async def test_a_deleted_question_is_not_answered(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str
) -> None:
    sink = await ask()
    await peer.delete(channel_id, next(iter(peer.channels[channel_id].messages)))
    with pytest.raises(MessageDeleted):
        await sink.finish(Reply("too late"))
    assert delivery_log.events in ([], ["posting", "refused"])
    assert peer.messages(channel_id) == []


async def test_a_question_deleted_while_it_is_answered_stops_the_answer(
    peer: DiscordPeer, ask: Ask, channel_id: str
) -> None:
    sink = await ask()
    await sink.open()
    await peer.delete(channel_id, next(iter(peer.channels[channel_id].messages)))

    with pytest.raises(MessageDeleted):
        await update_until_stopped(sink, "")
    assert peer.get_calls(SEND) == []


async def test_a_reply_removed_by_a_moderator_is_not_written_again(
    peer: DiscordPeer, ask: Ask, channel_id: str
) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("half a")
    message = await peer.wait_for_reply(channel_id, 30)
    await peer.delete(channel_id, message.id)
    with pytest.raises(MessageDeleted):
        await sink.finish(Reply("a whole"))
    assert peer.messages(channel_id) == []


@pytest.mark.parametrize(("missing_permission", "expected_text"), [("send", "Send Messages"), ("view", "View Channel")])
async def test_a_missing_permission_is_named(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str, missing_permission: str, expected_text: str
) -> None:
    sink = await ask()
    peer.channels[channel_id].lacking.add(missing_permission)
    with pytest.raises(PlatformError, match=expected_text):
        await sink.finish(Reply("hello"))
    assert delivery_log.events == ["posting", "refused"]


async def test_without_the_history_it_answers_without_a_reply(peer: DiscordPeer, ask: Ask, channel_id: str) -> None:
    peer.channels[channel_id].lacking.add("history")
    await (await ask()).finish(Reply("hello"))
    assert [(message.content, message.reply_to) for message in peer.messages(channel_id)] == [("hello", "")]


async def test_a_journal_that_is_down_posts_nothing(peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog) -> None:
    delivery_log.down = True
    with pytest.raises(StoreError):
        await (await ask()).finish(Reply("hello"))
    assert peer.get_calls(SEND) == []


async def test_a_cancelled_answer_leaves_no_task_and_knows_its_post(
    peer: DiscordPeer, ask: Ask, delivery_log: DeliveryLog, channel_id: str
) -> None:
    class Waiting(DeliveryLog):
        async def mark_posting(self) -> None:
            await super().mark_posting()
            await go_on.wait()

    go_on = asyncio.Event()
    sink = await ask()
    sink._delivery = sink._retry._delivery = delivery_log = Waiting()

    async def answer() -> None:
        await sink.finish(Reply("on its way"))

    task = asyncio.create_task(answer())
    await until(lambda: delivery_log.events)
    task.cancel()
    # Until the stop has reached it.
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert delivery_log.events == ["posting", peer.messages(channel_id)[0].id]
    gc.collect()
    assert [item.get_name() for item in asyncio.all_tasks() if "discord reply" in item.get_name()] == []


async def test_a_command_is_acknowledged_and_its_response_edited(
    peer: DiscordPeer, command: Command, delivery_log: DeliveryLog, channel_id: str
) -> None:
    sink, request = await command(question="what is it?")
    await peer.wait_until(lambda: request.response_message is not None, 30)
    await sink.open()
    await sink.update("The first")
    await peer.wait_for_reply(channel_id, 30, containing="first")
    await sink.finish(Reply("The first words [1].\n\n" + "y" * 1990, CITED))
    messages = peer.messages(channel_id)
    assert messages[0].content.startswith("> Ann: /ask what is it?\nThe first words [[1]]")
    assert len(messages) == 3
    assert request.response_message is not None
    assert delivery_log.events == ["posting", request.response_message.id]
    assert not request.hidden
    assert peer.get_calls(SEND) == []
    assert peer.get_calls(DEFER)[0].at < peer.get_calls(RESPOND)[0].at
    assert (peer.notified, peer.unfolded) == ([], [])


async def test_help_is_shown_to_the_asker_alone(peer: DiscordPeer, command: Command, inbox: Inbox) -> None:
    sink, request = await command("help")
    await sink.finish(Reply("I know things."))
    assert request.hidden
    assert inbox.messages[-1].command == "help"
    assert inbox.messages[-1].addressed


async def test_a_lost_acknowledgement_is_tried_again(peer: DiscordPeer, command: Command, channel_id: str) -> None:
    peer.fail(DEFER, drop="after")
    sink, _ = await command(question="what?")
    await sink.finish(Reply("this"))
    assert [call.status for call in peer.get_calls(DEFER)] == [0, 400]
    assert [message.content for message in peer.messages(channel_id)] == ["> Ann: /ask what?\nthis"]


async def test_a_command_without_acknowledgement_is_answered_in_the_channel(
    peer: DiscordPeer, command: Command, delivery_log: DeliveryLog, channel_id: str
) -> None:
    peer.fail(DEFER, 404, body={"message": "Unknown interaction", "code": 10062})
    sink, _ = await command(question="what *is* it?")
    await sink.open()
    await sink.update("That")
    await sink.finish(Reply("That."))
    (message,) = peer.messages(channel_id)
    assert message.content == "> Ann: /ask what \\*is\\* it?\nThat."
    assert delivery_log.events[-1] == message.id


async def test_after_fifteen_minutes_the_channel_gets_the_answer(
    peer: DiscordPeer, command: Command, channel_id: str
) -> None:
    sink, request = await command(question="what?")
    await peer.wait_until(lambda: request.response_message is not None, 30)
    peer.token_s = 0
    await sink.finish(Reply("This."))
    assert [message.content for message in peer.messages(channel_id)] == ["> Ann: /ask what?\nThis."]


async def test_after_a_restart_a_command_is_still_answered_by_its_token(
    peer: DiscordPeer,
    adapter: DiscordAdapter,
    command: Command,
    inbox: Inbox,
    delivery_log: DeliveryLog,
    tmp_path: Path,
) -> None:
    _, request = await command(question="what?")
    await peer.wait_until(lambda: request.response_message is not None, 30)
    message: Message = inbox.messages[-1]
    second_adapter = DiscordAdapter(settings(peer, tmp_path), Positions(), PACE)
    await second_adapter.open()
    await second_adapter.sink(message, delivery_log).finish(Reply("after all"))
    await second_adapter.close()
    assert request.response_message is not None
    assert request.response_message.content == "> Ann: /ask what?\nafter all"


async def test_a_command_that_nobody_answers_does_not_think_for_ever(
    peer: DiscordPeer, inbox: Inbox, tmp_path: Path
) -> None:
    channel_id = peer.channel()
    impatient = DiscordAdapter(settings(peer, tmp_path), Positions(), replace(PACE, unanswered_timeout_s=0.3))
    async with listening(peer, impatient, inbox.receive):
        request = await peer.command(channel_id, "ask", question="in a channel where the bot may not speak?")
        await peer.wait_until(lambda: request.response_message is not None, 30)
        await peer.wait_until(lambda: bool(peer.get_calls(WITHDRAW)), 30)
    assert request.response_message is not None
    assert request.response_message.id not in peer.channels[channel_id].messages


async def test_another_bots_reply_is_not_edited(
    peer: DiscordPeer, adapter: DiscordAdapter, inbox: Inbox, delivery_log: DeliveryLog, channel_id: str
) -> None:
    await peer.say(channel_id, f"{peer.mention} what?")
    await inbox.until(1)
    result = inbox.messages[0]
    values = {name: getattr(result, name) for name in result.__slots__}
    message = Message(**{**values, "bot": "77"})
    await adapter.sink(message, delivery_log, "123").finish(Reply("ours"))
    assert [output.content for output in peer.messages(channel_id)] == ["ours"]
    assert peer.get_calls(EDIT) == []


async def test_a_reply_that_can_no_longer_be_edited_is_posted_anew(
    peer: DiscordPeer, ask: Ask, channel_id: str
) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("half a")
    first = await peer.wait_for_reply(channel_id, 30)
    peer.fail(EDIT, 400, body={"code": 30046, "message": "Maximum number of edits"})
    await sink.finish(Reply("a **whole**"))
    [message] = peer.messages(channel_id)
    assert message.content == "a **whole**"
    assert message.id != first.id


async def test_a_response_that_is_refused_is_a_message_in_the_channel(
    peer: DiscordPeer, command: Command, channel_id: str
) -> None:
    sink, request = await command(question="what is it?")
    await peer.wait_until(lambda: request.response_message is not None, 30)
    peer.fail(RESPOND, 400, times=2, body={"code": 200000, "message": "Blocked"})
    await sink.finish(Reply("The answer, see [this](https://example.org/a)."))
    [message] = peer.messages(channel_id)
    assert "what is it?" in message.content
    assert message.content.endswith("The answer, see [this] (https://example.org/a).")
