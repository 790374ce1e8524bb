"""Fixtures of knowledge, small real implementations of its Protocols; a peer of Telegram, and one of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.knowledge import embedder, markdown, source, store
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer

__all__ = ["embedder", "markdown", "source", "store"]


@pytest.fixture
async def model() -> AsyncIterator[LanguageModelPeer]:
    """A model that answers from the repository of `tests.support.deployment`."""
    async with LanguageModelPeer(reply="Call `rotate_keys` [p1]; nobody is logged out [p1].") as peer:
        yield peer


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as peer:
        yield peer
