"""Races in announcement channels of Discord, where nobody but us can count the bots below a post."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bots.discord.adapter import DiscordAdapter
from core.settings import Settings
from tests.bots.discord_helpers import Positions, settings
from tests.bots.race_helpers import CHATS, LATER_S, NEWS, RIVALS, US, raced
from tests.peers.discord import Author, DiscordPeer

pytestmark = pytest.mark.usefixtures("time_lapse")
ANNOUNCEMENTS = 5
ROBOTS = {name: Author(f"200{number}", name, name.title(), bot=True) for number, name in enumerate(RIVALS)}


@dataclass
class OnDiscord:
    """Implements `Network` over the peer, in channels that take few messages each."""

    peer: DiscordPeer
    rooms: list[str] = field(default_factory=list)
    room_of: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rooms = [self.peer.channel(ANNOUNCEMENTS) for _ in range(CHATS)]
        self.chats = [f"discord:{room}" for room in self.rooms]

    async def ready(self) -> None:
        await self.peer.connected()

    async def post(self, chat: str, number: int, text: str) -> str:
        post = await self.peer.say(chat, text, at=time.time() + LATER_S)
        self.room_of[post] = chat
        return post

    async def reply(self, post: str, rival: str) -> None:
        at = time.time() + LATER_S
        await self.peer.say(self.room_of[post], "What a jump!", author=ROBOTS[rival], reply_to=post, at=at)

    def below(self, post: str) -> list[str]:
        messages = self.peer.channels[self.room_of[post]].messages.values()
        authors = [message.author for message in messages if message.reply_to == post]
        return [US if author == self.peer.me else author.username for author in authors]


async def test_on_discord_we_are_among_the_first_two_or_silent_never_the_third(tmp_path: Path) -> None:
    async with DiscordPeer(limit=(5, 5)) as peer:
        network = OnDiscord(peer)

        def make(configuration: Settings) -> DiscordAdapter:
            chats = configuration.auto_comment.get_chats("discord")
            return DiscordAdapter(settings(peer, tmp_path), Positions(), bot_message_chats=chats)

        series = await raced(tmp_path, network, make)
        series.judge()
        comments = [message for room in network.rooms for message in peer.messages(room)]
    assert comments
    assert all(NEWS.url in comment.content for comment in comments)
    assert not peer.exceeded
