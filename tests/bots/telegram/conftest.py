"""What the tests of the adapter for Telegram run on."""

from __future__ import annotations

import pytest

from tests.support.peers.telegram import TelegramPeer


@pytest.fixture
def peer(telegram: TelegramPeer) -> TelegramPeer:
    return telegram
