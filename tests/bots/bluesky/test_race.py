"""Races below posts of lists on Bluesky, where the server itself is asked how many bots have replied."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bots.bluesky.adapter import BlueskyAdapter
from bots.bluesky.connection import BlueskyIntervals
from core.settings import Settings
from tests.support.bluesky_helpers import settings
from tests.support.journalled_bot import MemoryPositions
from tests.support.peers.bluesky import BOT, Account, BlueskyPeer
from tests.support.race_helpers import CHATS, COMPETITORS, HOPELESS, LATER_S, NEWS, RACES, US, raced

pytestmark = pytest.mark.usefixtures("time_lapse")


@dataclass
class OnBluesky:
    """Implements `Network` over the peer, with a list for each chat."""

    peer: BlueskyPeer
    lists: list[str] = field(default_factory=lambda: [f"games{number}" for number in range(CHATS)])

    posts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chats = [f"bluesky:list/{name}" for name in self.lists]
        self.peer.lists = {name: {self._author(name).handle} for name in self.lists}

    def _author(self, name: str) -> Account:
        return self.peer.account(f"author-{name}")

    async def ready(self) -> None:
        # Each list was read, and then again.
        await self.peer.until_polled("GET getListFeed", 2 * len(self.lists))

    async def post(self, chat: str, number: int, text: str) -> str:
        post = self.peer.say(self._author(chat.partition("/")[2]), text, age_s=-LATER_S)
        self.posts.add(post)
        return post

    async def reply(self, post: str, competitor: str) -> None:
        self.peer.say(self.peer.account(competitor, bot=True), "What a jump!", reply_to=post, age_s=-LATER_S)

    def below(self, post: str) -> list[str]:
        authors = [reply.author for reply in self.peer.posts_by_uri.values() if reply.reply_to == post]
        return [US if author == BOT else author.handle.partition(".")[0] for author in authors]


async def test_on_bluesky_we_are_among_the_first_two_or_silent_never_the_third(tmp_path: Path) -> None:
    async with BlueskyPeer() as peer:
        network = OnBluesky(peer)

        def make(configuration: Settings) -> BlueskyAdapter:
            feeds = configuration.auto_comment.get_chats("bluesky")
            agreed = tuple(account.did for account in peer.accounts.values())
            configured = settings(peer, tmp_path, comment_below=agreed)
            return BlueskyAdapter(configured, MemoryPositions(), feeds, None, BlueskyIntervals())

        series = await raced(tmp_path, network, make)
        comments = peer.posts()
    positions = {number: series.position(number) for number in series.posts}
    permitted = [number for number in range(RACES) if series.clock.permits(number)]
    won = [number for number in permitted if positions[number] in (1, 2)]
    print(f"{len(won)} of {len(permitted)} permitted races of {RACES} won; positions {sorted(positions.values())}")
    assert max(positions.values()) <= len(COMPETITORS)
    assert [positions[number] for number in HOPELESS] == [0] * len(HOPELESS)
    assert len(won) / len(permitted) > 0.95
    first_parts = [comment for comment in comments if comment.reply_to in network.posts]
    assert first_parts
    assert all(NEWS.url in [address for _, address in comment.links()] for comment in first_parts)
    assert peer.violations == []
