"""Commands on Slack: one command with the table's names behind it, answered for the asker's eyes alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bots.common.caches import TtlCache
from bots.slack.adapter import SlackAdapter
from bots.slack.connection import Unreachable
from bots.slack.convert import parse_subcommand
from core.messaging.commands.dispatcher import CommandDispatcher
from core.storage.messages import Journal
from tests.conformance.bot import Script
from tests.support import slack_helpers
from tests.support.fixtures import settings
from tests.support.peers.slack import SlackPeer
from tests.support.wiring import listen

ANN = "U1ANN"
BOSS = "U3BOSS"
OWNER = "U9OWNER"

Start = Callable[..., Awaitable[CommandDispatcher]]


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        peer.administrators = {BOSS}
        yield peer


@pytest.fixture
async def start(peer: SlackPeer, tmp_path: Path) -> AsyncIterator[Start]:
    """Return what starts a bot that listens to the peer."""
    async with AsyncExitStack() as stack:

        async def started(**administration: object) -> CommandDispatcher:
            journal = await Journal.open(tmp_path / "journal.db")
            stack.push_async_callback(journal.close)
            threads = slack_helpers.Threads()
            adapter = SlackAdapter(slack_helpers.settings(peer, tmp_path), threads.answered_in, slack_helpers.PACE)
            configuration = settings(administration={"owners": [f"slack:{OWNER}"], **administration})
            return await listen(stack, adapter, configuration, journal, Script())

        yield started


async def send_command(peer: SlackPeer, words: str, user: str, channel: str = "C1") -> dict[str, Any]:
    """Use the command and wait for its answer."""
    response_count = len(peer.responses)
    peer.command(words, user=user, channel=channel)
    await peer.wait_until(lambda: len(peer.responses) > response_count, 30)
    return peer.responses[-1]


@pytest.mark.parametrize(
    ("words", "command", "arguments"),
    [
        ("", "help", ""),
        ("ask How do I install it?", "ask", "How do I install it?"),
        ("How do I install it?", "ask", "How do I install it?"),
        ("why does the build fail?", "ask", "why does the build fail?"),
        ("why?", "ask", "why?"),
        ("why", "why", ""),
        ("why <https://x.slack.com/archives/C1/p1700000000123456?thread_ts=1.2>", "why", "1700000000.123456"),
        ("Mode auto", "mode", "auto"),
        ("mode of operation", "ask", "mode of operation"),
        ("/mode of operation", "mode", "of operation"),
        ("sources off docs", "sources", "off docs"),
        ("escalate Why does it fail?", "escalate", "Why does it fail?"),
        ("settings", "settings", ""),
        ("settings of the cache?", "ask", "settings of the cache?"),
        ("admins add <@U42|ann>", "admins", "add <@U42|ann>"),
        ("ask\nHow?", "ask", "How?"),
        ("Statsu", "statsu", ""),
        ("/relaod", "relaod", ""),
        ("statsu?", "ask", "statsu?"),
        ("statsu of it", "ask", "statsu of it"),
        ("installation", "ask", "installation"),
    ],
)
def test_what_stands_behind_the_command(words: str, command: str, arguments: str) -> None:
    assert parse_subcommand(words) == (command, arguments)


async def test_an_owner_is_answered_for_their_eyes_alone(peer: SlackPeer, start: Start) -> None:
    dispatcher = await start()
    answer = await send_command(peer, "mode auto", OWNER)
    assert answer["response_type"] == "ephemeral"
    assert answer["text"] == "The mode of this chat is now `auto`; it was `mention`."
    assert dispatcher.context.overrides.mode("slack:C1") == "auto"
    reply_text = await send_command(peer, "mode off", ANN)
    assert reply_text["response_type"] == "ephemeral"
    assert reply_text["text"] == "Only this bot's admins in this chat can do that."
    assert (await send_command(peer, "ask How?", ANN))["response_type"] == "in_channel"
    assert (await send_command(peer, "admins add <@U42|ann>", OWNER))["text"].startswith(
        "`U42` is now an admin of this bot"
    )


async def test_a_mistyped_command_is_no_question_before_everybody(peer: SlackPeer, start: Start) -> None:
    await start()
    answer = await send_command(peer, "statsu", OWNER)
    assert answer["response_type"] == "ephemeral"
    assert answer["text"] == (
        "I do not know `statsu`. Did you mean `/kimas status`? If it is a question, write `/kimas ask statsu`."
    )
    assert "Write it as `/kimas mode [off|" in (await send_command(peer, "mode foo", OWNER))["text"]


async def test_two_people_in_a_direct_chat_cannot_read_each_others_commands(peer: SlackPeer, start: Start) -> None:
    """The command works between two people, too: there an owner is answered from sources that the other may not see."""
    await start()
    question = "Where does the roadmap lead?"
    assert (await send_command(peer, f"ask {question}", OWNER, "D7"))["response_type"] == "ephemeral"
    assert (await send_command(peer, "why", ANN, "D7"))["text"] == "I do not remember answering anything here."
    assert "without a search" in (await send_command(peer, "why", OWNER, "D7"))["text"]


async def test_administrators_of_the_workspace_are_looked_up_once_in_a_while(peer: SlackPeer, start: Start) -> None:
    dispatcher = await start(platform_admins=True)
    assert (await send_command(peer, "pause 5", BOSS))["text"].startswith("I am silent in this chat until")
    await send_command(peer, "status", BOSS)
    assert (await send_command(peer, "resume", ANN))["text"].startswith("Only")
    assert dispatcher.context.overrides.paused_until("slack:C1")
    assert [call.parameters["user"] for call in peer.get_calls("users.info")] == [BOSS, ANN]
    assert (await send_command(peer, "sources off docs", BOSS))["text"] == "Only the owners of this bot may do that."


async def test_an_administrator_of_another_workspace_is_a_guest_here(peer: SlackPeer, start: Start) -> None:
    await start(platform_admins=True)
    peer.guests = {BOSS}
    assert (await send_command(peer, "pause", BOSS))["text"].startswith("Only")


async def test_without_the_scope_nobody_is_an_administrator(peer: SlackPeer, start: Start) -> None:
    await start(platform_admins=True)
    peer.lacking = {"users.info"}
    assert (await send_command(peer, "pause", BOSS))["text"].startswith("Only")


async def test_words_in_a_message_are_no_command(peer: SlackPeer, start: Start) -> None:
    dispatcher = await start()
    peer.say("C1", "<@UBOT> pause", user=OWNER)
    await peer.wait_for_reply("C1", 30, containing="Answer to: pause")
    peer.say("C1", "<@UBOT> /pause", user="U7", bot_id="B7")
    await send_command(peer, "status", OWNER)
    assert not dispatcher.context.overrides.paused_until("slack:C1")
    assert await dispatcher.context.audit.get_newest(9, chat=None) == []


class AdministratorClient:
    """What the administrators are asked of; without an answer it cannot be reached."""

    def __init__(self, answer: bool | None) -> None:
        self.answer = answer
        self.times = 0

    async def is_admin(self, user: str) -> bool:
        self.times += 1
        if self.answer is None:
            raise Unreachable("no route")
        return self.answer


async def test_what_is_remembered_ends() -> None:
    client = AdministratorClient(True)
    administrators = TtlCache[bool](0.5, 10)
    assert await administrators.get(BOSS, lambda: client.is_admin(BOSS))
    assert await administrators.get(BOSS, lambda: client.is_admin(BOSS))
    assert client.times == 1
    client.answer = None
    await asyncio.sleep(0.51)
    with pytest.raises(Unreachable):
        await administrators.get(BOSS, lambda: client.is_admin(BOSS))
