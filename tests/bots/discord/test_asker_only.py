"""A channel where answers are for the asker alone: on Discord only what answers a command can be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bots.discord.adapter import DiscordAdapter
from core.storage.messages import Journal
from core.types import Citation
from tests.conformance.bot import Script
from tests.support import discord_helpers
from tests.support.fixtures import settings
from tests.support.peers.discord import EPHEMERAL, Author, DiscordPeer
from tests.support.wiring import make_processor, running

ANN = Author("1001", "ann")
BEN = Author("1002", "ben")
QUESTION = "Where does the roadmap lead?"


@asynccontextmanager
async def opened(folder: Path, channel_id: str, peer: DiscordPeer, script: Script) -> AsyncIterator[None]:
    configuration = settings(chats={f"discord:{channel_id}": {"answers": "asker"}})
    journal = await Journal.open(folder / "journal.db")
    adapter = DiscordAdapter(
        discord_helpers.settings(peer, folder),
        discord_helpers.Positions(),
        discord_helpers.PACE,
        is_for_asker=lambda channel: configuration.get_chat(f"discord:{channel}").answers == "asker",
    )
    async with running(adapter, make_processor(configuration, journal, script)):
        await peer.connected()
        yield
    await journal.close()


async def test_a_question_by_command_is_answered_for_the_askers_eyes_alone(tmp_path: Path) -> None:
    """It grows before their eyes, in as many parts as it needs, and others' questions know nothing of it."""
    async with DiscordPeer() as peer:
        peer.acknowledge_s = 30
        channel_id = peer.channel()
        citations = [Citation(1, "a", "docs", "a.md", "A", "https://x.org/a")]
        script = Script(says=lambda _question: "word " * 700 + "[1]", citations=citations)
        async with opened(tmp_path, channel_id, peer, script):
            command = await peer.command(channel_id, "ask", ANN, question=QUESTION)
            await peer.wait_until(lambda: len(peer.messages(channel_id)) > 1, 30)
            assert command.hidden
            assert all(message.flags & EPHEMERAL for message in peer.messages(channel_id))
            other = await peer.command(channel_id, "ask", BEN, question="What was said?")
            await peer.wait_until(lambda: other.response_message is not None and len(script.questions) == 2, 30)
            assert script.questions[-1].history == ()
            again = await peer.command(channel_id, "ask", ANN, question="And then?")
            await peer.wait_until(lambda: again.response_message is not None and len(script.questions) == 3, 30)
            assert script.questions[-1].history[0].text == QUESTION


async def test_a_mention_is_told_to_ask_by_command(tmp_path: Path) -> None:
    async with DiscordPeer() as peer:
        channel_id = peer.channel()
        script = Script()
        async with opened(tmp_path, channel_id, peer, script):
            await peer.say(channel_id, f"<@{peer.me.id}> {QUESTION}", author=ANN)
            await peer.wait_until(lambda: bool(peer.messages(channel_id)), 30)
            (message,) = peer.messages(channel_id)
            assert "Please ask with the command </ask:" in message.content
            assert script.questions == []


async def test_an_answer_that_came_too_late_is_shown_to_nobody(tmp_path: Path) -> None:
    async with DiscordPeer() as peer:
        channel_id = peer.channel()
        peer.fail("POST /interactions/{}/{}/callback", 404, body={"message": "Unknown interaction", "code": 10062})
        async with opened(tmp_path, channel_id, peer, Script()):
            await peer.command(channel_id, "ask", ANN, question=QUESTION)
            await peer.wait_until(lambda: bool(peer.get_calls("POST /interactions/{}/{}/callback")), 30)
            other = await peer.command(channel_id, "ask", ANN, question="And now?")
            await peer.wait_until(lambda: other.response_message is not None, 30)
            await peer.wait_until(lambda: "And now?" in str(peer.messages(channel_id)), 30)
            assert QUESTION not in str(peer.messages(channel_id))
