"""What the tests of forges share: settings for a peer, short pauses, and a bot with its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bots.daemon.adapters import JournalAccounts
from bots.forges.adapter import ForgeAdapter
from bots.forges.connection import ForgeIntervals
from core.settings import GithubSettings, GitlabSettings, Secret, Settings
from core.types import Message
from tests.support.journalled_bot import JournalledBot, MemoryPositions
from tests.support.peers.github import REPOSITORY, GithubPeer, Note
from tests.support.peers.gitlab import GitlabPeer

PACE = ForgeIntervals(
    retry_s=0.02, max_retry_s=0.1, retry_timeout_s=5, write_s=0.01, reactions_s=0.05, wake_s=0.01, timeout_s=10
)
POLL_S = 0.03
SMALL_TALK = "It is hot today"


def settings(peer: GithubPeer, folder: Path, **changes: Any) -> GithubSettings | GitlabSettings:
    """Return settings for an account on a peer."""
    (folder / "forge-token").write_text(peer.token + "\n")
    token = Secret(file=folder / "forge-token")
    if isinstance(peer, GitlabPeer):
        values = {"projects": (REPOSITORY,), "poll_s": POLL_S, **changes}
        return GitlabSettings(api_url=peer.url, token=token, **values)
    values = {"repositories": (REPOSITORY,), "poll_s": POLL_S, "token": token, **changes}
    return GithubSettings(api_url=peer.url, **values)


async def ignore(message: Message) -> None:
    """Take a message, and do nothing with it."""


class ForgeBot(JournalledBot):
    """An adapter on a peer of a forge, with an inbox, a journal and a scripted answer."""

    def __init__(self, peer: GithubPeer, folder: Path, **section: Any) -> None:
        super().__init__(folder)
        # A repository is there before anybody writes in it.
        peer.repositories[REPOSITORY].can_write = True
        self.peer = peer
        self.section = section
        self.pace = PACE
        # Who has rights.
        self.people = set[str]()

    async def __aenter__(self) -> ForgeBot:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    def make_adapter(self, configuration: Settings) -> ForgeAdapter:
        section = settings(self.peer, self.folder, **self.section)
        platform = "gitlab" if isinstance(self.peer, GitlabPeer) else "github"
        return ForgeAdapter(section, JournalAccounts(self.journal, platform), lambda: self.people, self.pace)

    async def until_listening(self) -> None:
        # A look takes two requests of a kind. Where the next one is far, there is no other to wait for.
        await self.peer.until_polled(5 if self.section.get("poll_s", 0) < 60 else 2)

    async def listen(self) -> None:
        """Listen until it fails."""
        adapter = ForgeAdapter(settings(self.peer, self.folder, **self.section), MemoryPositions(), intervals=self.pace)
        await adapter.open()
        try:
            await adapter.listen(ignore)
        finally:
            await adapter.close()

    async def restart(self, **section: object) -> None:
        """Stop, and start with other settings of the section."""
        await self.stop()
        self.section = {**self.section, **section}
        await self.start()

    async def ask(self, text: str = "@kimas how do I install it?", author: str = "ann", **fields: Any) -> Note:
        """Let somebody open an issue that asks, and return the bot's comment."""
        number = self.peer.open("A question", text, author, **fields)
        assert await self.outcome(f"issues/{number}") == ("answered", "")
        return next(note for note in self.peer.posts() if note.number == number)

    async def command(self, text: str, author: str = "ann") -> str:
        """Let somebody give a command in a comment below an issue, and return what the bot says."""
        number = self.peer.open(SMALL_TALK, "", author)
        await self.outcome(self.peer.comment(number, f"@kimas {text}", author))
        return "\n".join(note.text for note in self.peer.posts() if note.number == number)
