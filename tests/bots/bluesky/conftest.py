"""A peer, and a bot on it with its real inbox and journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.bluesky_helpers import BlueskyBot
from tests.support.peers.bluesky import BlueskyPeer


@pytest.fixture
async def peer() -> AsyncIterator[BlueskyPeer]:
    async with BlueskyPeer() as peer:
        yield peer


@pytest.fixture
async def bot(peer: BlueskyPeer, tmp_path: Path) -> AsyncIterator[BlueskyBot]:
    bot = BlueskyBot(peer, tmp_path)
    await bot.start()
    yield bot
    await bot.stop()
