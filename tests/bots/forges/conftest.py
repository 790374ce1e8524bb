"""A peer, and a bot on it with its real inbox and journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.forge_helpers import ForgeBot
from tests.support.peers.github import GithubPeer
from tests.support.peers.gitlab import GitlabPeer


@pytest.fixture
async def peer() -> AsyncIterator[GithubPeer]:
    async with GithubPeer() as peer:
        yield peer


@pytest.fixture
async def gitlab() -> AsyncIterator[GitlabPeer]:
    async with GitlabPeer() as peer:
        yield peer


@pytest.fixture(params=[GithubPeer, GitlabPeer])
async def forge(request: pytest.FixtureRequest) -> AsyncIterator[GithubPeer]:
    """Either forge, for what both have in common."""
    async with request.param() as peer:
        yield peer


@pytest.fixture
async def bot(peer: GithubPeer, tmp_path: Path) -> AsyncIterator[ForgeBot]:
    bot = ForgeBot(peer, tmp_path)
    await bot.start()
    yield bot
    await bot.stop()
