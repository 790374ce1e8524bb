from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bots.slack.adapter import SlackAdapter
from tests.support.peers.slack import SlackPeer
from tests.support.slack_helpers import PACE, Inbox, Threads, listening, settings


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        yield peer


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
async def adapter(peer: SlackPeer, inbox: Inbox, tmp_path: Path) -> AsyncIterator[SlackAdapter]:
    async with listening(SlackAdapter(settings(peer, tmp_path), Threads().answered_in, PACE), inbox) as adapter:
        yield adapter
