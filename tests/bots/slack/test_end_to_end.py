"""From a question on Slack to a cited answer through the daemon, killed in the middle and started again."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path

import pytest

from tests.support.deployment import Deployment, make_rocket_deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.slack import SlackPeer
from tests.support.posted import posted

READY_S = 60
QUESTION = "<@UBOT> How do I change the signing key?"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return make_rocket_deployment(tmp_path_factory.mktemp("slack"))


@pytest.fixture
def connected_deployment(ingested: Deployment, peer: SlackPeer, model: LanguageModelPeer, tmp_path: Path) -> Deployment:
    folder = shutil.copytree(ingested.folder, tmp_path / "deployment")
    source = {**ingested.settings["sources"]["rocket"], "url": str(folder / "rocket")}
    slack = {"bot_token": {"env": "SLACK_BOT"}, "app_token": {"env": "SLACK_APP"}, "api_url": peer.api_url}
    models = {"main": {"base_url": model.base_url, "model": "peer"}}
    environment = {"SLACK_BOT": peer.bot_token, "SLACK_APP": peer.app_token}
    return Deployment(folder, {"sources": {"rocket": source}, "slack": slack, "models": models}, environment)


async def test_a_mention_gets_a_streamed_cited_answer_and_its_thread_goes_on(
    connected_deployment: Deployment, peer: SlackPeer, model: LanguageModelPeer
) -> None:
    model.tokens_per_s = 3
    peer.say("C1", "nice weather today")
    async with connected_deployment.daemon() as process:
        root = peer.say("C1", QUESTION)
        reply = await peer.wait_for_reply("C1", READY_S, containing="Sources")
        assert reply.thread_ts == root
        assert any("example.org/rocket" in link for link in reply.links())
        assert reply.streamed
        assert len(peer.get_calls("chat.appendStream")) > 0
        assert peer.status_log[0][0] < reply.history[0][0]
        model.tokens_per_s = 0
        model.reply = "They stay valid [p1]."
        peer.say("C1", "and what about old sessions?", thread=root)
        await peer.wait_for_reply("C1", READY_S, containing="stay valid", count=2)
        peer.command("help")
        await peer.wait_until(lambda: bool(peer.responses), READY_S)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert all(
        envelope.acknowledged.is_set()
        for envelope in peer.deliveries.envelopes
        if "bot_id" not in str(envelope.payload)
    )
    assert len(peer.messages("C1")) == 2
    assert "I answer questions from" in peer.responses[0]["text"]
    assert not {peer.bot_token, peer.app_token} & set(connected_deployment.log().split('"'))
    assert peer.bot_token not in connected_deployment.log()


async def test_a_kill_between_receipt_and_reply_leads_to_one_answer(
    connected_deployment: Deployment, peer: SlackPeer, model: LanguageModelPeer
) -> None:
    model.hang = True
    async with connected_deployment.daemon() as process:
        peer.say("C1", QUESTION)
        await peer.wait_until(lambda: bool(model.requests), READY_S)
        process.kill()
        await process.wait()
    model.hang = False
    peer.deliveries.deliver("events_api", peer.deliveries.envelopes[0].payload)
    async with connected_deployment.daemon():
        await peer.wait_for_reply("C1", READY_S, containing="Sources")
        peer.say("D1", "How do I change the signing key?")
        await peer.wait_for_reply("D1", READY_S, containing="Sources")
    assert len(peer.messages("C1")) == 1


async def test_a_kill_in_the_middle_of_a_stream_continues_the_same_message(
    connected_deployment: Deployment, peer: SlackPeer, model: LanguageModelPeer
) -> None:
    model.stall_after = 3
    async with connected_deployment.daemon() as process:
        root = peer.say("C1", QUESTION)
        first_reply = await peer.wait_for_reply("C1", READY_S)
        await posted(connected_deployment)
        process.kill()
        await process.wait()
    assert first_reply.streaming
    model.stall_after = None
    async with connected_deployment.daemon():
        reply = await peer.wait_for_reply("C1", READY_S, containing="Sources")
        assert (reply.ts, reply.streaming) == (first_reply.ts, False)
        peer.say("C1", "thanks, and how is it called?", thread=root)
        await peer.wait_for_reply("C1", READY_S, count=2, containing="rotate_keys")
    assert len(peer.messages("C1")) == 2
