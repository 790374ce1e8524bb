"""The daemon on Bluesky: a question in, a cited answer out, whatever is killed in between."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.support.bluesky_helpers import AT
from tests.support.deployment import Deployment, make_rocket_deployment
from tests.support.peers.bluesky import BOT, BlueskyPeer
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.waiting import until

READY_S = 60
QUESTION = f"{AT}How do I change the signing key?"


@pytest.fixture
def deployment(tmp_path: Path, peer: BlueskyPeer, model: LanguageModelPeer) -> Deployment:
    section = {"app_password": {"env": "BOT_TOKEN"}, "handle": BOT.handle, "url": peer.url}
    models = {"main": {"base_url": model.base_url, "model": "peer"}}
    deployment = make_rocket_deployment(tmp_path, bluesky=section, models=models)
    deployment.environment["BOT_TOKEN"] = peer.password
    return deployment


async def test_a_mention_becomes_a_cited_answer(deployment: Deployment, peer: BlueskyPeer) -> None:
    async with deployment.daemon() as process:
        await peer.until_polled(timeout_s=READY_S)
        question = peer.say(peer.account("ann"), QUESTION)
        await until(peer.posts)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    [reply] = peer.posts()
    assert reply.text.startswith("Call rotate_keys [1]")
    assert any(address.startswith("https://example.org/rocket/blob/") for _, address in reply.links())
    assert reply.reply_to == question
    for secret in (peer.password, *peer.access_tokens, *peer.refresh_tokens):
        assert secret not in deployment.log()
    [file] = (deployment.folder / "data").glob("bluesky-*.session")
    assert file.stat().st_mode & 0o077 == 0
    assert "Traceback" not in deployment.log()


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("call", ["GET getPostThread", "POST putRecord"])
@pytest.mark.parametrize("count", [1, 2])
async def test_killed_around_each_call_of_an_answer_there_is_one(
    deployment: Deployment, peer: BlueskyPeer, model: LanguageModelPeer, phase: str, call: str, count: int
) -> None:
    """The first look reads the question, the second one is right before the post; an answer is two posts."""
    model.reply = "Call `rotate_keys` [p1]. " + "Nobody is logged out, and this is what it says about it [p1]. " * 6
    seen = 0
    is_reached = asyncio.Event()

    async def hang(name: str, current_phase: str) -> None:
        nonlocal seen
        seen += (name, current_phase) == (call, phase)
        if (name, current_phase) == (call, phase) and seen == count and not is_reached.is_set():
            is_reached.set()
            await asyncio.Event().wait()

    peer.watch = hang
    async with deployment.daemon() as process:
        await peer.until_polled(timeout_s=READY_S)
        first = peer.say(peer.account("ann"), QUESTION)
        await asyncio.wait_for(is_reached.wait(), READY_S)
        process.kill()
        await process.wait()
    second = peer.say(peer.account("ben"), QUESTION)
    async with deployment.daemon():
        await until(lambda: len(peer.posts()) >= 4)
        # Whatever is posted twice is posted by now.
        await peer.until_polled(timeout_s=READY_S)
    assert sorted(post.root for post in peer.posts()) == sorted([first, first, second, second])
    assert peer.violations == []
