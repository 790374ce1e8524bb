"""What the tests of the Mastodon adapter share: settings for a peer, short pauses, and a bot with its journal."""

from __future__ import annotations

from pathlib import Path

from bots.daemon.adapters import JournalPositions
from bots.mastodon.adapter import MastodonAdapter
from bots.mastodon.connection import MastodonIntervals
from core.settings import MastodonSettings, Secret, Settings
from tests.support.journalled_bot import JournalledBot
from tests.support.peers.mastodon import MastodonPeer, Status

PACE = MastodonIntervals(retry_s=0.02, max_retry_s=0.1, retry_timeout_s=5, silence_s=5, read_s=30, timeout_s=10)


def settings(peer: MastodonPeer, folder: Path, **changes: int) -> MastodonSettings:
    """Return settings for an account on a peer."""
    (folder / "mastodon-token").write_text(peer.token + "\n")
    return MastodonSettings(url=peer.url, token=Secret(file=folder / "mastodon-token"), **changes)


class MastodonBot(JournalledBot):
    """An adapter on a peer of Mastodon, with an inbox, a journal and a scripted answer."""

    def __init__(self, peer: MastodonPeer, folder: Path) -> None:
        super().__init__(folder)
        self.peer = peer
        self.pace = PACE
        self.answers_per_thread = 5

    def make_adapter(self, configuration: Settings) -> MastodonAdapter:
        return MastodonAdapter(
            settings(self.peer, self.folder, answers_per_thread=self.answers_per_thread),
            JournalPositions(self.journal, "mastodon"),
            configuration.auto_comment.get_chats("mastodon"),
            self.pace,
        )

    async def until_listening(self) -> None:
        await self.peer.until_streaming()

    async def ask(self, text: str = "@kimas how do I install it?", name: str = "ann", **fields: object) -> Status:
        """Let somebody ask, and return the bot's first status that answers."""
        domain = str(fields.pop("domain", ""))
        question = await self.peer.say(self.peer.account(name, domain), text, **fields)  # type: ignore[arg-type]
        assert await self.outcome(question) == ("answered", "")
        return next(status for status in self.peer.posts() if status.reply_to == question)
