"""What the tests of the adapter for Telegram run on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bots.telegram.adapter import TelegramAdapter
from tests.support.peers.telegram import TelegramPeer
from tests.support.telegram_helpers import SINK_PACE, Offsets, settings


@pytest.fixture
def peer(telegram: TelegramPeer) -> TelegramPeer:
    return telegram


@pytest.fixture
async def adapter(peer: TelegramPeer, tmp_path: Path) -> AsyncIterator[TelegramAdapter]:
    """An open adapter, which does not listen."""
    adapter = TelegramAdapter(settings(peer, tmp_path), Offsets(), SINK_PACE)
    await adapter.open()
    yield adapter
    await adapter.close()
