"""Races below posts with a hashtag on Mastodon, where the server itself is asked how many bots have replied."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bots.mastodon.adapter import MastodonAdapter
from bots.mastodon.connection import MastodonIntervals
from core.settings import Settings
from tests.support.journalled_bot import MemoryPositions
from tests.support.mastodon_helpers import settings
from tests.support.peers.mastodon import BOT, MastodonPeer
from tests.support.race_helpers import CHATS, COMPETITORS, HOPELESS, LATER_S, NEWS, RACES, US, raced

pytestmark = pytest.mark.usefixtures("time_lapse")


@dataclass
class OnMastodon:
    """Implements `Network` over the peer, with a hashtag for each chat."""

    peer: MastodonPeer
    tags: list[str] = field(default_factory=lambda: [f"games{number}" for number in range(CHATS)])

    def __post_init__(self) -> None:
        self.chats = [f"mastodon:tag/{tag}" for tag in self.tags]

    async def ready(self) -> None:
        for tag in self.tags:
            await self.peer.until_streaming(f"hashtag {tag}")

    async def post(self, chat: str, number: int, text: str) -> str:
        tag = chat.partition("/")[2]
        return await self.peer.say(self.peer.account("games"), f"{text} #{tag}", age_s=-LATER_S)

    async def reply(self, post: str, competitor: str) -> None:
        robot = self.peer.account(competitor, "bots.example", bot=True)
        await self.peer.say(robot, "What a jump!", reply_to=post, age_s=-LATER_S)

    def below(self, post: str) -> list[str]:
        authors = [status.author for status in self.peer.statuses.values() if status.reply_to == post]
        return [US if author == BOT else author.username for author in authors]


async def test_on_mastodon_we_are_among_the_first_two_or_silent_never_the_third(tmp_path: Path) -> None:
    async with MastodonPeer() as peer:
        network = OnMastodon(peer)

        def make(configuration: Settings) -> MastodonAdapter:
            timelines = configuration.auto_comment.get_chats("mastodon")
            return MastodonAdapter(settings(peer, tmp_path), MemoryPositions(), timelines, MastodonIntervals())

        series = await raced(tmp_path, network, make)
        comments = peer.posts()
    positions = {number: series.position(number) for number in series.posts}
    permitted = [number for number in range(RACES) if series.clock.permits(number)]
    won = [number for number in permitted if positions[number] in (1, 2)]
    print(f"{len(won)} of {len(permitted)} permitted races of {RACES} won; positions {sorted(positions.values())}")
    assert max(positions.values()) <= len(COMPETITORS)
    assert [positions[number] for number in HOPELESS] == [0] * len(HOPELESS)
    assert len(won) / len(permitted) > 0.95
    assert comments
    assert all(NEWS.url in comment.text for comment in comments)
    assert peer.violations == []
