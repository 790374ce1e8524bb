"""Answers to slash commands whose post may or may not have arrived: looked up before they are posted again."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bots.discord.adapter import DiscordAdapter
from bots.slack.client import SlackClient
from bots.slack.commands import CommandSink
from core.types import ConversationKey, Message, Reply
from tests.support.discord_helpers import PACE as DISCORD_PACE, Inbox, Positions, listening, settings
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.slack import SlackPeer
from tests.support.sink_helpers import DeliveryLog
from tests.support.slack_helpers import PACE

LONG = "\n\n".join(f"paragraph {number} {'of words ' * 30}" for number in range(40))
FOLLOW_UP = "POST /webhooks/{}/{}"


async def slack_command(
    peer: SlackPeer, client: SlackClient, delivery_log: DeliveryLog, previous: str = ""
) -> CommandSink:
    peer._clock = int(time.time() * 1e6)
    peer.say("C1", "hello")
    await client.get_identity()
    payload = peer.command("ask How?").payload
    assert isinstance(payload, dict)
    url = payload["response_url"]
    message = Message(
        "trigger",
        ConversationKey("slack", "C1", "command:U1"),
        "U1",
        "Ann",
        "How?",
        datetime.now(UTC),
        command="ask",
        addressed=True,
        reference={"channel": "C1", "user": "U1", "response_url": url},
    )
    return CommandSink(client, message, delivery_log, previous, PACE)


@pytest.mark.parametrize("text", ["It does.", LONG])
async def test_a_slack_command_answer_that_may_have_arrived_is_looked_for(text: str) -> None:
    async with SlackPeer() as peer:
        client = SlackClient.connect(peer.bot_token, "", peer.api_url, 20)
        sink = await slack_command(peer, client, DeliveryLog())
        peer.fail("response_url", drop="after")
        await sink.finish(Reply(text))
        texts = [response["text"] for response in peer.responses]
        assert not any(text.startswith("_Slack") for text in texts)
        assert len(texts) == len(set(texts)) == (4 if text == LONG else 1)
        # Elsewhere the bot cannot look: it says that this is once more.
        peer.responses.clear()
        peer.not_in = {"C1"}
        sink = await slack_command(peer, client, DeliveryLog())
        peer.fail("response_url", drop="after")
        await sink.finish(Reply("It does."))
        assert [response["text"] for response in peer.responses] == [
            "> Ann: How?\n\nIt does.",
            "_Slack did not say whether this arrived, so here it is again._\n> Ann: How?\n\nIt does.",
        ]
        await client.close()


async def test_after_a_crash_the_rest_of_a_slack_command_answer_is_posted_once() -> None:
    async with SlackPeer() as peer:
        client = SlackClient.connect(peer.bot_token, "", peer.api_url, 20)
        await (await slack_command(peer, client, DeliveryLog())).finish(Reply(LONG))
        texts = [response["text"] for response in peer.responses]
        peer.responses.clear()
        # The second part has arrived, though nobody has written that down.
        delivery_log = DeliveryLog()
        sink = await slack_command(peer, client, delivery_log, "response_url")
        await sink._post(1, texts[1], (), in_channel=True)
        delivery_log.parts = {1: ""}
        sink._in_doubt = {1}
        await sink.finish(Reply(LONG))
        assert [response["text"] for response in peer.responses] == texts[1:]
        await client.close()


async def test_a_further_part_of_an_answer_to_a_command_of_discord_is_looked_for(tmp_path: Path) -> None:
    inbox = Inbox()
    async with DiscordPeer() as peer:
        peer.gateway.beat_ms = 5000
        peer.acknowledge_s = 30
        adapter = DiscordAdapter(settings(peer, tmp_path), Positions(), DISCORD_PACE)
        async with listening(peer, adapter, inbox.receive):
            channel_id = peer.channel()
            registered = peer.commands
            assert registered
            option = next(item for item in registered if item["name"] == "ask")["options"][0]["name"]
            await peer.command(channel_id, "ask", **{option: "How?"})
            await inbox.until_true(lambda: bool(inbox.messages))
            sink = adapter.sink(inbox.messages[0], DeliveryLog())
            await sink.open()
            peer.fail(FOLLOW_UP, drop="after")
            await sink.finish(Reply(LONG))
            texts = [message.content for message in peer.messages(channel_id)]
            assert len(texts) == len(set(texts)) > 2
