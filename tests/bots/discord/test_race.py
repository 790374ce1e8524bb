"""Races in announcement channels of Discord, where nobody but us can count the bots below a post."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bots.discord.adapter import DiscordAdapter
from core.settings import Settings
from tests.support.discord_helpers import Positions, settings
from tests.support.peers.discord import Author, DiscordPeer
from tests.support.race_helpers import CHATS, COMPETITORS, LATER_S, NEWS, US, raced

pytestmark = pytest.mark.usefixtures("time_lapse")
ANNOUNCEMENTS = 5
ROBOTS = {name: Author(f"200{number}", name, name.title(), bot=True) for number, name in enumerate(COMPETITORS)}


@dataclass
class OnDiscord:
    """Implements `Network` over the peer, in channels that take few messages each."""

    peer: DiscordPeer
    channel_ids: list[str] = field(default_factory=list)
    channel_by_post: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.channel_ids = [self.peer.channel(ANNOUNCEMENTS) for _ in range(CHATS)]
        self.chats = [f"discord:{channel_id}" for channel_id in self.channel_ids]

    async def ready(self) -> None:
        await self.peer.connected()

    async def post(self, chat: str, number: int, text: str) -> str:
        post = await self.peer.say(chat, text, at=time.time() + LATER_S)
        self.channel_by_post[post] = chat
        return post

    async def reply(self, post: str, competitor: str) -> None:
        at = time.time() + LATER_S
        await self.peer.say(self.channel_by_post[post], "What a jump!", author=ROBOTS[competitor], reply_to=post, at=at)

    def below(self, post: str) -> list[str]:
        messages = self.peer.channels[self.channel_by_post[post]].messages.values()
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
        comments = [message for channel_id in network.channel_ids for message in peer.messages(channel_id)]
    assert comments
    assert all(NEWS.url in comment.content for comment in comments)
    assert not peer.exceeded
