"""The daemon on a Mastodon server: a question in, a cited answer out, whatever is killed in between."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.support.deployment import Deployment, make_rocket_deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.mastodon import MastodonPeer
from tests.support.waiting import until

READY_S = 60
QUESTION = "@kimas How do I change the signing key?"


@pytest.fixture
def deployment(tmp_path: Path, peer: MastodonPeer, model: LanguageModelPeer) -> Deployment:
    section = {"token": {"env": "BOT_TOKEN"}, "url": peer.url}
    models = {"main": {"base_url": model.base_url, "model": "peer"}}
    deployment = make_rocket_deployment(tmp_path, mastodon=section, models=models)
    deployment.environment["BOT_TOKEN"] = peer.token
    return deployment


async def test_a_mention_becomes_a_cited_answer(deployment: Deployment, peer: MastodonPeer) -> None:
    async with deployment.daemon() as process:
        await peer.until_streaming(timeout_s=READY_S)
        question = await peer.say(peer.account("ann", "b.example"), QUESTION)
        await until(peer.posts)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    [reply] = peer.posts()
    assert reply.text.startswith("@ann@b.example Call rotate_keys [1]")
    assert "https://example.org/rocket/blob/" in reply.text
    assert (reply.reply_to, reply.visibility) == (question, "unlisted")
    assert peer.token not in deployment.log()
    assert "Traceback" not in deployment.log()


@pytest.mark.parametrize(("phase", "has_key"), [("before", True), ("after", True), ("after", False)])
async def test_killed_while_it_posts_there_is_one_answer(
    deployment: Deployment, peer: MastodonPeer, phase: str, has_key: bool
) -> None:
    is_reached = asyncio.Event()

    async def hang(name: str, current_phase: str) -> None:
        if (name, current_phase) == ("POST statuses", phase) and not is_reached.is_set():
            is_reached.set()
            await asyncio.Event().wait()

    peer.watch = hang
    async with deployment.daemon() as process:
        await peer.until_streaming(timeout_s=READY_S)
        first = await peer.say(peer.account("ann"), QUESTION)
        await asyncio.wait_for(is_reached.wait(), READY_S)
        process.kill()
        await process.wait()
    if not has_key:
        peer.keys.clear()
    second = await peer.say(peer.account("ben"), QUESTION)
    async with deployment.daemon():
        await until(lambda: len(peer.posts()) >= 2)
        # Whatever is posted twice is posted by now.
        await peer.until_streaming(timeout_s=READY_S)
    assert sorted(status.reply_to for status in peer.posts()) == [first, second]
