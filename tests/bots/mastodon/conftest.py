"""A peer, and a bot on it with its real inbox and journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.mastodon_helpers import MastodonBot
from tests.support.peers.mastodon import MastodonPeer


@pytest.fixture
async def peer() -> AsyncIterator[MastodonPeer]:
    async with MastodonPeer() as peer:
        yield peer


@pytest.fixture
async def bot(peer: MastodonPeer, tmp_path: Path) -> AsyncIterator[MastodonBot]:
    bot = MastodonBot(peer, tmp_path)
    await bot.start()
    yield bot
    await bot.stop()
