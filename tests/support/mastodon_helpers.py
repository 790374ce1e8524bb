"""What the tests of the Mastodon adapter share: settings for a peer, short pauses, and a bot with its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import select

from bots.daemon.adapters import JournalPositions
from bots.mastodon.adapter import MastodonAdapter
from bots.mastodon.connection import MastodonIntervals
from core.messaging.inbox import Inbox
from core.ports import Sink
from core.settings import MastodonSettings, Secret
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Citation, Question, Reply
from tests.support.fixtures import settings as make_settings
from tests.support.peers.mastodon import MastodonPeer, Status
from tests.support.wiring import make_processor

PACE = MastodonIntervals(retry_s=0.02, max_retry_s=0.1, retry_timeout_s=5, silence_s=5, read_s=30, timeout_s=10)


def settings(peer: MastodonPeer, folder: Path, **changes: int) -> MastodonSettings:
    """Return settings for an account on a peer."""
    (folder / "mastodon-token").write_text(peer.token + "\n")
    return MastodonSettings(url=peer.url, token=Secret(file=folder / "mastodon-token"), **changes)


class MemoryPositions:
    """Positions that last as long as a test."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}

    async def load(self, name: str) -> int | None:
        return self.by_name.get(name)

    async def save(self, name: str, position: int) -> None:
        self.by_name[name] = position


class MastodonBot:
    """An adapter on a peer, with an inbox, a journal and a scripted answer."""

    def __init__(self, peer: MastodonPeer, folder: Path) -> None:
        self.peer = peer
        self.folder = folder
        self.says = "Use pip."
        self.citations: Sequence[Citation] = ()
        self.questions: list[Question] = []
        self.hold: asyncio.Event | None = None
        self.pace = PACE
        self.changes: dict[str, object] = {}
        self.answers_per_thread = 5

    async def start(self) -> None:
        self.journal = await Journal.open(self.folder / "journal.db")
        configuration = make_settings(**self.changes)  # type: ignore[arg-type]
        self.adapter = MastodonAdapter(
            settings(self.peer, self.folder, answers_per_thread=self.answers_per_thread),
            JournalPositions(self.journal, "mastodon"),
            configuration.auto_comment.get_chats("mastodon"),
            self.pace,
        )
        await self.adapter.open()
        self.inbox: Inbox = make_processor(configuration, self.journal, self._answer)
        await self.inbox.resume(self.adapter)
        self._task = asyncio.create_task(self.adapter.listen(self.inbox.handler_for(self.adapter)))
        await self.peer.until_streaming()

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.inbox.drain(0)
        await self.adapter.close()
        await self.journal.close()

    async def restart(self, **changes: object) -> None:
        """Stop, and start with other settings."""
        await self.stop()
        self.changes = {**self.changes, **changes}
        await self.start()

    async def _answer(self, question: Question, sink: Sink) -> Reply:
        self.questions.append(question)
        await sink.open()
        if self.hold:
            await self.hold.wait()
        reply = Reply(self.says, tuple(self.citations))
        await sink.finish(reply)
        return reply

    async def outcome(self, status_id: str) -> tuple[str, str]:
        """Wait until a status is answered, silent or failed; return that, and the reason."""
        return await self._read(status_id, ("answered", "silent", "failed"))

    async def heard(self, status_id: str) -> None:
        """Wait until a status is in the journal."""
        await self._read(status_id, ())

    async def _read(self, status_id: str, states: Sequence[str]) -> tuple[str, str]:
        query = select(messages.c.state, messages.c.reason).where(messages.c.id == status_id)
        async with asyncio.timeout(30):
            while True:
                async with self.journal.database.connect() as connection:
                    row = (await connection.execute(query)).first()
                if row and (not states or row.state in states):
                    return str(row.state), str(row.reason or "")
                await asyncio.sleep(0.01)

    async def ask(self, text: str = "@kimas how do I install it?", name: str = "ann", **fields: object) -> Status:
        """Let somebody ask, and return the bot's first status that answers."""
        domain = str(fields.pop("domain", ""))
        question = await self.peer.say(self.peer.account(name, domain), text, **fields)  # type: ignore[arg-type]
        assert await self.outcome(question) == ("answered", "")
        return next(status for status in self.peer.posts() if status.reply_to == question)

    async def skipped(self, reason: str) -> None:
        """Wait until the adapter has ignored something for this reason."""
        async with asyncio.timeout(30):
            while not any(reason in name for name in self.adapter.skipped):
                await asyncio.sleep(0.005)
