"""A channel of Slack that another organization shares: its people are not those of the workspace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.peers.slack import SlackPeer

READY_S = 60
QUESTION = "<@UBOT> What is the release date of the launcher?"
CLOSED_WORDS = ("numbat", "quokka", "dunnart", "bilby")
OWN, SHARED, NAMED = "C1", "C2", "C3"


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        peer.shared_channels = {SHARED, NAMED}
        yield peer


@pytest.fixture
def deployment(peer: SlackPeer, tmp_path: Path) -> Deployment:
    texts = {
        "docs/start.md": "# Launcher\n\nThe release date of the launcher is announced on the site.\n",
        "team/dunnart.md": "# bilby\n\nThe release date of the launcher is the first of May, numbat.\n",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text, "utf-8")
    audience = ["slack", f"slack:{NAMED}"]
    return Deployment(
        tmp_path,
        {
            "sources": {
                "docs": {"kind": "files", "path": str(tmp_path / "docs")},
                "quokka": {"kind": "files", "path": str(tmp_path / "team"), "audience": audience},
            },
            "slack": {
                "bot_token": {"env": "SLACK_BOT"},
                "app_token": {"env": "SLACK_APP"},
                "api_url": peer.api_url,
            },
            "administration": {"owners": ["slack:UANN"]},
        },
        {"SLACK_BOT": peer.bot_token, "SLACK_APP": peer.app_token},
    )


def find_words(peer: SlackPeer, channel: str) -> set[str]:
    """Return the closed words that were posted in a channel, or shown to whoever gave a command."""
    posted = [message.history for message in peer.messages(channel)]
    text = json.dumps([str(posted), peer.responses]).lower()
    return {word for word in CLOSED_WORDS if word in text}


async def test_guests_of_a_shared_channel_are_not_of_the_workspace(deployment: Deployment, peer: SlackPeer) -> None:
    await asyncio.to_thread(deployment.json, "ingest")
    async with deployment.daemon():
        for channel in (SHARED, OWN, NAMED):
            root = peer.say(channel, QUESTION)
            await peer.wait_for_reply(channel, READY_S)
            peer.say(channel, "<@UBOT> and the dunnart?", thread=root)
            await peer.wait_for_reply(channel, READY_S, count=2)
        assert find_words(peer, OWN), "its own people see it"
        assert find_words(peer, NAMED), "a channel that is named sees it, whoever shares it"
        assert not find_words(peer, SHARED)
        for command in ("ask What is the release date of the launcher?", "sources", "status", "help", "digest"):
            count = len(peer.responses)
            peer.command(command, channel=SHARED)
            await peer.wait_until(lambda count=count: len(peer.responses) > count, READY_S)  # type: ignore[misc]
        assert not find_words(peer, SHARED)
        # Shared from now on: what was told before is not repeated to those who came.
        peer.shared_channels.add(OWN)
        peer.responses.clear()
        known = len(peer.messages(OWN))
        peer.say(OWN, QUESTION)
        await peer.wait_for_reply(OWN, READY_S, count=known + 1)
        told = str(peer.messages(OWN)[-1].history).lower()
        assert not [word for word in CLOSED_WORDS if word in told]


async def test_where_slack_does_not_say_who_shares_a_channel_guests_may(
    deployment: Deployment, peer: SlackPeer
) -> None:
    peer.lacking.add("conversations.info")
    await asyncio.to_thread(deployment.json, "ingest")
    async with deployment.daemon():
        peer.command("ask What is the release date of the launcher?", channel=SHARED)
        await peer.wait_until(lambda: bool(peer.responses), READY_S)
        assert not find_words(peer, SHARED)
        # An event of a channel says it, too.
        peer.say(OWN, QUESTION)
        await peer.wait_for_reply(OWN, READY_S)
        assert find_words(peer, OWN)
