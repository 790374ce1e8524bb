"""A model whose replies a test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.scripted import ScriptedPeer


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer() as peer:
        yield peer
