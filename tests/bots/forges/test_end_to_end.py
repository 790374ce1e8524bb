"""The daemon on a forge: a question in, a cited answer out, whatever is killed in between."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.support.deployment import Deployment, make_rocket_deployment
from tests.support.peers.github import REPOSITORY, GithubPeer
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.waiting import until

READY_S = 60
QUESTION = "@kimas How do I change the signing key?"


@pytest.fixture
def deployment(tmp_path: Path, peer: GithubPeer, model: LanguageModelPeer) -> Deployment:
    peer.repositories[REPOSITORY].can_write = True
    section = {"token": {"env": "BOT_TOKEN"}, "api_url": peer.url, "repositories": [REPOSITORY], "poll_s": 0.1}
    models = {"main": {"base_url": model.base_url, "model": "peer"}}
    deployment = make_rocket_deployment(tmp_path, github=section, models=models)
    deployment.environment["BOT_TOKEN"] = peer.token
    return deployment


async def test_an_issue_gets_a_cited_answer(deployment: Deployment, peer: GithubPeer) -> None:
    async with deployment.daemon() as process:
        await peer.until_polled(timeout_s=READY_S)
        number = peer.open("The signing key", QUESTION)
        await until(peer.posts)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    [reply] = peer.posts()
    assert reply.text.startswith("Call `rotate_keys` [[1]](<https://example.org/rocket/blob/")
    assert reply.number == number
    assert peer.token not in deployment.log()
    assert "Traceback" not in deployment.log()


@pytest.mark.parametrize("phase", ["before", "after"])
async def test_killed_while_it_posts_there_is_one_answer(deployment: Deployment, peer: GithubPeer, phase: str) -> None:
    is_reached = asyncio.Event()

    async def hang(name: str, current_phase: str) -> None:
        if (name, current_phase) == ("POST issues/{}/comments", phase) and not is_reached.is_set():
            is_reached.set()
            await asyncio.Event().wait()

    peer.watch = hang
    async with deployment.daemon() as process:
        await peer.until_polled(timeout_s=READY_S)
        first = peer.open("The signing key", QUESTION)
        await asyncio.wait_for(is_reached.wait(), READY_S)
        process.kill()
        await process.wait()
    second = peer.open("The signing key", QUESTION, "ben")
    async with deployment.daemon():
        await until(lambda: len(peer.posts()) >= 2)
        # Whatever is posted twice is posted by now.
        await peer.until_polled(5, timeout_s=READY_S)
    assert sorted(note.number for note in peer.posts()) == [first, second]


async def test_check_says_who_the_token_belongs_to(deployment: Deployment) -> None:
    findings = json.dumps(await asyncio.to_thread(deployment.json, "check", "--live"))
    assert "the token belongs to kimas on" in findings
