"""The daemon in a Discord server: a question in, a cited answer out, whatever is killed in between."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment, make_rocket_deployment
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.posted import posted

READY_S = 60
QUESTION = "How do I change the signing key?"


@pytest.fixture
async def discord() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer:
        # A busy machine is late with its heartbeats and acknowledgements; other tests look at those.
        peer.gateway.beat_ms = 5000
        peer.acknowledge_s = 30
        yield peer


@pytest.fixture
def deployment(tmp_path: Path, discord: DiscordPeer, model: LanguageModelPeer) -> Deployment:
    section = {"token": {"env": "BOT_TOKEN"}, "api_url": discord.api_url}
    models = {"main": {"base_url": model.base_url, "model": "peer"}}
    deployment = make_rocket_deployment(tmp_path, discord=section, models=models)
    deployment.environment["BOT_TOKEN"] = discord.token
    return deployment


async def wait_for_answers(discord: DiscordPeer, channel_id: str, count: int) -> None:
    def complete() -> bool:
        return len([message for message in discord.messages(channel_id) if "**Sources**" in message.content]) == count

    await discord.wait_until(complete, READY_S)


async def test_a_question_becomes_a_streamed_cited_answer(
    deployment: Deployment, discord: DiscordPeer, model: LanguageModelPeer
) -> None:
    model.tokens_per_s = 5
    channel_id = discord.channel()
    async with deployment.daemon() as process:
        await discord.connected(READY_S)
        await discord.say(channel_id, "nice weather today")
        await discord.say(channel_id, f"{discord.mention} {QUESTION}")
        reply = await discord.wait_for_reply(channel_id, READY_S, containing="nobody is logged out")
        await discord.wait_until(lambda: "**Sources**" in reply.content, READY_S)
        assert "[[1]](<https://example.org/rocket/blob/" in reply.content
        assert len(reply.history) >= 2
        await discord.command(channel_id, "ask", question=QUESTION)
        await wait_for_answers(discord, channel_id, 2)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert len(discord.messages(channel_id)) == 2
    assert (discord.notified, discord.unfolded) == ([], [])
    assert discord.token not in deployment.log()
    assert "Traceback" not in deployment.log()


async def test_killed_before_and_in_the_middle_of_the_reply_there_is_one_answer(
    deployment: Deployment, discord: DiscordPeer, model: LanguageModelPeer
) -> None:
    model.hang = True
    channel_id = discord.channel()
    async with deployment.daemon() as process:
        await discord.connected(READY_S)
        await discord.say(channel_id, f"{discord.mention} {QUESTION}")
        await discord.wait_until(lambda: bool(discord.channels[channel_id].typed), READY_S)
        process.kill()
        await process.wait()
    model.hang = False
    model.stall_after = 3
    await discord.say(channel_id, f"{discord.mention} How do I install it?")
    async with deployment.daemon() as process:
        first_reply = await discord.wait_for_reply(channel_id, READY_S)
        await posted(deployment)
        process.kill()
        await process.wait()
    model.stall_after = None
    async with deployment.daemon():
        await wait_for_answers(discord, channel_id, 2)
    assert len(discord.messages(channel_id)) == 2
    assert first_reply.id in [message.id for message in discord.messages(channel_id)]
    assert len({message.reply_to for message in discord.messages(channel_id)}) == 2
