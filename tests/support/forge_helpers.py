"""What the tests of forges share: settings for a peer, short pauses, and a bot with its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import select

from bots.daemon.adapters import JournalPositions
from bots.forges.adapter import ForgeAdapter
from bots.forges.connection import ForgeIntervals
from core.messaging.inbox import Inbox
from core.ports import Sink
from core.settings import GithubSettings, GitlabSettings, Secret
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Citation, Message, Question, Reply
from tests.support.fixtures import settings as make_settings
from tests.support.mastodon_helpers import MemoryPositions
from tests.support.peers.github import REPOSITORY, GithubPeer, Note
from tests.support.peers.gitlab import GitlabPeer
from tests.support.wiring import make_processor

PACE = ForgeIntervals(
    retry_s=0.02, max_retry_s=0.1, retry_timeout_s=5, write_s=0.01, reactions_s=0.05, wake_s=0.01, timeout_s=10
)
POLL_S = 0.03


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


class ForgeBot:
    """An adapter on a peer, with an inbox, a journal and a scripted answer."""

    def __init__(self, peer: GithubPeer, folder: Path, **section: Any) -> None:
        # A repository is there before anybody writes in it.
        peer.repositories[REPOSITORY].can_write = True
        self.peer = peer
        self.folder = folder
        self.section = section
        self.says = "Use pip."
        self.citations: Sequence[Citation] = ()
        self.finds_nothing = False
        self.questions: list[Question] = []
        self.hold: asyncio.Event | None = None
        self.pace = PACE
        self.changes: dict[str, object] = {}

    async def __aenter__(self) -> ForgeBot:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self.journal = await Journal.open(self.folder / "journal.db")
        configuration = make_settings(**self.changes)  # type: ignore[arg-type]
        self.adapter = ForgeAdapter(
            settings(self.peer, self.folder, **self.section), JournalPositions(self.journal, "forge"), self.pace
        )
        await self.adapter.open()
        self.inbox: Inbox = make_processor(configuration, self.journal, self._answer)
        await self.inbox.resume(self.adapter)
        self._task = asyncio.create_task(self.adapter.listen(self.inbox.handler_for(self.adapter)))
        # A look takes two requests of a kind. Where the next one is far, there is no other to wait for.
        await self.peer.until_polled(5 if self.section.get("poll_s", 0) < 60 else 2)

    async def listen(self) -> None:
        """Listen until it fails."""
        adapter = ForgeAdapter(settings(self.peer, self.folder, **self.section), MemoryPositions(), self.pace)
        await adapter.open()
        try:
            await adapter.listen(ignore)
        finally:
            await adapter.close()

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.inbox.drain(0)
        await self.adapter.close()
        await self.journal.close()

    async def restart(self, **section: object) -> None:
        """Stop, and start with other settings of the section."""
        await self.stop()
        self.section = {**self.section, **section}
        await self.start()

    async def _answer(self, question: Question, sink: Sink) -> Reply:
        self.questions.append(question)
        await sink.open()
        if self.hold:
            await self.hold.wait()
        reply = Reply(self.says, tuple(self.citations), found_nothing=self.finds_nothing)
        await sink.finish(reply)
        return reply

    async def outcome(self, message_id: str | int) -> tuple[str, str]:
        """Wait until a message is answered, silent or failed; return that, and the reason."""
        return await self._read(str(message_id), ("answered", "silent", "failed"))

    async def heard(self, message_id: str | int) -> None:
        """Wait until a message is in the journal."""
        await self._read(str(message_id), ())

    async def _read(self, message_id: str, states: Sequence[str]) -> tuple[str, str]:
        query = select(messages.c.state, messages.c.reason).where(messages.c.id == message_id)
        async with asyncio.timeout(30):
            while True:
                async with self.journal.database.connect() as connection:
                    row = (await connection.execute(query)).first()
                if row and (not states or row.state in states):
                    return str(row.state), str(row.reason or "")
                await asyncio.sleep(0.01)

    async def list_messages(self) -> set[str]:
        """Return the ids of the messages in the journal."""
        async with self.journal.database.connect() as connection:
            rows = (await connection.execute(select(messages.c.id))).fetchall()
        return {str(row.id) for row in rows}

    async def ask(self, text: str = "@kimas how do I install it?", author: str = "ann", **fields: Any) -> Note:
        """Let somebody open an issue that asks, and return the bot's comment."""
        number = self.peer.open("A question", text, author, **fields)
        assert await self.outcome(f"issues/{number}") == ("answered", "")
        return next(note for note in self.peer.posts() if note.number == number)

    async def skipped(self, reason: str) -> None:
        """Wait until the adapter has ignored something for this reason."""
        async with asyncio.timeout(30):
            while not any(reason in name for name in self.adapter.skipped):
                await asyncio.sleep(0.005)
