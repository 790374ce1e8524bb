"""What the tests of the Bluesky adapter share: settings for a peer, short pauses, and a bot with its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bots.bluesky.adapter import BlueskyAdapter
from bots.bluesky.connection import BlueskyIntervals
from bots.daemon.adapters import JournalPositions
from core.settings import BlueskySettings, Secret, Settings
from tests.support.journalled_bot import JournalledBot
from tests.support.peers.bluesky import BOT, BlueskyPeer, Post

PACE = BlueskyIntervals(retry_s=0.02, max_retry_s=0.1, retry_timeout_s=5, poll_s=0.02, timeout_s=10)
# What means the bot.
AT = f"@{BOT.handle} "


def settings(peer: BlueskyPeer, folder: Path, **changes: Any) -> BlueskySettings:
    """Return settings for an account on a peer."""
    (folder / "app-password").write_text(peer.password + "\n")
    secret = Secret(file=folder / "app-password")
    return BlueskySettings(url=peer.url, handle=BOT.handle, app_password=secret, **changes)


class BlueskyBot(JournalledBot):
    """An adapter on a peer of Bluesky, with an inbox, a journal and a scripted answer."""

    def __init__(self, peer: BlueskyPeer, folder: Path) -> None:
        super().__init__(folder)
        self.peer = peer
        self.pace = PACE
        self.comment_below: tuple[str, ...] = ()

    def make_adapter(self, configuration: Settings) -> BlueskyAdapter:
        return BlueskyAdapter(
            settings(self.peer, self.folder, comment_below=self.comment_below),
            JournalPositions(self.journal, "bluesky"),
            configuration.auto_comment.get_chats("bluesky"),
            self.folder / "bluesky.session",
            self.pace,
        )

    async def until_listening(self) -> None:
        await self.peer.until_polled()

    async def ask(self, text: str = f"{AT}how do I install it?", name: str = "ann", **fields: Any) -> Post:
        """Let somebody ask, and return the bot's first post that answers."""
        question = self.peer.say(self.peer.account(name), text, **fields)
        assert await self.outcome(question) == ("answered", "")
        return next(post for post in self.peer.posts() if post.reply_to == question)
